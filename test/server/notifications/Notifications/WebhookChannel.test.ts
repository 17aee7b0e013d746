import { assert, describe } from "@effect/vitest"
import { DateTime, Duration, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { createHmac } from "node:crypto"
import { Webhook } from "standardwebhooks"
import { monotonicNow } from "../../../../src/server/concurrency/monotonicMillis.ts"
import { transaction } from "../../../../src/server/store/transaction.ts"
import { Delivery } from "../../../../src/server/delivery/Delivery.ts"
import type { DeliveryRef } from "../../../../src/server/delivery/Delivery.ts"
import { generateSigningSecret } from "../../../../src/domain/delivery/WebhookSignature.ts"
import { EndpointId, EventId } from "../../../../src/domain/Ids.ts"
import { RecentEvents } from "../../../../src/server/notifications/Notifications/RecentEvents.ts"
import { endpointPlace, insertEvents } from "../../../../src/server/notifications/Notifications/rows.ts"
import * as WebhookChannel from "../../../../src/server/notifications/Notifications/WebhookChannel.ts"
import { SecretBox } from "../../../../src/server/secrets/SecretBox.ts"
import { StoreClock } from "../../../../src/server/store/StoreClock.ts"
import { type ScriptedReply, startScriptedServer, type SeenRequest } from "../../../support/scripted.ts"
import {
  publishWebhookEvents,
  insertEndpoint,
  awaitRecords,
  processTime,
  sendLoaded,
  testWithWebhooks,
  withWebhookEngine
} from "../../../support/delivery.ts"

const status =
  (wanted: string) =>
  (list: ReadonlyArray<{ readonly status: string }>): boolean =>
    list.length > 0 && list.every((record) => record.status === wanted)

const ok: ScriptedReply = { status: 204 }
const body = JSON.stringify({ id: "evt", text: "é \u2028 as it was written", n: 1.0 })
const delays = [0, 10, 10].map((millis) => Duration.millis(millis))

const header = (seen: SeenRequest | undefined, name: string): string => String(seen?.headers[name])

/** Checks both signatures of a request and returns the time of signing, in Unix seconds. */
const signedAt = (secret: string, seen: SeenRequest | undefined): number => {
  const text = seen?.body ?? ""
  new Webhook(secret).verify(text, {
    "webhook-id": header(seen, "webhook-id"),
    "webhook-timestamp": header(seen, "webhook-timestamp"),
    "webhook-signature": header(seen, "webhook-signature")
  })
  const [, t, v1] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(header(seen, "x-svc-signature")) ?? []
  assert.strictEqual(v1, createHmac("sha256", secret).update(`${t}.${text}`).digest("hex"))
  return Number(t)
}

describe("WebhookChannel", () => {
  testWithWebhooks("a delivery sends the stored bytes with both signatures", () =>
    Effect.gen(function* () {
      const receiver = yield* startScriptedServer([ok])
      const endpoint = yield* insertEndpoint(`${receiver.url}/hook?a=1`)
      const [event_id] = yield* publishWebhookEvents([endpoint], body)
      yield* awaitRecords(endpoint, status("delivered"))
      const [seen] = receiver.seen
      assert.strictEqual(seen?.method, "POST")
      assert.strictEqual(seen?.url, "/hook?a=1")
      assert.strictEqual(seen?.body, body)
      assert.strictEqual(header(seen, "x-svc-event-id"), event_id)
      assert.strictEqual(header(seen, "x-svc-event-type"), "approval.requested")
      assert.strictEqual(header(seen, "content-type"), "application/json")
      assert.match(header(seen, "user-agent"), /^Countersign\/\d/)
      signedAt(endpoint.secret, seen)
    }).pipe(withWebhookEngine())
  )

  testWithWebhooks("a retry after Retry-After sends the same event with a new signature", () =>
    Effect.gen(function* () {
      const receiver = yield* startScriptedServer([{ status: 503, headers: { "retry-after": "1" } }, ok])
      const endpoint = yield* insertEndpoint(receiver.url)
      const delivery = yield* Delivery
      yield* publishWebhookEvents([endpoint], body)
      const [record] = yield* awaitRecords(endpoint, status("delivered"))
      const [first, second] = receiver.seen
      assert.strictEqual(second?.body, first?.body)
      assert.strictEqual(header(second, "x-svc-event-id"), header(first, "x-svc-event-id"))
      assert.isAbove(signedAt(endpoint.secret, second), signedAt(endpoint.secret, first))
      assert.notStrictEqual(header(second, "webhook-signature"), header(first, "webhook-signature"))
      assert.isDefined(record)
      if (record === undefined) return
      const { attempt_log } = yield* delivery.get(endpoint.org_id, endpoint.destination_id, record.id)
      assert.deepStrictEqual(
        attempt_log.map((attempt) => [attempt.status, attempt.error]),
        [
          [503, "HTTP 503"],
          [204, null]
        ]
      )
      const [failed, succeeded] = attempt_log.map(({ started_at }) => DateTime.toEpochMillis(started_at))
      // The engine's own delays are shorter.
      assert.isAtLeast(Number(succeeded) - Number(failed), 1_000)
    }).pipe(withWebhookEngine({ delays }))
  )

  testWithWebhooks(
    "an event is handed to the first attempt after its transaction, which reads it only if its endpoint has changed",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const recent = yield* RecentEvents
        const receiver = yield* startScriptedServer([ok])
        const { load } = yield* Effect.provideService(WebhookChannel.make(), StoreClock, processTime)
        const { destination_id, org_id } = yield* insertEndpoint(receiver.url)
        const endpoint_id = EndpointId.make(destination_id)
        const ref = Effect.map(EventId.generate, (event_id) => ({
          org_id,
          destination_id,
          event_id,
          delivery_id: "ndl"
        }))
        const attempt = (one: DeliveryRef) => sendLoaded(load(one, () => true))
        const keep = ({ event_id }: DeliveryRef) =>
          Effect.map(
            sql<{ readonly version: string }>`
              SELECT xmin::text AS version
              FROM notification_endpoints
              WHERE endpoint_id = ${endpoint_id}
            `,
            ([row]) =>
              recent.keep({ event_id, type: "test", body: Buffer.from(body) }, [
                { endpoint_id, version: row?.version ?? "" }
              ])
          )
        const notStored = { _tag: "Refused", error: "the event was removed by retention" } as const
        const sent = { _tag: "Delivered", status: 204 } as const
        const stored = yield* ref
        yield* insertEvents(sql, [
          {
            ...stored,
            type: "test",
            approval_id: null,
            body: Buffer.from(body),
            occurred_at: yield* DateTime.now
          }
        ])
        // The endpoint is not in the cache yet; then it is.
        assert.deepStrictEqual(yield* Effect.tap(attempt(stored), keep(stored)), sent)
        const [first, second, third] = [yield* ref, yield* ref, yield* ref]
        yield* keep(first)
        assert.deepStrictEqual(yield* attempt(first), sent)
        assert.deepStrictEqual(yield* attempt(first), notStored, "a later attempt reads the rows")
        assert.deepStrictEqual(
          receiver.seen.map((seen) => [seen.body, header(seen, "x-svc-event-type")]),
          [
            [body, "test"],
            [body, "test"]
          ]
        )
        yield* sql`UPDATE notification_endpoints SET active = active WHERE endpoint_id = ${endpoint_id}`
        yield* keep(second)
        assert.deepStrictEqual(yield* attempt(second), notStored, "its row has another version")
        assert.deepStrictEqual(yield* attempt(stored), sent)
        yield* keep(third)
        yield* sql`UPDATE notification_endpoints SET active = false WHERE endpoint_id = ${endpoint_id}`
        const disabled = { _tag: "Refused", error: "the endpoint is disabled" } as const
        assert.deepStrictEqual(yield* attempt(stored), disabled)
        assert.deepStrictEqual(yield* attempt(third), disabled, "this replica has read the change")
      })
  )

  testWithWebhooks("nothing is sent if the process was suspended after the lease was checked", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const receiver = yield* startScriptedServer([ok])
      const { load, policy } = yield* Effect.provideService(WebhookChannel.make(), StoreClock, processTime)
      const { destination_id, org_id } = yield* insertEndpoint(receiver.url)
      const event_id = yield* EventId.generate
      const event = { org_id, event_id, type: "test", approval_id: null, body: Buffer.from(body) } as const
      yield* insertEvents(sql, [{ ...event, occurred_at: yield* DateTime.now }])
      const send = yield* load({ org_id, destination_id, event_id, delivery_id: "ndl" }, () => true)
      const checked = yield* monotonicNow
      assert.deepInclude(yield* send(checked - policy.deadlineMillis), {
        _tag: "Retry",
        error: "timed out waiting for a response"
      })
      assert.strictEqual(receiver.seen.length, 0)
      assert.deepInclude(yield* send(checked), { _tag: "Delivered" })
    })
  )

  testWithWebhooks("2xx is success, 410 disables the endpoint, and every other status is retried", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const statuses = [200, 204, 299, 300, 307, 400, 401, 404, 409, 411, 429, 500, 503, 599, 410]
      const receiver = yield* startScriptedServer(statuses.map((status) => ({ status })))
      const { load } = yield* Effect.provideService(WebhookChannel.make(), StoreClock, processTime)
      const { destination_id, org_id } = yield* insertEndpoint(receiver.url)
      const event_id = yield* EventId.generate
      const event = { org_id, event_id, type: "test", approval_id: null, body: Buffer.from(body) } as const
      yield* insertEvents(sql, [{ ...event, occurred_at: yield* DateTime.now }])
      const outcomes = yield* Effect.forEach(statuses, () =>
        sendLoaded(load({ org_id, destination_id, event_id, delivery_id: "ndl" }, () => true))
      )
      assert.deepStrictEqual(
        outcomes.map(({ _tag }) => _tag),
        statuses.map((status) => (status < 300 ? "Delivered" : status === 410 ? "Gone" : "Retry"))
      )
    })
  )

  testWithWebhooks("a replaced secret that has ended does not sign the first attempt of an event", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const box = yield* SecretBox
      const recent = yield* RecentEvents
      const receiver = yield* startScriptedServer([ok])
      let now = new Date()
      const time = { ...processTime, simulated: () => now }
      const { load } = yield* Effect.provideService(WebhookChannel.make(), StoreClock, time)
      const endpoint = yield* insertEndpoint(receiver.url)
      const { org_id } = endpoint
      const endpoint_id = EndpointId.make(endpoint.destination_id)
      const previous = yield* generateSigningSecret
      const [row] = yield* sql<{ readonly version: string }>`
        UPDATE notification_endpoints
        SET
          previous_secret = ${yield* box.seal(endpointPlace(org_id, endpoint_id, "previous_secret"), previous)},
          previous_secret_until = ${new Date(now.getTime() + 60_000)}
        WHERE endpoint_id = ${endpoint_id}
        RETURNING xmin::text AS version
      `
      const event_id = yield* EventId.generate
      const event = { org_id, event_id, type: "test", approval_id: null, body: Buffer.from(body) } as const
      yield* insertEvents(sql, [{ ...event, occurred_at: yield* DateTime.now }])
      const attempt = Effect.suspend(() => {
        recent.keep(event, [{ endpoint_id, version: row?.version ?? "" }])
        return sendLoaded(
          load({ org_id, destination_id: endpoint_id, event_id, delivery_id: "ndl" }, () => true)
        )
      })
      yield* attempt
      now = new Date(now.getTime() + 60_000)
      yield* attempt
      const signaturesOf = (seen: SeenRequest | undefined) =>
        header(seen, "x-svc-signature").split(",v1=").length - 1
      assert.deepStrictEqual(receiver.seen.map(signaturesOf), [2, 1])
      signedAt(endpoint.secret, receiver.seen[1])
    })
  )

  testWithWebhooks("an endpoint that answers 410 again is not recorded as disabled again", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { disable } = yield* Effect.provideService(WebhookChannel.make(), StoreClock, processTime)
      const { destination_id, org_id } = yield* insertEndpoint("https://hooks.example.org/")
      yield* disable(org_id, destination_id, "ndl_first")
      yield* disable(org_id, destination_id, "ndl_second")
      const entries = yield* sql`SELECT action, detail FROM audit_log WHERE target_id = ${destination_id}`
      assert.deepStrictEqual(entries, [
        { action: "endpoint.disabled", detail: { status: 410, delivery_id: "ndl_first" } }
      ])
      const rows = yield* sql`
        SELECT disabled_by_delivery FROM notification_endpoints WHERE endpoint_id = ${destination_id}
      `
      assert.deepStrictEqual(rows, [{ disabled_by_delivery: "ndl_first" }])
    })
  )

  testWithWebhooks("redirects are not followed, and no text of the receiver is stored", () =>
    Effect.gen(function* () {
      const trap = yield* startScriptedServer([ok])
      const receiver = yield* startScriptedServer([
        { status: 307, headers: { location: trap.url }, body: { secret: "of the receiver" } }
      ])
      const endpoint = yield* insertEndpoint(receiver.url)
      yield* publishWebhookEvents([endpoint], body)
      const [record] = yield* awaitRecords(endpoint, status("failed"))
      assert.strictEqual(record?.attempts, 3)
      assert.strictEqual(record?.last_error, "HTTP 307: redirects are not followed")
      assert.lengthOf(trap.seen, 0)
      assert.lengthOf(receiver.seen, 3)
    }).pipe(withWebhookEngine({ delays }))
  )

  testWithWebhooks("an endpoint that answers 410 is disabled and gets no further requests", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const receiver = yield* startScriptedServer([{ status: 410 }])
      const endpoint = yield* insertEndpoint(receiver.url)
      yield* publishWebhookEvents([endpoint], body)
      const [record] = yield* awaitRecords(endpoint, status("failed"))
      assert.strictEqual(record?.attempts, 1)
      assert.strictEqual(record?.last_error, "HTTP 410: the endpoint was disabled")
      const rows = yield* sql<{ readonly active: boolean }>`SELECT active FROM notification_endpoints`
      assert.deepStrictEqual(rows, [{ active: false }])
      // An event whose transaction selected the endpoint before it was disabled.
      yield* publishWebhookEvents([endpoint], body)
      const [unsent] = yield* awaitRecords(endpoint, (list) => list.length === 2 && status("failed")(list))
      assert.strictEqual(unsent?.attempts, 0)
      assert.strictEqual(unsent?.last_error, "the endpoint is disabled")
      assert.lengthOf(receiver.seen, 1)
    }).pipe(withWebhookEngine())
  )

  testWithWebhooks("an endpoint that was removed gets none of its queued deliveries", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const delivery = yield* Delivery
      const receiver = yield* startScriptedServer([{ status: 500 }, { status: 500 }, { status: 500 }, ok])
      const endpoint = yield* insertEndpoint(receiver.url)
      yield* publishWebhookEvents([endpoint], body)
      yield* awaitRecords(endpoint, ([record]) => record?.attempts === 1)
      yield* transaction(
        Effect.andThen(
          sql`DELETE FROM notification_endpoints WHERE endpoint_id = ${endpoint.destination_id}`,
          delivery.discard(endpoint.org_id, endpoint.destination_id)
        )
      )
      const [record] = yield* awaitRecords(endpoint, status("failed"))
      assert.strictEqual(record?.last_error, "the destination was removed")
      // By the time another endpoint has had two retries, the removed one would have had one too. Its retry is due long after its removal.
      const other = yield* insertEndpoint(receiver.url)
      const [event_id] = yield* publishWebhookEvents([other], body)
      yield* awaitRecords(other, status("delivered"))
      assert.deepStrictEqual(
        receiver.seen.slice(1).map((seen) => header(seen, "x-svc-event-id")),
        [String(event_id), String(event_id), String(event_id)]
      )
    }).pipe(withWebhookEngine({ delays: [0, 2_000, 2_000].map((millis) => Duration.millis(millis)) }))
  )

  testWithWebhooks("a receiver that does not respond does not delay deliveries to other receivers", () =>
    Effect.gen(function* () {
      const dead = yield* startScriptedServer(["never"])
      const alive = yield* startScriptedServer([ok])
      const stuck = yield* insertEndpoint(dead.url)
      const well = yield* insertEndpoint(alive.url)
      yield* publishWebhookEvents(
        Array.from({ length: 40 }, () => stuck),
        body
      )
      yield* Effect.promise(() => dead.arrived(8))
      yield* publishWebhookEvents(
        Array.from({ length: 40 }, () => well),
        body
      )
      yield* Effect.promise(() => alive.arrived(40))
      yield* awaitRecords(well, status("delivered"))
      // At most eight attempts run concurrently, and none of them has ended yet.
      assert.lengthOf(dead.seen, 8)
    }).pipe(withWebhookEngine({}, { drainMillis: 0 }))
  )

  testWithWebhooks("an attempt times out after five seconds", () =>
    Effect.gen(function* () {
      const delivery = yield* Delivery
      const receiver = yield* startScriptedServer(["never"])
      const endpoint = yield* insertEndpoint(receiver.url)
      yield* publishWebhookEvents([endpoint], body)
      yield* Effect.promise(() => receiver.arrived(1))
      // Another timer of this process: on a busy machine both end late.
      const [control] = yield* Effect.timed(Effect.sleep("5 seconds"))
      const [record] = yield* awaitRecords(endpoint, status("failed"))
      if (record === undefined) return assert.fail("a delivery has a record")
      const { attempt_log } = yield* delivery.get(endpoint.org_id, endpoint.destination_id, record.id)
      const [attempt] = attempt_log
      assert.strictEqual(attempt?.status, null)
      assert.match(attempt?.error ?? "", /^timed out/)
      assert.isAtLeast(attempt?.duration_ms ?? 0, 4_990)
      assert.isAtMost(attempt?.duration_ms ?? Infinity, Duration.toMillis(control) + 500)
    }).pipe(withWebhookEngine({ delays: [Duration.zero] }))
  )
})
