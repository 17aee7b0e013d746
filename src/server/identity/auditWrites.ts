/**
 * The statements that write the audit log and its hash chain, one chain per organization (`audit_log`, `audit_chain`, `audit_heads`). No
 * other module but retention writes these tables, and none updates an entry; a test searches the sources.
 *
 * A statement locks the head of a chain, so the order of the chain is the order of commits. That lock is the last one of its transaction:
 * nothing waits for a lock while it holds a head. So no two transactions deadlock over a head, and no change waits for the work of another
 * one. A transaction records its entries by `Audit.record`, which writes them right before the commit; a statement that is a transaction of
 * its own contains `appendedEntries`.
 */
import { Array as Arr, Effect } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { CHAIN_START } from "../../domain/identity/AuditChain.ts"
import type { AuditAction } from "../../domain/identity/AuditEntry.ts"
import type { AuditEntryId, KeyId, OrgId } from "../../domain/Ids.ts"
import type { Timestamp } from "../../domain/Time.ts"
import { int4Array, textArray, timestamptzArray } from "../store/pgArrays.ts"
import { makeLastWrite } from "../store/transaction.ts"

/** A row of `audit_log`. `detail` is JSON text. */
export interface NewAuditRow {
  readonly org_id: OrgId
  readonly entry_id: AuditEntryId
  readonly action: AuditAction
  readonly target_id: string
  readonly actor_id: KeyId | null
  readonly actor_name: string | null
  readonly occurred_at: Timestamp
  readonly request_id: string | null
  readonly detail: string
}

/** Starts the chains of the organizations that a query returns in a column `org_id`. An organization without a chain can write no entry. */
export const startChains = (sql: SqlClient.SqlClient, organizations: Statement.Fragment) => sql`
  INSERT INTO audit_heads (org_id, position, previous_digest, digest)
  SELECT org_id, 0, decode(${CHAIN_START}, 'hex'), decode(${CHAIN_START}, 'hex')
  FROM (${organizations}) AS organization
`

/** A table of entries for `appendedEntries`. `number` is the index of the row, or the given one. */
export const auditRowsTable = (
  sql: SqlClient.SqlClient,
  rows: ReadonlyArray<NewAuditRow>,
  numbers: ReadonlyArray<number> = rows.map((_, index) => index)
): Statement.Fragment => sql`
  unnest(
    ${int4Array(numbers)}::int[],
    ${textArray(rows.map((row) => row.org_id))}::text[],
    ${textArray(rows.map((row) => row.entry_id))}::text[],
    ${textArray(rows.map((row) => row.action))}::text[],
    ${textArray(rows.map((row) => row.target_id))}::text[],
    ${textArray(rows.map((row) => row.actor_id))}::text[],
    ${textArray(rows.map((row) => row.actor_name))}::text[],
    ${timestamptzArray(rows.map((row) => row.occurred_at))}::timestamptz[],
    ${textArray(rows.map((row) => row.request_id))}::text[],
    ${textArray(rows.map((row) => row.detail))}::text[]
  ) AS entry (number, org_id, entry_id, action, target_id, actor_id, actor_name, occurred_at, request_id, detail)`

/** What `appendedEntries` appends. */
export interface AppendedEntries {
  /** A query that returns rows of `auditRowsTable`. They are chained in the order of `number`. */
  readonly entries: Statement.Fragment
  /** The organization of all entries, if they have one. */
  readonly org_id?: OrgId
}

/**
 * CTEs that write entries and link them to the chains of their organizations. The heads' digests are read under the lock, so a concurrent
 * commit is never overwritten. Several heads are locked in the order of the organizations, and after the rows that the rest of the
 * statement writes. For that, these CTEs come before all other changes that nothing reads: PostgreSQL executes such changes from the last
 * to the first.
 */
