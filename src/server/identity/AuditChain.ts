import { Context, Effect, Layer, Schema, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { type AuditCheckpoint, CHAIN_START, type ChainedEntry } from "../../domain/identity/AuditChain.ts"
import { AuditEntryId, KeyId, type OrgId } from "../../domain/Ids.ts"
import { TimestampFromDate } from "../../domain/Time.ts"
import { rowsOf } from "../store/rows.ts"
import { StoreClock } from "../store/StoreClock.ts"

/** Entries that one statement of an export reads. */
const PAGE_ROWS = 1_000

/** The hash chain of the audit log, for the operator. A trigger appends to it in the transaction of each entry (migration 0038). */
export class AuditChain extends Context.Service<
  AuditChain,
  {
    /** The organization's entries in the order of the chain, from the oldest that retention has kept. */
    readonly export: (org_id: OrgId) => Stream.Stream<ChainedEntry>
    /** The newest position. */
    readonly checkpoint: (org_id: OrgId) => Effect.Effect<AuditCheckpoint>
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
        return rows.map(({ actor_id, actor_name, entry_id, ...row }): ChainedEntry => ({
          ...row,
          org_id,
          id: entry_id,
          actor: actor_id === null ? null : { id: actor_id, name: actor_name ?? "" }
        }))
      }, Effect.orDie)

      return AuditChain.of({
        export: (org_id) =>
          Stream.unfold(0, (after) =>
            Effect.map(readPage(org_id, after), (page) => {
              const last = page.at(-1)
              return last === undefined ? undefined : ([page, last.position] as const)
            })
          ).pipe(Stream.flatMap((page) => Stream.fromIterable(page))),
        checkpoint: Effect.fn("AuditChain.checkpoint")(function* (org_id) {
          const head = yield* headRows.first(sql`
            SELECT position::float8 AS position, encode(digest, 'hex') AS digest
            FROM audit_heads
            WHERE org_id = ${org_id}
          `)
          const created_at = yield* clock.now
          return { org_id, position: head?.position ?? 0, digest: head?.digest ?? CHAIN_START, created_at }
        }, Effect.orDie)
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
