import { Array as Arr, Context, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import {
  type AuditRow,
  type AuditRowFilter,
  type AuditTarget,
  MAX_AUDIT_ACTORS
} from "../../api/console/AuditRows.ts"
import type { PageRequest } from "../../api/Pagination.ts"
import type { AuditEntry } from "../../domain/identity/AuditEntry.ts"
import { Actor, type Principal } from "../../domain/identity/Principal.ts"
import type { AuditEntryId, OrgId } from "../../domain/Ids.ts"
import { Audit } from "../identity/Audit.ts"
import type { Page } from "../store/Pagination.ts"
import { textArray } from "../store/pgArrays.ts"
import { rowsOf } from "../store/rows.ts"
import { kindOfId, kindScopes, readRecords, type TableKind } from "./Search/records.ts"

/** The audit log with the names of what its entries are about. */
export class AuditRows extends Context.Service<
  AuditRows,
  {
    readonly list: (
      request: PageRequest<AuditEntryId> & AuditRowFilter
    ) => Effect.Effect<Page<AuditRow, AuditEntryId>, never, Authorized<"approvals.admin">>
    /** The API keys that have entries, by name. */
    readonly actors: Effect.Effect<ReadonlyArray<Actor>, never, Authorized<"approvals.admin">>
  }
>()("countersign/server/console/AuditRows") {
  static readonly layer = Layer.effect(
    AuditRows,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const audit = yield* Audit
      return AuditRows.of({
        list: Effect.fn("AuditRows.list")(function* (request) {
          const principal = yield* Authorized("approvals.admin")
          const page = yield* audit.list(request)
          const targetOf = yield* readTargets(sql, principal, page.items)
          return { ...page, items: page.items.map((entry) => ({ ...entry, target: targetOf(entry) })) }
        }, Effect.orDie),
        actors: Effect.gen(function* () {
          const { org_id } = yield* Authorized("approvals.admin")
          return (yield* actorRows.all(actorStatement(sql, org_id))).toSorted((a, b) =>
            a.name.localeCompare(b.name)
          )
        }).pipe(Effect.orDie, Effect.withSpan("AuditRows.actors"))
      })
    })
  )
}

const actorRows = rowsOf(Actor)

/** The actors of an organization and their newest names. Reads one entry of each from the index of actors, not their entries. */
export const actorStatement = (sql: SqlClient.SqlClient, org_id: OrgId) => sql`
  WITH RECURSIVE found AS (
    SELECT (
      SELECT actor_id
      FROM audit_log
      WHERE org_id = ${org_id}
        AND actor_id IS NOT NULL
      ORDER BY actor_id
      LIMIT 1
    ) AS actor_id
    UNION ALL
    SELECT (
      SELECT audit_log.actor_id
      FROM audit_log
      WHERE org_id = ${org_id}
        AND audit_log.actor_id > found.actor_id
      ORDER BY audit_log.actor_id
      LIMIT 1
    )
    FROM found
    WHERE found.actor_id IS NOT NULL
  ), actors AS (
    SELECT actor_id
    FROM found
    WHERE actor_id IS NOT NULL
    LIMIT ${MAX_AUDIT_ACTORS}::int
  )
  SELECT
    actor_id AS id,
    (
      SELECT actor_name
      FROM audit_log
      WHERE org_id = ${org_id}
        AND audit_log.actor_id = actors.actor_id
      ORDER BY entry_id DESC
      LIMIT 1
    ) AS name
  FROM actors
`

const decidedRows = rowsOf(
  Schema.Struct({
    approval_id: Schema.String,
    summary: Schema.NullOr(Schema.String),
    comment: Schema.NullOr(Schema.String),
    votes: Schema.NullOr(
      Schema.Array(Schema.Struct({ voted_by: Actor, comment: Schema.NullOr(Schema.String) }))
    )
  })
)

/** Reads the records that a page of entries is about, one statement for each kind of record that the principal may read. */
const readTargets = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { org_id, scopes }: Principal,
  entries: ReadonlyArray<AuditEntry>
) {
  const ids = Arr.dedupe(entries.map(({ target_id }) => target_id))
  const byKind = new Map<TableKind, Array<string>>()
  for (const id of ids) {
    const kind = kindOfId(id)
    if (kind === undefined || !scopes.has(kindScopes[kind])) continue
    byKind.set(kind, [...(byKind.get(kind) ?? []), id])
  }
  const names = new Map<string, string>()
  for (const [kind, wanted] of byKind) {
    for (const { id, title } of yield* readRecords(sql, org_id, kind, wanted)) names.set(id, title)
  }
  const decided = yield* decidedRows.all(sql`
    SELECT approval_id, coalesce(rule_summary, arguments_line) AS summary, comment, votes
    FROM approvals
    WHERE org_id = ${org_id}
      AND approval_id = ANY(${textArray(byKind.get("approval") ?? [])}::text[])
  `)
  const decisions = new Map(decided.map((row) => [row.approval_id, row]))
  return ({ action, actor, target_id }: AuditEntry): AuditTarget | null => {
    const name = names.get(target_id)
    if (name === undefined) return null
    const decision = decisions.get(target_id)
    const vote = decision?.votes?.find(({ voted_by }) => voted_by.id === actor?.id)
    return {
      name,
      summary: decision?.summary ?? null,
      comment: (action === "approval.vote_recorded" ? vote?.comment : decision?.comment) ?? null
    }
  }
})
