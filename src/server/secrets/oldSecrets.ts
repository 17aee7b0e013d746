import { Effect, Metric } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { oldSecrets } from "../observability/metricDefinitions.ts"
import { collectAtMostEvery, type MetricCollector } from "../observability/Metrics.ts"
import { lastingColumns, listUsedKeyIds } from "./MasterKeys.ts"
import { SecretBox } from "./SecretBox.ts"
import { PREFIX_BYTES, prefixOf } from "./SecretBox/Sealed.ts"
import type { SealedColumn } from "./SecretBox/sealedColumns.ts"

/** The most values that are counted in one column. */
export const MAX_COUNTED_SECRETS = 1_000

/** How often secrets are counted. Only a rotation of the master key changes their number. */
const EVERY = "1 hour"

interface Key {
  readonly id: string
}

/**
 * Values of a column that another key than `primary` has sealed: how many, and the prefixes of the values that none of `keys` has sealed, in hex.
 * Reads the whole table if there are none.
 */
export const countOldSecrets = (
  sql: SqlClient.SqlClient,
  { column, table }: SealedColumn,
  { keys, primary }: { readonly primary: Key; readonly keys: ReadonlyArray<Key> }
): Effect.Effect<{ readonly old: number; readonly foreign: ReadonlyArray<string> }, SqlError.SqlError> => {
  const prefix = sql.literal(`substr("${column}", 1, ${PREFIX_BYTES})`)
  return Effect.map(
    sql<{ readonly old: number; readonly foreign: ReadonlyArray<string> }>`
      SELECT
        count(*)::int AS old,
        coalesce(array_agg(DISTINCT encode(prefix, 'hex')) FILTER (WHERE NOT readable), '{}') AS foreign
      FROM (
        SELECT ${prefix} AS prefix, ${prefix} IN ${sql.in(keys.map(prefixOf))} AS readable
        FROM ${sql(table)}
        WHERE ${prefix} <> ${prefixOf(primary)}
        LIMIT ${MAX_COUNTED_SECRETS}
      ) sealed
    `,
    ([row]) => row ?? { old: 0, foreign: [] }
  )
}

/**
 * Updates the gauge of secrets under older master keys. A database in which one key has ever sealed has none, and its tables are not read;
 * neither are columns whose rows expire, which can have millions.
 */
export const makeOldSecretsCollector: Effect.Effect<MetricCollector, never, SqlClient.SqlClient | SecretBox> =
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const [primary, ...others] = (yield* SecretBox).keyIds
    const keys = [primary, ...others].map((id) => ({ id }))
    const count = Effect.gen(function* () {
      const registered = yield* Effect.provideService(listUsedKeyIds, SqlClient.SqlClient, sql)
      if (registered.length < 2) return 0
      let old = 0
      for (const column of lastingColumns) {
        old += (yield* countOldSecrets(sql, column, { primary: { id: primary }, keys })).old
      }
      return old
    })
    return yield* collectAtMostEvery(
      EVERY,
      Effect.flatMap(count, (old) => Metric.update(oldSecrets, old))
    )
  })
