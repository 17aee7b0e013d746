import { Argument, Command, Flag } from "effect/cli"
import { lazily } from "./lazily.ts"
import { fileArgument } from "./path.ts"
import { secretFlags } from "./secretFlag.ts"
import { serviceUrlFlag } from "./serviceUrl.ts"

/** Where the commands find their API key. */
export const rulesKey = {
  flag: "key",
  variable: "COUNTERSIGN_KEY",
  what: "API key with the scope approvals.read, and rules.write for changes"
}

const connection = {
  url: serviceUrlFlag,
  ...secretFlags(rulesKey)
}

const path = fileArgument("file").pipe(Argument.withDescription("File with the rules: .yaml, .yml or .json"))

const handlers = () => import("./rules/handlers.ts")

const pullFlags = {
  ...connection,
  format: Flag.Literals("format", ["yaml", "json"]).pipe(
    Flag.withDescription("Format of the output without a file; default: yaml"),
    Flag.withDefault("yaml")
  ),
  path: path.pipe(Argument.optional)
}

const pull = Command.make(
  "pull",
  pullFlags,
  lazily(async () => (await handlers()).pullRules("live"))
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
  lazily(async () => (await handlers()).diffRules("live"))
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

const applyFlags = {
  ...connection,
  revision: Flag.Int("revision").pipe(
    Flag.withDescription("Refuse if the service's rules no longer have this revision"),
    Flag.optional
  ),
  path
}

const apply = Command.make(
  "apply",
  applyFlags,
  lazily(async () => (await handlers()).applyRules("live"))
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

const shadowPull = Command.make(
  "pull",
  pullFlags,
  lazily(async () => (await handlers()).pullRules("shadow"))
).pipe(Command.withShortDescription("Write the shadow rules to a file"))

const shadowDiff = Command.make(
  "diff",
  { ...connection, path },
  lazily(async () => (await handlers()).diffRules("shadow"))
).pipe(Command.withShortDescription("Show what a file would change in the shadow rules"))

const shadowApply = Command.make(
  "apply",
  applyFlags,
  lazily(async () => (await handlers()).applyRules("shadow"))
).pipe(
  Command.withShortDescription("Replace the shadow rules by a file"),
  Command.withDescription(
    "Replace the shadow rules by those of a file. They are evaluated for each new step and decide nothing; differences are counted from here " +
      "on. Applying a file that changes nothing keeps counting."
  )
)

const differences = Command.make(
  "differences",
  {
    ...connection,
    limit: Flag.Int("limit").pipe(
      Flag.withDescription("Most steps to list; default: 100"),
      Flag.withDefault(100),
      Flag.filter(
        (limit) => limit > 0,
        () => "Expected at least 1"
      )
    ),
    json: Flag.Boolean("json").pipe(
      Flag.withDescription("Print the pages of the API as they are, one a line"),
      Flag.withDefault(false)
    )
  },
  lazily(async () => (await handlers()).listShadowDifferences)
).pipe(
  Command.withShortDescription("List the steps on which the shadow rules differ"),
  Command.withDescription(
    "List the steps, newest first, for which the shadow rules have another effect than was decided, with their numbers by both effects."
  )
)

const promote = Command.make(
  "promote",
  {
    ...connection,
    revision: Flag.Int("revision").pipe(
      Flag.withDescription("The shadow revision to promote, as pull and differences print it")
    )
  },
  lazily(async () => (await handlers()).promoteShadowRules)
).pipe(
  Command.withShortDescription("Make the shadow rules live"),
  Command.withDescription(
    "Replace the live rules by the shadow rules, after showing what changes, and remove those. Fails if either list changes meanwhile."
  )
)

const remove = Command.make(
  "remove",
  connection,
  lazily(async () => (await handlers()).removeShadowRules)
).pipe(Command.withShortDescription("Remove the shadow rules"))

const shadow = Command.make("shadow").pipe(
  Command.withShortDescription("Evaluate a second list that decides nothing"),
  Command.withDescription(
    "Keep the shadow rules: a second list that is evaluated for each new step beside the live one and decides nothing."
  ),
  Command.withSubcommands([shadowPull, shadowDiff, shadowApply, differences, promote, remove])
)

export const rulesCommand = Command.make("rules").pipe(
  Command.withShortDescription("Keep approval rules in a file"),
  Command.withDescription(
    "Keep approval rules in a YAML or JSON file: write, compare, test and apply them. Calls a running service with an API key."
  ),
  Command.withSubcommands([pull, diff, test, apply, shadow])
)
