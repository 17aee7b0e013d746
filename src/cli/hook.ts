import { Effect, Option } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import type { HookVendor } from "../domain/hooks/hookVendors.ts"
import { lazily } from "./lazily.ts"
import { DEFAULT_URL, DEFAULT_WAIT } from "./hook/hookOptions.ts"
import { pathFlag } from "./path.ts"

const flags = {
  url: Flag.String("url").pipe(
    Flag.withDescription(
      `Base URL of the service; default: the variable COUNTERSIGN_URL, else ${DEFAULT_URL}`
    ),
    Flag.optional
  ),
  keyFile: pathFlag("key-file").pipe(
    Flag.withDescription("File with the API key, of the preset hook. Default: the variable COUNTERSIGN_KEY"),
    Flag.optional
  ),
  wait: Flag.String("wait").pipe(
    Flag.withDescription(
      `How long a call waits for a person, such as 90s or 2h; default: ${DEFAULT_WAIT}. The hook's timeout in the settings must be a minute ` +
        "longer: the coding agents let a call pass whose hook takes too long"
    ),
    Flag.optional
  ),
  state: pathFlag("state", "directory").pipe(
    Flag.withDescription(
      "Directory for the hook's files; default: countersign/hooks in XDG_STATE_HOME or ~/.local/state"
    ),
    Flag.optional
  ),
  defer: Flag.Boolean("defer").pipe(
    Flag.withDescription(
      "Claude Code only: end a headless run at a call that needs a person, to resume it later"
    ),
    Flag.withDefault(false)
  )
}

/** `main.ts` runs these commands without this module. It describes their flags, and refuses wrong ones. */
const vendorCommand = (vendor: HookVendor, name: string) =>
  Command.make(vendor, flags, ({ defer, ...texts }) =>
    Effect.promise(async () => {
      const { main } = await import("./hook/main.ts")
      const { keyFile, state, url, wait } = texts
      return main(vendor, {
        defer,
        keyFile: Option.getOrUndefined(keyFile),
        state: Option.getOrUndefined(state),
        url: Option.getOrUndefined(url),
        wait: Option.getOrUndefined(wait)
      })
    })
  ).pipe(
    Command.withShortDescription(`Answer a hook of ${name}`),
    Command.withDescription(
      `Answer a hook of ${name}: reads its JSON from standard input and prints the answer. Exits with 2, which blocks, if it cannot answer.`
    ),
    Command.withExamples([
      {
        command: `countersign hook ${vendor} --wait 9m`,
        description: `The command of a hook in the settings of ${name}`
      }
    ])
  )

const place = {
  user: Flag.Boolean("user").pipe(
    Flag.withDescription("The user's settings. Default: those of the project in the current directory"),
    Flag.withDefault(false)
  ),
  managed: Flag.Boolean("managed").pipe(
    Flag.withDescription(
      "The machine's settings, which users, projects and the agent itself cannot change. For root"
    ),
    Flag.withDefault(false)
  ),
  yes: Flag.Boolean("yes").pipe(
    Flag.withDescription("Write without asking. Required if this is not a terminal"),
    Flag.withDefault(false)
  ),
  agent: Argument.Literals("agent", ["claude-code", "codex"]).pipe(
    Argument.withDescription("The coding agent")
  )
}

const install = Command.make(
  "install",
  {
    http: Flag.Boolean("http").pipe(
      Flag.withDescription(
        "Claude Code only: let it post to the service, instead of starting a command for each call"
      ),
      Flag.withDefault(false)
    ),
    program: Flag.String("program").pipe(
      Flag.withDescription(
        "Command line that starts Countersign, such as `npx countersign`; default: countersign"
      ),
      Flag.withDefault("countersign")
    ),
    url: Flag.String("url").pipe(
      Flag.withDescription(
        "Base URL of the service that the hooks call; default: the variable COUNTERSIGN_URL"
      ),
      Flag.optional
    ),
    trust: Flag.Boolean("trust").pipe(
      Flag.withDescription(
        "Codex only: note in the user's settings that the hooks are trusted. Codex skips hooks that are not"
      ),
      Flag.withDefault(false)
    ),
    wait: flags.wait,
    keyFile: flags.keyFile,
    defer: flags.defer,
    ...place
  },
  lazily(async () => (await import("./hook/install.ts")).installHooks)
).pipe(
  Command.withShortDescription("Write the hooks to a coding agent's settings"),
  Command.withDescription(
    "Write the hooks to a coding agent's settings. Shows the difference and asks. Keeps everything else in the file. The API key is not " +
      "written: the hooks read it from COUNTERSIGN_KEY, or from the file that is given. Exits with 1 if Codex does not run the hooks then."
  ),
  Command.withExamples([
    { command: "countersign hook install claude-code", description: "Govern Claude Code in this project" },
    {
      command: "countersign hook install codex --managed --wait 30m",
      description: "Govern Codex on this machine"
    }
  ])
)

const uninstall = Command.make(
  "uninstall",
  place,
  lazily(async () => (await import("./hook/install.ts")).uninstallHooks)
).pipe(
  Command.withShortDescription("Remove the hooks from a coding agent's settings"),
  Command.withDescription("Remove the hooks from a coding agent's settings. Shows the difference and asks."),
  Command.withExamples([
    {
      command: "countersign hook uninstall claude-code",
      description: "Stop governing Claude Code in this project"
    }
  ])
)

const check = Command.make(
  "check",
  {
    agent: Argument.Literals("agent", ["codex"]).pipe(Argument.withDescription("The coding agent"))
  },
  lazily(async () => (await import("./hook/install.ts")).checkHooks)
).pipe(
  Command.withShortDescription("Ask a coding agent whether it runs the hooks"),
  Command.withDescription(
    "Ask Codex whether it runs the hooks in the current directory: it skips hooks that are new or changed until somebody trusts them, and says " +
      "nothing. Exits with 1 if calls are not governed, and with 2 if Codex cannot be asked."
  ),
  Command.withExamples([
    { command: "countersign hook check codex", description: "Before an unattended run of `codex exec`" }
  ])
)

export const hookCommand = Command.make("hook").pipe(
  Command.withShortDescription("Govern a coding agent by its hooks"),
  Command.withDescription(
    "Govern the calls of tools of a coding agent: approval rules decide, or a person does, and outcomes are recorded."
  ),
  Command.withSubcommands([
    vendorCommand("claude-code", "Claude Code"),
    vendorCommand("codex", "Codex"),
    install,
    check,
    uninstall
  ])
)
