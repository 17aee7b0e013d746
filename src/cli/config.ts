import { Console, Effect } from "effect"
import { Command, Flag } from "effect/cli"
import { unknownVariables } from "../server/config/Settings/readVariables.ts"
import { type ConfigRow, settingsTable, reportSettings } from "../server/config/Settings/reportSettings.ts"
import { ProcessEnvironment, readSettings } from "./environment.ts"

/** How a variable stands, for people. */
const standing = (row: ConfigRow): string => {
  if (row.fault !== null) return `WRONG: ${row.fault}`
  if (!row.set) return "not set"
  return row.secret ? "set (hidden)" : `set to ${row.value}`
}

const text = (rows: ReadonlyArray<ConfigRow>): string =>
  rows
    .map((row) =>
      [row.variable, `${row.meaning} (${row.unit})`, `default: ${row.default}`, standing(row)].join("\n    ")
    )
    .join("\n")

const config = Effect.fnUntraced(function* (flags: { readonly json: boolean; readonly markdown: boolean }) {
  if (flags.markdown) return yield* Console.log(settingsTable())
  const { variables } = yield* ProcessEnvironment
  const rows = reportSettings(variables)
  yield* Console.log(flags.json ? JSON.stringify(rows, null, 2) : text(rows))
  if (!flags.json) {
    yield* Effect.forEach(unknownVariables(variables), (line) => Console.error(`warning: ${line}`), {
      discard: true
    })
  }
  // Also what only together is wrong, so that a deployment can be checked before it is made.
  yield* readSettings
})

export const configCommand = Command.make(
  "config",
  {
    json: Flag.Boolean("json").pipe(Flag.withDescription("As JSON"), Flag.withDefault(false)),
    markdown: Flag.Boolean("markdown").pipe(
      Flag.withDescription("The table of the documentation, whatever is set"),
      Flag.withDefault(false)
    )
  },
  config
).pipe(
  Command.withDescription(
    "List every environment variable with its meaning, unit, default and how it is set; secrets are hidden. Exit code 1 if the service would not start with them."
  ),
  Command.withExamples([
    { command: "countersign config", description: "What this environment says" },
    { command: "countersign config --json", description: "The same for programs" }
  ])
)
