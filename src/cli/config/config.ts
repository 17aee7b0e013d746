import { Console, Effect } from "effect"
import { unknownVariables } from "../../server/config/Settings/readVariables.ts"
import { type ConfigRow, settingsTable, reportSettings } from "../../server/config/Settings/reportSettings.ts"
import { ProcessEnvironment, readSettings } from "../environment.ts"

/** Describes the state of a variable. */
const statusOf = (row: ConfigRow): string => {
  if (row.fault !== null) return `INVALID: ${row.fault}`
  if (!row.set) return "not set"
  return row.secret ? "set (hidden)" : `set to ${row.value}`
}

const text = (rows: ReadonlyArray<ConfigRow>): string =>
  rows
    .map((row) =>
      [row.variable, `${row.meaning} (${row.unit})`, `default: ${row.default}`, statusOf(row)].join("\n    ")
    )
    .join("\n")

/** Prints the settings and checks them. */
export const config = Effect.fnUntraced(function* (flags: {
  readonly json: boolean
  readonly markdown: boolean
}) {
  if (flags.markdown) return yield* Console.log(settingsTable())
  const { variables } = yield* ProcessEnvironment
  const rows = reportSettings(variables)
  yield* Console.log(flags.json ? JSON.stringify(rows, null, 2) : text(rows))
  if (!flags.json) {
    yield* Effect.forEach(unknownVariables(variables), (line) => Console.error(`warning: ${line}`), {
      discard: true
    })
  }
  // Also reports faults in combinations of variables, so that a configuration can be checked before a deployment.
  yield* readSettings
})
