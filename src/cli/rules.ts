import { Argument, Command, Flag } from "effect/cli"
import { lazily } from "./lazily.ts"
import { secretFlags } from "./secretFlag.ts"

/** Where the commands find their API key. */
export const rulesKey = {
  flag: "key",
  variable: "COUNTERSIGN_KEY",
  what: "API key with the scope approvals.read, and rules.write for apply"
}

const connection = {
  url: Flag.String("url").pipe(
    Flag.withDescription("Base URL of the service; default: http://127.0.0.1:8080"),
    Flag.withDefault("http://127.0.0.1:8080")
  ),
  ...secretFlags(rulesKey)
}

const path = Argument.String("file").pipe(
  Argument.withDescription("File with the rules: .yaml, .yml or .json")
)

const handlers = () => import("./rules/handlers.ts")

const pull = Command.make(
  "pull",
  {
    ...connection,
    format: Flag.Literals("format", ["yaml", "json"]).pipe(
      Flag.withDescription("Format of the output without a file; default: yaml"),
      Flag.withDefault("yaml")
    ),
    path: path.pipe(Argument.optional)
  },
  lazily(async () => (await handlers()).pullRules)
).pipe(
  Command.withShortDescription("Write the service's rules to a file"),
  Command.withDescription(
    "Write the service's rules to a file, or print them. Members with their default value are left out. In an existing YAML file, the " +
      "comments of rules that are still there are kept. A file that already says the same is not touched."
  ),
  Command.withExamples([
    {
      command: "COUNTERSIGN_KEY=csk_… countersign rules pull rules.yaml",
      description: "Start with the current rules"
    }
  ])
)

const diff = Command.make(
  "diff",
  { ...connection, path },
  lazily(async () => (await handlers()).diffRules)
).pipe(
  Command.withShortDescription("Show what a file would change"),
  Command.withDescription(
    "Show what applying a file would change. Exits with 0 if nothing, 1 if something, and 2 if it cannot be compared."
  )
)

const test = Command.make(
  "test",
  {
    ...connection,
    since: Flag.String("since").pipe(
      Flag.withDescription(
        "Start of the window: a duration before its end, such as 12h or 30d, or a time; default: 30d"
      ),
      Flag.withDefault("30d")
    ),
    until: Flag.String("until").pipe(
      Flag.withDescription("End of the window: a duration before now, or a time; default: now"),
      Flag.optional
    ),
    json: Flag.Boolean("json").pipe(
      Flag.withDescription("Print the lines of the API as they are"),
      Flag.withDefault(false)
    ),
    path
  },
  lazily(async () => (await handlers()).testRules)
).pipe(
  Command.withShortDescription("Test a file on past steps"),
  Command.withDescription(
    "Evaluate the rules of a file on every step of a window of time, without applying them, and compare with the recorded decisions. Exits " +
      "with 1 if a step that a person rejected would run, 0 if none would, and 2 if the test cannot be made."
  ),
  Command.withExamples([
    { command: "countersign rules test --since 30d rules.yaml", description: "Test a change in CI" }
  ])
)

const apply = Command.make(
  "apply",
  {
    ...connection,
    revision: Flag.Int("revision").pipe(
      Flag.withDescription("Refuse if the service's rules no longer have this revision"),
      Flag.optional
    ),
    path
  },
  lazily(async () => (await handlers()).applyRules)
).pipe(
  Command.withShortDescription("Replace the service's rules by a file"),
  Command.withDescription(
    "Replace the service's rules by those of a file, after showing what changes. Fails if the rules change meanwhile. Rules without an id " +
      "keep the id of an equal rule. Exits with 0 if the rules are now those of the file, and 2 if not."
  ),
  Command.withExamples([
    { command: "countersign rules apply --revision 12 rules.yaml", description: "Apply a reviewed change" }
  ])
)

export const rulesCommand = Command.make("rules").pipe(
  Command.withShortDescription("Keep approval rules in a file"),
  Command.withDescription(
    "Keep approval rules in a YAML or JSON file: write, compare, test and apply them. Calls a running service with an API key."
  ),
  Command.withSubcommands([pull, diff, test, apply])
)
