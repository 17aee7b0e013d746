import { type SqlClient, SqlError, type Statement } from "effect/sql"
import { toDate } from "../../../domain/Time.ts"
import { int4Array, int8Array, textArray, timestamptzArray } from "../../store/pgArrays.ts"
import type { CounterWrite } from "../BudgetCounters/composeSpends.ts"
import { encodeUse } from "../BudgetCounters/rows.ts"

/** The counters of the budgets that steps use, and what each step adds. */
export const givenCounters = (
  sql: SqlClient.SqlClient,
  counters: ReadonlyArray<CounterWrite>
): ReadonlyArray<Statement.Fragment> => {
  const entries = counters.flatMap(({ entries }, place) =>
    entries.map(({ op, text }) => ({ op, place, text }))
  )
  return [
    sql`
    given_counters AS MATERIALIZED (
      SELECT *
      FROM unnest(
        ${int4Array(counters.map((_, place) => place))}::int[],
        ${textArray(counters.map(({ org_id }) => org_id))}::text[],
        ${textArray(counters.map(({ digest }) => digest))}::text[],
        ${int8Array(counters.map(({ version }) => version))}::bigint[],
        ${int8Array(counters.map(({ first_version }) => first_version))}::bigint[],
        ${textArray(counters.map(({ kept }) => encodeUse(kept)))}::text[],
        ${timestamptzArray(counters.map(({ expires_at }) => expires_at))}::timestamptz[]
      ) AS g (place, org_id, counter, version, first_version, kept, expires_at)
    )`,
    sql`
    given_entries AS MATERIALIZED (
      SELECT *
      FROM unnest(
        ${int4Array(entries.map(({ op }) => op))}::int[],
        ${int4Array(entries.map(({ place }) => place))}::int[],
        ${textArray(entries.map(({ text }) => text))}::text[]
      ) AS g (op, place, entry)
    )`
  ]
}

/**
 * The counters that still have the versions with which the steps were found to fit, locked, and the counters that still do not exist. One
 * that another transaction has locked is skipped: its steps are decided again in a transaction.
 */
export const currentCounters = (sql: SqlClient.SqlClient): Statement.Fragment =>
  sql.literal(`
    locked_counters AS MATERIALIZED (
      SELECT b.org_id, b.counter, b.version
      FROM given_counters g
        JOIN budget_counters b ON b.org_id = g.org_id AND b.counter = g.counter
      FOR NO KEY UPDATE OF b SKIP LOCKED
    ), current_counters AS MATERIALIZED (
      SELECT g.place
      FROM given_counters g
        JOIN locked_counters l ON l.org_id = g.org_id AND l.counter = g.counter AND l.version = g.version
      UNION ALL
      SELECT g.place
      FROM given_counters g
      WHERE g.version = 0
        AND NOT EXISTS (SELECT FROM budget_counters b WHERE b.org_id = g.org_id AND b.counter = g.counter)
    )`)

/** The premise of a write about budgets, over the table `o` of writes. */
export const COUNTERS_PREMISE = `AND NOT EXISTS (
        SELECT FROM given_entries n
        WHERE n.op = o.op AND n.place NOT IN (SELECT place FROM current_counters)
      )`

/**
 * Adds the steps that were applied. A new counter that another transaction has created meanwhile violates the primary key, so that nothing is
 * written: `isLostCounterRace`.
 */
export const raisedCounters = (sql: SqlClient.SqlClient): Statement.Fragment =>
  sql.literal(`
    counted AS MATERIALIZED (
      SELECT
        g.*, ('[' || concat_ws(',', nullif(g.kept, ''), n.entries) || ']')::json AS entries
      FROM (
        SELECT n.place, string_agg(n.entry, ',' ORDER BY n.op) AS entries
        FROM given_entries n
          JOIN applied a ON a.op = n.op
        GROUP BY n.place
      ) n
        JOIN given_counters g ON g.place = n.place
    ), raised_counters AS (
      UPDATE budget_counters b
      SET version = b.version + 1, entries = c.entries, expires_at = c.expires_at
      FROM counted c
      WHERE b.org_id = c.org_id
        AND b.counter = c.counter
        AND c.version > 0
    ), new_counters AS (
      INSERT INTO budget_counters (org_id, counter, version, entries, expires_at)
      SELECT c.org_id, c.counter, c.first_version, c.entries, c.expires_at
      FROM counted c
      WHERE c.version = 0
    )`)

/** Whether a statement failed because another transaction has created one of its new counters. */
export const isLostCounterRace = (error: unknown): boolean =>
  SqlError.isSqlError(error) &&
  error.reason._tag === "UniqueViolation" &&
  error.reason.constraint === "budget_counters_pkey"

/** Adds a step to a counter that the transaction has locked, or has found not to exist, on a cluster. */
export const raiseCounter = (
  sql: SqlClient.SqlClient,
  { digest, entries, expires_at, first_version, kept, org_id, version }: CounterWrite
): Statement.Fragment => {
  const use = `[${[encodeUse(kept), ...entries.map(({ text }) => text)].filter((text) => text !== "").join(",")}]`
  return version > 0
    ? sql`
      UPDATE budget_counters
      SET version = version + 1, entries = ${use}::text::json, expires_at = ${toDate(expires_at)}::timestamptz
      WHERE org_id = ${org_id}
        AND counter = ${digest}
    `
    : sql`
      INSERT INTO budget_counters (org_id, counter, version, entries, expires_at)
      VALUES (${org_id}, ${digest}, ${first_version}::bigint, ${use}::text::json, ${toDate(expires_at)}::timestamptz)
    `
}
