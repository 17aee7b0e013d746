import { Context, Effect, Layer, Schema, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import { CHAIN_START } from "../../domain/identity/AuditChain.ts"
import type { AuditCheckpoint, ChainedAuditEntry } from "../../domain/identity/ChainedAuditEntry.ts"
import { actorOf } from "../../domain/identity/Principal.ts"
import { AuditEntryId, KeyId, type OrgId } from "../../domain/Ids.ts"
import { TimestampFromDate } from "../../domain/Time.ts"
import { rowsOf } from "../store/rows.ts"
import { StoreClock } from "../store/StoreClock.ts"

/** Entries that one statement of an export reads. Encoding them takes some milliseconds of the event loop. */
const PAGE_ROWS = 200

/** The hash chain of the audit log. `auditWrites` appends to it. */
export class AuditChain extends Context.Service<
  AuditChain,
  {
    /** The organization's entries after a position, in the order of the chain, from the oldest that retention has kept. */
    readonly export: (
      after: number
    ) => Effect.Effect<Stream.Stream<ChainedAuditEntry>, never, Authorized<"approvals.admin">>
    /** Like `export`, for the operator's command line, which has no API key. */
    readonly exportFor: (org_id: OrgId, after: number) => Stream.Stream<ChainedAuditEntry>
    /** The newest position. */
    readonly checkpoint: Effect.Effect<AuditCheckpoint, never, Authorized<"approvals.admin">>
    /** Like `checkpoint`, for the operator's command line, which has no API key. */
    readonly checkpointFor: (org_id: OrgId) => Effect.Effect<AuditCheckpoint>
  }
>()("countersign/server/identity/AuditChain") {
  static readonly layer = Layer.effect(
    AuditChain,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* StoreClock

      const readPage = Effect.fn("AuditChain.readPage")(function* (org_id: OrgId, after: number) {
        const rows = yield* chainedRows.all(sql`
          SELECT
            chain.position::float8 AS position, chain.entry_id, encode(chain.previous_digest, 'hex') AS previous_digest,
            encode(chain.digest, 'hex') AS digest, log.action, log.target_id, log.actor_id, log.actor_name, log.occurred_at,
            log.request_id, log.detail
          FROM audit_chain AS chain
            JOIN audit_log AS log ON log.org_id = chain.org_id AND log.entry_id = chain.entry_id
          WHERE chain.org_id = ${org_id}
            AND chain.position > ${after}::bigint
          ORDER BY chain.position
          LIMIT ${PAGE_ROWS}
        `)
        return rows.map(({ actor_id, actor_name, entry_id, ...row }): ChainedAuditEntry => ({
          ...row,
          org_id,
          id: entry_id,
          actor: actorOf(actor_id, actor_name)
        }))
      }, Effect.orDie)

      const exportFor = (org_id: OrgId, after: number) =>
        Stream.unfold(after, (position) =>
          Effect.map(readPage(org_id, position), (page) => {
            const last = page.at(-1)
            return last === undefined ? undefined : ([page, last.position] as const)
          })
        ).pipe(Stream.flatMap((page) => Stream.fromIterable(page)))

      const checkpointFor = Effect.fn("AuditChain.checkpoint")(function* (org_id: OrgId) {
        const head = yield* headRows.first(sql`
          SELECT position::float8 AS position, encode(digest, 'hex') AS digest
          FROM audit_heads
          WHERE org_id = ${org_id}
        `)
        const created_at = yield* clock.now
        return { org_id, position: head?.position ?? 0, digest: head?.digest ?? CHAIN_START, created_at }
      }, Effect.orDie)

      return AuditChain.of({
        export: Effect.fn("AuditChain.export")(function* (after) {
          const { org_id } = yield* Authorized("approvals.admin")
          return exportFor(org_id, after)
        }),
        exportFor,
        checkpoint: Effect.flatMap(Authorized("approvals.admin"), ({ org_id }) => checkpointFor(org_id)),
        checkpointFor
      })
    })
  )
}

const headRows = rowsOf(Schema.Struct({ position: Schema.Number, digest: Schema.String }))

const chainedRows = rowsOf(
  Schema.Struct({
    position: Schema.Number,
    entry_id: AuditEntryId,
    previous_digest: Schema.String,
    digest: Schema.String,
    action: Schema.String,
    target_id: Schema.String,
    actor_id: Schema.NullOr(KeyId),
    actor_name: Schema.NullOr(Schema.String),
    occurred_at: TimestampFromDate,
    request_id: Schema.NullOr(Schema.String),
    detail: Schema.Record(Schema.String, Schema.Json)
  })
)
