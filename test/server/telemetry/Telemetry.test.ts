import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber, Logger } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../../src/api/Authorization.ts"
import type { ClientCalls } from "../../../src/client/Client.ts"
import { KeyId, TelemetryDestinationId } from "../../../src/domain/Ids.ts"
import { formatTimestamp } from "../../../src/domain/Time.ts"
import { transaction } from "../../../src/server/store/transaction.ts"
import { shardOf } from "../../../src/server/delivery/Delivery/shardOf.ts"
import { Telemetry } from "../../../src/server/telemetry/Telemetry.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { startCollector, type CollectorResponse } from "../../support/otlp/collector.ts"
import { sendSpans, newTelemetryOrg } from "../../support/otlp/telemetry.ts"
import { pointersOf, send, service } from "../../support/service.ts"
import { waitForBlockedStatements } from "../../support/eventually.ts"

/** An admin of a new organization, and a collector. */
const setUp = Effect.fnUntraced(function* (
  organization: string,
  answers?: CollectorResponse | ReadonlyArray<CollectorResponse>
) {
  const countersign = yield* Countersign
  const key = yield* countersign.key({}, organization)
  const admin = yield* countersign.clientWith(key)
  const peer = yield* startCollector(answers)
  return { admin, key, peer }
})

const only = (client: ClientCalls) =>
  Effect.map(client.telemetryDestinations.list(), ({ destinations }) => {
    assert.lengthOf(destinations, 1)
    return destinations[0] ?? assert.fail("a destination")
  })

