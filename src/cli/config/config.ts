import { Console, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { unknownVariables } from "../../server/config/Settings/readVariables.ts"
import { type ConfigRow, settingsTable, reportSettings } from "../../server/config/Settings/reportSettings.ts"
import { layerVerifiedSecrets } from "../../server/main/layerKeys.ts"
import { SecretBox } from "../../server/secrets/SecretBox.ts"
import { readOnlyError } from "../../server/store/databaseErrors.ts"
import { ProcessEnvironment, readSettings } from "../environment.ts"

/** Describes the state of a variable. */
const statusOf = (row: ConfigRow): string => {
  if (row.fault !== null) return `INVALID: ${row.fault}`
  if (!row.set) return "not set"
  return row.secret ? "set (hidden)" : `set to ${row.value}`
}

const differs = ({ default: fallback, fault, set, value }: ConfigRow): boolean =>
  fault !== null || (set && value !== fallback)

const text = (rows: ReadonlyArray<ConfigRow>): string =>
  rows
    .map((row) =>
      [row.variable, `${row.meaning} (${row.unit})`, `default: ${row.default}`, statusOf(row)].join("\n    ")
    )
    .join("\n")

/** Prints the settings and checks them. */
export const config = Effect.fnUntraced(function* (flags: {
  readonly check: boolean
  readonly json: boolean
  readonly markdown: boolean
  readonly set: boolean
}) {
  if (flags.markdown) return yield* Console.log(settingsTable())
  const { variables } = yield* ProcessEnvironment
  const all = reportSettings(variables)
  const rows = flags.set ? all.filter(differs) : all
  if (rows.length > 0 || flags.json) {
    yield* Console.log(flags.json ? JSON.stringify(rows, null, 2) : text(rows))
  } else yield* Console.error("Every variable has its default.")
  if (!flags.json) {
    yield* Effect.forEach(unknownVariables(variables), (line) => Console.error(`warning: ${line}`), {
      discard: true
    })
  }
  // Also reports faults in combinations of variables, so that a configuration can be checked before a deployment.
  const { settings } = yield* readSettings
  if (flags.check) yield* Effect.provide(checkDatabase, layerVerifiedSecrets(settings.store))
})

/** The layer fails unless the database exists, has this version's schema and no secret of an unknown master key. It changes nothing. */
const checkDatabase = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [primary, ...older] = (yield* SecretBox).keyIds
  const [server] = yield* sql<{ readonly version: string; readonly readOnly: boolean }>`
    SELECT
      current_setting('server_version') AS version,
      current_setting('transaction_read_only') = 'on' AS "readOnly"
  `
  if (server?.readOnly === true) return yield* Effect.fail(readOnlyError)
  yield* Console.error(
    `The database is usable: PostgreSQL ${server?.version ?? ""}, with this version's schema.`
  )
  yield* Console.error(
    `Master keys: ${[`${primary} (encrypts)`, ...older.map((id) => `${id} (decrypts)`)].join(", ")}.`
  )
})
