import { Console } from "effect"
import { Argument, Command, Completions, GlobalFlag } from "effect/cli"

/** The shells that completion scripts are printed for. */
const shells = ["bash", "zsh", "fish"] as const

type Shell = (typeof shells)[number]

/** The flags that every command accepts, which `Completions.fromCommand` leaves out. */
const globalFlags: ReadonlyArray<Completions.FlagDescriptor> = Completions.fromCommand(
  Command.make("global", { help: GlobalFlag.Help.flag, logLevel: GlobalFlag.LogLevel.flag })
).flags.map((flag) => ({ ...flag, negation: false }))

const withGlobalFlags = (command: Completions.CommandDescriptor): Completions.CommandDescriptor => ({
  ...command,
  flags: [...command.flags, ...globalFlags],
  subcommands: command.subcommands.map(withGlobalFlags)
})

/**
 * Lets readline complete paths: it adds a slash to a directory instead of a space, and quotes names. It also completes files for values
 * that the script has no words for, and in place of directories if none matches, as zsh does. Bash 3.2 has no `compopt`: it offers both.
 */
const pathsByReadline = (script: string): string => {
  const helper = /^(\S+--paths)\(\)$/m.exec(script)?.[1]
  if (helper === undefined) throw new Error("the bash completion has no function that completes paths")
  return script.replace(
    /^complete -F /m,
    () => `${helper}()
{
  COMPREPLY=()
  [[ "$1" != -d ]] || compopt -o dirnames 2>/dev/null
}

complete -o default -F `
  )
}

const generate = (command: Command.Command.Any, shell: Shell): string => {
  const script = Completions.generate(
    command.name,
    shell,
    withGlobalFlags(Completions.fromCommand(command))
  ).replaceAll(`${command.name} --completions ${shell}`, `${command.name} completion ${shell}`)
  return shell === "bash" ? pathsByReadline(script) : script
}

/** Prints the completion script of a command, which contains this one too. */
export const makeCompletionCommand = (root: () => Command.Command.Any) =>
  Command.make(
    "completion",
    { shell: Argument.Literals("shell", shells).pipe(Argument.withDescription("bash, zsh or fish")) },
    ({ shell }) => Console.log(generate(root(), shell))
  ).pipe(
    Command.withShortDescription("Print a completion script for a shell"),
    Command.withDescription("Print a script with which the shell completes commands, flags and paths."),
    Command.withExamples([
      { command: 'eval "$(countersign completion bash)"', description: "Complete in this bash" },
      {
        command: 'countersign completion zsh > "${fpath[1]}/_countersign"',
        description: "Complete in every new zsh"
      },
      {
        command: "countersign completion fish > ~/.config/fish/completions/countersign.fish",
        description: "Complete in every new fish"
      }
    ])
  )
