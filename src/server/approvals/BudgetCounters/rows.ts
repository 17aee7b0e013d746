import { BigDecimal, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { type BudgetEntry, type BudgetUse, ZERO } from "../../../domain/approvals/budgetUse.ts"
import { OrgId } from "../../../domain/Ids.ts"
import { type Timestamp, toDate } from "../../../domain/Time.ts"
import { onlyOrganization } from "../../store/onlyOrganization.ts"
import { textArray } from "../../store/pgArrays.ts"
import { rowsOf } from "../../store/rows.ts"

/** A counter as it is stored. */
export interface CounterState {
  /**
   * Raised with each step. A new counter starts with the microseconds of its time, so that one that was deleted and made again never has a
   * version that it had before. 0: there is no row.
   */
  readonly version: number
  readonly use: BudgetUse
}

/** The key of a counter. */
export interface CounterKey {
  readonly org_id: OrgId
  /** SHA-256 of its organization and its name. */
  readonly digest: string
}

export const noCounter: CounterState = { version: 0, use: [] }

/** The first version of a counter. */
export const firstVersion = (now: Timestamp): number => now.epochMilliseconds * 1_000

const Entries = Schema.fromJsonString(
  Schema.Array(Schema.Tuple([Schema.Int, Schema.Int, Schema.optionalKey(Schema.BigDecimalFromString)]))
)

const CounterRow = Schema.Struct({
  org_id: OrgId,
  counter: Schema.String,
  version: Schema.Int,
  entries: Entries
})

const counterRows = rowsOf(CounterRow)

const stateOf = ({ entries, version }: typeof CounterRow.Type): CounterState => ({
  version,
  use: entries.map(([at, steps, amount = ZERO]) => ({ at, steps, amount }))
})

/** Reads counters without locks, by their digests. */
export const readCounters = (
  sql: SqlClient.SqlClient,
  keys: ReadonlyArray<CounterKey>,
  org_id: OrgId | undefined
) =>
  Effect.map(
    counterRows.all(sql`
      SELECT counters.org_id, counters.counter, counters.version::float8, counters.entries::text
      FROM unnest(
        ${textArray(keys.map((key) => key.org_id))}::text[],
        ${textArray(keys.map(({ digest }) => digest))}::text[]
      ) AS wanted (org_id, counter)
        JOIN budget_counters counters ON counters.org_id = wanted.org_id AND counters.counter = wanted.counter
      WHERE true ${onlyOrganization(sql, "counters.org_id", org_id)}
    `),
    (rows) => new Map(rows.map((row) => [row.counter, stateOf(row)]))
  )

/** Locks counters of one organization until the transaction ends, creates missing ones, and returns them by their digests. */
export const lockCounters = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  digests: ReadonlyArray<string>,
  now: Timestamp
) =>
  Effect.map(
    counterRows.all(sql`
      INSERT INTO budget_counters (org_id, counter, version, entries, expires_at)
      SELECT ${org_id}::text, wanted.counter, ${firstVersion(now)}::bigint, '[]', ${toDate(now)}::timestamptz
      -- In one order, so that transactions do not deadlock.
      FROM (SELECT DISTINCT unnest(${textArray(digests)}::text[]) AS counter ORDER BY counter) AS wanted
      ON CONFLICT (org_id, counter) DO UPDATE SET version = budget_counters.version
      RETURNING org_id, counter, version::float8, entries::text
    `),
    (rows) => new Map(rows.map((row) => [row.counter, stateOf(row)]))
  )

const countRows = rowsOf(Schema.Struct({ counters: Schema.Int }))

/** The number of an organization's counters, counted up to `limit`. */
export const countCounters = (sql: SqlClient.SqlClient, org_id: OrgId, limit: number) =>
  Effect.map(
    countRows.first(sql`
      SELECT count(*)::int AS counters
      FROM (SELECT FROM budget_counters WHERE org_id = ${org_id} LIMIT ${limit}) AS known
    `),
    (row) => row?.counters ?? 0
  )

/** An entry as an element of the column `entries`: time, steps and, if it is not zero, the sum. */
export const encodeEntry = ({ amount, at, steps }: BudgetEntry): string =>
  amount === ZERO ? `[${at},${steps}]` : `[${at},${steps},"${BigDecimal.format(amount)}"]`

/** The texts of lists of entries, which are written again with every step. */
const encodedUses = new WeakMap<BudgetUse, string>()

/** The elements of the column `entries`. */
export const encodeUse = (use: BudgetUse): string => {
  const known = encodedUses.get(use)
  if (known !== undefined) return known
  const text = use.map(encodeEntry).join(",")
  encodedUses.set(use, text)
  return text
}

/** Sets the text of a list: the text of the one before, and the texts of the added entries. */
export const joinEncoded = (
  use: BudgetUse,
  before: string,
  added: ReadonlyArray<{ readonly text: string }>
): void => {
  const texts = added.map(({ text }) => text)
  encodedUses.set(use, (before === "" ? texts : [before, ...texts]).join(","))
}
