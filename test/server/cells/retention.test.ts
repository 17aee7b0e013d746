import { assert, layer } from "@effect/vitest"
import { PgConnection } from "@effect/sql-pg"
import { DateTime, Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import { gzipSync } from "node:zlib"
import { OrgId } from "../../../src/domain/Ids.ts"
import { installFence } from "../../../src/server/cells/fence.ts"
import { expireEvents } from "../../../src/server/delivery/expireEvents.ts"
import { makeRetention } from "../../../src/server/delivery/Delivery/Retention.ts"
import * as Idempotency from "../../../src/server/http/Idempotency/Retention.ts"
import * as ApiKeys from "../../../src/server/identity/ApiKeys/Retention.ts"
import * as Audit from "../../../src/server/identity/Audit/Retention.ts"
import { SecretBox } from "../../../src/server/secrets/SecretBox.ts"
import { StoreClock } from "../../../src/server/store/StoreClock.ts"
import * as FeedbackTokens from "../../../src/server/tasks/FeedbackTokens/Retention.ts"
import * as SpanErasure from "../../../src/server/telemetry/eraseSpans.ts"
import { payloadPlace } from "../../../src/server/telemetry/Spans/storeBatches.ts"
import * as Telemetry from "../../../src/server/telemetry/Telemetry/Retention.ts"
import { TestDatabase } from "../../support/postgres.ts"

/** More than one statement deletes, of each table. */
const ROWS = 1_100

/** Organizations that one statement of the audit log's retention deletes from. */
const ORGANIZATIONS = 100

const old = "'2020-01-01'::timestamptz"
const id = (prefix: string) => `'${prefix}_' || lpad(n::text, 32, '0')`

/** Old rows, by their tables: columns and their values for row `n` of the organization `$1`. */
const rows: Readonly<Record<string, string>> = {
  approval_events: `event_id, type, body, occurred_at) SELECT $1, ${id("evt")}, 'x', 'x', ${old}`,
  approval_mail: `event_id, type, approval_id, key_id, occurred_at) SELECT $1, ${id("evt")}, 'x', 'x', 'x', ${old}`,
  delivery_attempts: `destination_id, delivery_id, attempt, started_at, duration_ms) SELECT $1, 'x', ${id("ndl")}, 1, ${old}, 1`,
  delivery_destinations: `destination_id) SELECT $1, ${id("nep")}`,
  telemetry_batches: `batch_id, destination_id, spans, payload) SELECT $1, ${id("evt")}, 'x', 1, 'x'`,
  audit_log: `entry_id, action, target_id, occurred_at, detail) SELECT $1, ${id("aud")}, 'x', 'x', ${old}, '{}'`,
  audit_chain: `position, entry_id, previous_digest, digest) SELECT $1, n, ${id("aud")}, 'x', 'x'`,
  feedback_token_uses: `token_id, uses, last_digest, expires_at) SELECT $1, ${id("tok")}, 1, 'x', ${old}`,
  idempotency_keys: `operation, key, fingerprint, created_at) SELECT $1, 'x', ${id("key")}, 'x', ${old}`,
  api_keys:
    "key_id, public_id, digest, name, preset, created_at, revoked_at, created_by_id, created_by_name) " +
    `SELECT $1, ${id("key")}, $1 || n, sha256(($1 || n)::bytea), n, 'admin', ${old}, ${old}, 'x', 'x'`
}

const layerSecretBox = SecretBox.layer({
  masterKeys: [Redacted.make(randomBytes(32).toString("base64"))]
})

layer(Layer.provideMerge(Layer.merge(StoreClock.layer, layerSecretBox), TestDatabase.layerSql), {
  excludeTestServices: true,
  timeout: "60 seconds"
})("retention beside an organization that moves", (it) => {
  it.effect("keeps its rows, and deletes those of other organizations behind them", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const connection = yield* PgConnection.make({ url: (yield* TestDatabase).url })
      yield* connection.query("SET countersign.importing = 'on'")
      const add = Effect.fnUntraced(function* (org_id: string, count: number) {
        yield* connection.query(
          `INSERT INTO organizations (org_id, name, created_at) VALUES ('${org_id}', '${org_id}', now())`
        )
        for (const [table, values] of Object.entries(rows)) {
          const insert = `INSERT INTO ${table} (org_id, ${values} FROM generate_series(1, ${count}) AS n`
          yield* connection.query(insert.replaceAll("$1", `'${org_id}'`))
        }
        yield* connection.query(
          `INSERT INTO audit_heads (org_id, position, previous_digest, digest) VALUES ('${org_id}', ${count}, 'x', 'x')`
        )
      })
      // The organizations that move are found first. The retention of the audit log takes a number of organizations at a time.
      const moving = Array.from({ length: ORGANIZATIONS }, (_, n) => `org_${String(n).padStart(32, "0")}`)
      for (const [n, org_id] of moving.entries()) yield* add(org_id, n === 0 ? ROWS : 1)
      for (const org_id of moving) {
        yield* sql`
          INSERT INTO organization_moves (org_id, move_id, name, state, is_fenced, started_at, changed_at)
          VALUES (${org_id}, 'move', ${org_id}, 'copied', true, now(), now())
        `
      }
      yield* installFence(sql, { org_id: OrgId.make(moving[0] ?? ""), move_id: "move" })
      yield* add(`org_${"f".repeat(32)}`, 1)

      const clock = yield* StoreClock
      const cutoff = DateTime.makeUnsafe("2026-01-01")
      const keep = "30 days"
      yield* makeRetention(sql, [], clock, { keep, every: "1 hour", steps: 3 }).runOnce
      for (const table of ["approval_events", "approval_mail"] as const) {
        assert.strictEqual(yield* expireEvents(sql, table, cutoff, 1_000), 1, table)
      }
      yield* Telemetry.runOnce()
      yield* Audit.runOnce({ keep })
      yield* ApiKeys.runOnce({ keep })
      yield* FeedbackTokens.runOnce()
      yield* Idempotency.runOnce

      for (const table of Object.keys(rows)) {
        const found = yield* sql.unsafe<{ readonly moving: number; readonly others: number }>(
          `SELECT
             count(*) FILTER (WHERE org_id = $1)::int AS moving,
             count(*) FILTER (WHERE org_id = $2)::int AS others
           FROM ${table}`,
          [moving[0] ?? "", `org_${"f".repeat(32)}`]
        )
        assert.deepStrictEqual(found, [{ moving: ROWS, others: 0 }], table)
      }
    }).pipe(Effect.scoped)
  )

  it.effect("the search for erased spans ends when its organization starts to move meanwhile", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const org_id = yield* OrgId.generate
      // As many as one statement changes: when the fence skips them, the search must not take them for progress.
      yield* sql`
        INSERT INTO erased_traces (org_id, trace_id, erased_at, due_at)
        SELECT ${org_id}, lpad(n::text, 32, '0'), now() - interval '1 hour', now() - interval '1 hour'
        FROM generate_series(1, 5000) AS n
      `
      const payload = yield* (yield* SecretBox).sealBytes(
        payloadPlace(org_id, "evt_1"),
        gzipSync(`{"resourceSpans":[]}`)
      )
      yield* sql`
        INSERT INTO telemetry_batches (org_id, batch_id, destination_id, spans, payload)
        VALUES (${org_id}, 'evt_1', 'x', 1, ${payload})
      `
      const freeze = Effect.gen(function* () {
        yield* sql`
          INSERT INTO organization_moves (org_id, move_id, name, state, is_fenced, started_at, changed_at)
          VALUES (${org_id}, 'move', 'acme', 'frozen', true, now(), now())
        `
        yield* installFence(sql, { org_id, move_id: "move" })
      })
      const searched = yield* SpanErasure.runOnce().pipe(
        Effect.updateService(SecretBox, (box) => ({
          ...box,
          unsealBytes: (place, bytes) => Effect.andThen(Effect.orDie(freeze), box.unsealBytes(place, bytes))
        }))
      )
      assert.strictEqual(searched, 1)
      const due = yield* sql`SELECT FROM erased_traces WHERE org_id = ${org_id} AND due_at <= now()`
      assert.lengthOf(due, 5_000)
      assert.strictEqual(yield* SpanErasure.runOnce(), 0)
    })
  )
})
