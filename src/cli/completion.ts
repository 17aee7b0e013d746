import { Console } from "effect"
import { Argument, Command, Completions } from "effect/cli"

/** The shells that completion scripts are printed for. */
const shells = ["bash", "zsh", "fish"] as const

/** Prints the completion script of a command, which contains this one too. */
export const makeCompletionCommand = (root: () => Command.Command.Any) =>
  Command.make(
    "completion",
    { shell: Argument.Literals("shell", shells).pipe(Argument.withDescription("bash, zsh or fish")) },
    ({ shell }) => {
      const command = root()
      return Console.log(Completions.generate(command.name, shell, Completions.fromCommand(command)))
    }
  ).pipe(
    Command.withShortDescription("Print a completion script for a shell"),
    Command.withDescription("Print a script with which the shell completes commands and flags."),
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
