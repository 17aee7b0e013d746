import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { AuditEntryId, type OrgId } from "../../src/domain/Ids.ts"
import type { Timestamp } from "../../src/domain/Time.ts"
import {
  appendedEntries,
  auditRowsTable,
  type NewAuditRow,
  startChains
} from "../../src/server/identity/auditWrites.ts"
import { atomicWithoutRetry } from "../../src/server/store/transaction.ts"

/** An entry without an actor and a request. */
export const auditRow = Effect.fnUntraced(function* (
  org_id: OrgId,
  occurred_at: Timestamp,
  detail: Readonly<Record<string, unknown>> = {}
) {
  const row: NewAuditRow = {
    org_id,
    entry_id: yield* AuditEntryId.generateAt(occurred_at),
    action: "key.created",
    target_id: "key_1",
    actor_id: null,
    actor_name: null,
    occurred_at,
    request_id: null,
    detail: JSON.stringify(detail)
  }
  return row
})

/** Starts the chain of an organization that a test has inserted, or that has no row. */
export const startChain = (org_id: OrgId) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.asVoid(Effect.orDie(startChains(sql, sql`SELECT ${org_id}::text AS org_id`)))
  )

/** Appends entries by one statement, on a connection of its own: a statement behind it on its connection would wait with it. */
export const appendRows = (rows: ReadonlyArray<NewAuditRow>) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    atomicWithoutRetry(sql)(
      Effect.asVoid(sql`
        WITH ${appendedEntries(sql, { entries: sql`SELECT * FROM ${auditRowsTable(sql, rows)}` })}
        SELECT 1
      `)
    )
  )