layer(service(), { excludeTestServices: true })("Telemetry destinations", (it) => {
  it.effect("the API shows only the contract's members of a destination", () =>
    Effect.gen(function* () {
      const { admin, key, peer } = yield* setUp("shown")
      const made = yield* send("/v1/telemetry-destinations", {
        key,
        method: "POST",
        body: JSON.stringify({
          url: `${peer.url}/ingest/of-mine?team=7`,
          headers: { authorization: "Bearer s3cr3t-token" }
        })
      })
      assert.strictEqual(made.status, 201)
      assert.deepStrictEqual(made.body, { id: made.body["id"], url_hint: `${peer.url}/…` })
      assert.match(String(made.body["id"]), /^tel_[0-9a-f]{32}$/)
      const { body } = yield* send("/v1/telemetry-destinations", { key })
      const { destinations } = yield* admin.telemetryDestinations.list()
      assert.deepStrictEqual(body, {
        destinations: [
          {
            id: made.body["id"],
            url_hint: `${peer.url}/…`,
            content: false,
            trace: "own",
            scores: "span",
            compression: "auto",
            created_at:
              destinations[0] === undefined ? undefined : formatTimestamp(destinations[0].created_at),
            last_delivered_at: null,
            last_error: null,
            pending_spans: 0,
            dropped_spans: 0
          }
        ]
      })
    })
  )

  it.effect("content is exported only by a key that could read it", () =>
    Effect.gen(function* () {
      const { client } = yield* Countersign
      const writes = ["org_config.read", "org_config.write"] as const
      const reads = ["runs.read", "feedback.read", "sessions.read", "approvals.read"] as const
      const payload = { url: "https://93.184.215.14/v1/traces", content: true }
      for (const lacking of reads) {
        const clerk = yield* client(
          { name: `without ${lacking}`, scopes: [...writes, ...reads.filter((scope) => scope !== lacking)] },
          "exfiltration"
        )
        const refused = yield* Effect.flip(clerk.telemetryDestinations.create({ payload }))
        assert.deepInclude(refused, { _tag: "INSUFFICIENT_SCOPE", required_scope: lacking })
        assert.deepStrictEqual(pointersOf(refused), ["#/content"])
      }
      const clerk = yield* client({ name: "clerk", scopes: writes }, "exfiltration")
      const { id } = yield* clerk.telemetryDestinations.create({ payload: { ...payload, content: false } })
      yield* clerk.telemetryDestinations.remove({ params: { id } })
      const reader = yield* client({ name: "reader", scopes: [...writes, ...reads] }, "exfiltration")
      yield* reader.telemetryDestinations.create({ payload })
    })
  )

  it.effect("an organization has at most one destination, also under concurrent creation", () =>
    Effect.gen(function* () {
      const { admin, key, peer } = yield* setUp("one")
      const create = send("/v1/telemetry-destinations", {
        key,
        method: "POST",
        body: JSON.stringify({ url: peer.url })
      })
      const answers = yield* Effect.all([create, create, create, create], { concurrency: "unbounded" })
      assert.deepStrictEqual(answers.map(({ status }) => status).toSorted(), [201, 409, 409, 409])
      const refused = answers.find(({ status }) => status === 409)
      assert.strictEqual(refused?.body["code"], "DESTINATION_EXISTS")
      const { id } = yield* only(admin)
      yield* admin.telemetryDestinations.remove({ params: { id } })
      assert.deepStrictEqual(yield* admin.telemetryDestinations.list(), { destinations: [] })
      assert.strictEqual((yield* create).status, 201)
    })
  )

  it.effect("each refused URL and header is reported with its pointer and reason", () =>
    Effect.gen(function* () {
      const { key } = yield* setUp("refused")
      const create = (body: unknown) =>
        send("/v1/telemetry-destinations", { key, method: "POST", body: JSON.stringify(body) })
      const url = "https://203.0.113.7/"
      for (const [given, reason] of [
        ["http://8.8.8.8/v1/traces", /https/],
        ["https://user:pw@example.com/", /user|credential/i],
        ["https://example.com/#part", /fragment|#/i],
        ["https://localhost/", /./],
        ["https://10.0.0.1/", /public/],
        ["https://[::1]/", /public/],
        ["nonsense", /./]
      ] as const) {
        const { body, errors, status } = yield* create({ url: given })
        assert.deepStrictEqual([given, status, body["code"]], [given, 400, "INVALID_URL"])
        assert.match(String(body["detail"]), reason)
        assert.strictEqual(errors[0]?.pointer, "#/url")
      }
      for (const [headers, pointer] of [
        [{ host: "a" }, "#/headers/host"],
        [{ "Content-Type": "a" }, "#/headers/Content-Type"],
        [{ traceparent: "a" }, "#/headers/traceparent"],
        [{ Cookie: "a" }, "#/headers/Cookie"],
        [{ "x-team": "a\r\nx-evil: b" }, "#/headers/x-team"],
        [{ "x-team": "" }, "#/headers/x-team"],
        [{ "x-team": "a", "X-Team": "b" }, "#/headers/X-Team"],
        [Object.fromEntries(Array.from({ length: 11 }, (_, at) => [`x-${at}`, "a"])), "#/headers"],
        [{ "x-team": "a".repeat(9_000) }, "#/headers"]
      ] as const) {
        const { body, errors, status } = yield* create({ url, headers })
        assert.deepStrictEqual([pointer, status, body["code"]], [pointer, 400, "INVALID_HEADERS"])
        assert.strictEqual(errors[0]?.pointer, pointer)
      }
      // `__proto__` is an own property in JSON; the decoded object must not lose it.
      const prototype = yield* send("/v1/telemetry-destinations", {
        key,
        method: "POST",
        body: `{"url":"${url}","headers":{"__proto__":"a"}}`
      })
      assert.deepStrictEqual([prototype.status, prototype.body["code"]], [400, "INVALID_HEADERS"])
      const number = yield* create({ url, headers: { "x-team": 7 } })
      assert.deepStrictEqual([number.status, number.body["code"]], [400, "INVALID_REQUEST"])
    })
  )

  it.effect("removing a destination locks rows in the order in which results are recorded", () =>
    Effect.gen(function* () {
      const { admin, peer } = yield* setUp("removed")
      const sql = yield* SqlClient.SqlClient
      const { id } = yield* admin.telemetryDestinations.create({ payload: { url: peer.url } })
      yield* sql`
        INSERT INTO delivery_queue
          (shard, org_id, destination_id, delivery_id, channel, event_id, due_at, attempt, first_attempt)
        SELECT
          ${shardOf(id)}::smallint, org_id, destination_id, 'tdl', 'otlp', 'evt', now() + interval '1 hour', 0, 0
        FROM telemetry_destinations
        WHERE destination_id = ${id}
      `
      const locked = yield* Deferred.make<void>()
      const waited = yield* Deferred.make<void>()
      const writer = yield* Effect.forkChild(
        transaction(
          sql`SELECT seq FROM delivery_queue WHERE destination_id = ${id} FOR UPDATE`.pipe(
            Effect.andThen(Deferred.succeed(locked, undefined)),
            Effect.andThen(Deferred.await(waited)),
            Effect.andThen(
              sql`SELECT 1 FROM telemetry_destinations WHERE destination_id = ${id} FOR UPDATE NOWAIT`
            )
          )
        )
      )
      yield* Deferred.await(locked)
      const removal = yield* Effect.forkChild(admin.telemetryDestinations.remove({ params: { id } }))
      yield* waitForBlockedStatements(1)
      yield* Deferred.succeed(waited, undefined)
      yield* Fiber.join(writer)
      yield* Fiber.join(removal)
      assert.deepStrictEqual(yield* admin.telemetryDestinations.list(), { destinations: [] })
      assert.lengthOf(yield* sql`SELECT 1 FROM delivery_queue WHERE destination_id = ${id}`, 0)
    })
  )

  it.effect("the audit log and the service log count the spans dropped with a destination", () =>
    Effect.gen(function* () {
      const { admin, id, org_id, peer } = yield* newTelemetryOrg("dropped", "never")
      yield* sendSpans(org_id, 3)
      yield* peer.arrived(1)
      const lines: Array<unknown> = []
      const capture = Logger.make(({ message }) => void lines.push(message))
      const actor = { id: yield* KeyId.generate, name: "Ada" }
      yield* Effect.flatMap(Telemetry, (telemetry) => telemetry.remove(id)).pipe(
        Effect.provideService(Authorized("org_config.write"), {
          org_id,
          actor,
          scopes: new Set(["org_config.write"] as const),
          groups: [],
          keyMakers: [],
          makers: []
        }),
        Effect.provide(Logger.layer([capture]))
      )
      assert.deepStrictEqual(lines, [
        [
          "Telemetry destination removed; its pending spans were dropped",
          { org_id, destination_id: id, spans: 3 }
        ]
      ])
      const { entries } = yield* admin.auditLog.list({ query: { action: "destination.removed" } })
      assert.deepStrictEqual(
        entries.map((entry) => [entry.target_id, entry.actor, entry.detail]),
        [[id, actor, { dropped_spans: 3 }]]
      )
    })
  )

  it.effect("other organizations get 404 for a destination", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const { admin, peer } = yield* setUp("mine")
      const { id } = yield* admin.telemetryDestinations.create({ payload: { url: peer.url } })
      const otherKey = yield* countersign.key({}, "theirs")
      for (const [method, path] of [
        ["POST", `${id}/test`],
        ["DELETE", id],
        ["GET", `${id}/deliveries`],
        ["POST", `${id}/deliveries/tdl_0192f0c1a2b37c4d8e5f60718293a4b5/replay`]
      ] as const) {
        const { body, status } = yield* send(`/v1/telemetry-destinations/${path}`, { key: otherKey, method })
        assert.deepStrictEqual([path, status, body["code"]], [path, 404, "NOT_FOUND"])
      }
      const unknown = yield* TelemetryDestinationId.generate
      const gone = yield* Effect.flip(admin.telemetryDestinations.remove({ params: { id: unknown } }))
      assert.strictEqual(gone._tag, "NOT_FOUND")
      assert.lengthOf(peer.exports, 0)
    })
  )
})