export const appendedEntries = (
  sql: SqlClient.SqlClient,
  { entries, org_id }: AppendedEntries
): Statement.Fragment => {
  const ofOrganization = org_id === undefined ? sql.literal("") : sql`AND h.org_id = ${org_id}`
  return sql`
    audit_entries AS MATERIALIZED (
      SELECT entry.*, row_number() OVER (PARTITION BY entry.org_id ORDER BY entry.number) AS rank
      FROM (${entries}) AS entry
    ), locked_heads AS MATERIALIZED (
      SELECT h.org_id, h.position, h.digest
      FROM ${
        org_id === undefined
          ? sql.literal(
              "(SELECT DISTINCT org_id FROM audit_entries) AS e JOIN audit_heads AS h ON h.org_id = e.org_id"
            )
          : sql`audit_heads AS h WHERE h.org_id = ${org_id}`
      }
      ORDER BY h.org_id
      FOR NO KEY UPDATE OF h
    ), links AS MATERIALIZED (
      WITH RECURSIVE link (org_id, rank, position, previous_digest, digest) AS (
        SELECT org_id, 0::bigint, position, NULL::bytea, digest
        FROM locked_heads
        UNION ALL
        SELECT
          link.org_id, entry.rank, link.position + 1, link.digest,
          ${sql.literal(digestOf)}
        FROM link
          JOIN audit_entries AS entry ON entry.org_id = link.org_id AND entry.rank = link.rank + 1
      )
      SELECT * FROM link
    ), logged_entries AS (
      INSERT INTO audit_log (
        org_id, entry_id, action, target_id, actor_id, actor_name, occurred_at, request_id, detail
      )
      SELECT org_id, entry_id, action, target_id, actor_id, actor_name, occurred_at, request_id, detail::json
      FROM audit_entries
    ), chained_entries AS (
      -- Without a head the position is null, which the table refuses.
      INSERT INTO audit_chain (org_id, position, entry_id, previous_digest, digest)
      SELECT e.org_id, l.position, e.entry_id, l.previous_digest, l.digest
      FROM audit_entries AS e
        LEFT JOIN links AS l ON l.org_id = e.org_id AND l.rank = e.rank
    ), moved_heads AS (
      UPDATE audit_heads AS h
      SET position = last.position, previous_digest = last.previous_digest, digest = last.digest
      FROM (SELECT DISTINCT ON (org_id) * FROM links ORDER BY org_id, rank DESC) AS last
      WHERE h.org_id = last.org_id
        AND last.rank > 0
        ${ofOrganization}
    )`
}

/** SQL of the digest of `entry` after `link`. Its text is that of `entryDigest` in `domain/identity/AuditChain.ts`; tests compare them. */
const digestOf = `sha256(convert_to(concat(
  '["', encode(link.digest, 'hex'), '",', link.position + 1, ',', to_json(entry.org_id), ',', to_json(entry.entry_id), ',',
  to_json(entry.action), ',', to_json(entry.target_id), ',', coalesce(to_json(entry.actor_id), 'null'), ',',
  coalesce(to_json(entry.actor_name), 'null'), ',"',
  to_char(entry.occurred_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), '",',
  coalesce(to_json(entry.request_id), 'null'), ',', entry.detail, ']'
), 'UTF8'))`

/** Entries of one statement of a transaction: each is looked for among the others. */
const MAX_ENTRIES = 200

const recordEntryOf = makeLastWrite<NewAuditRow>("audit_heads", (org_id, rows) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.forEach(
      Arr.chunksOf(rows, MAX_ENTRIES),
      (chunk) => sql`
        WITH ${appendedEntries(sql, {
          entries: sql`SELECT * FROM ${auditRowsTable(sql, chunk)}`,
          org_id
        })}
        SELECT 1
      `,
      { discard: true }
    )
  )
)

/** Writes an entry right before the current transaction commits, with its others of the organization. */
export const recordEntry = (row: NewAuditRow) => recordEntryOf(row.org_id, row)
