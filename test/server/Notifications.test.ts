import { assert, layer } from "@effect/vitest"
import { DateTime, Effect, Fiber, type Redacted, Result } from "effect"
import { SqlClient } from "effect/sql"
import { Webhook as StandardWebhook } from "standardwebhooks"
import { Webhook as SvixWebhook } from "svix"
import type { ClientCalls } from "../../src/client/Client.ts"
import type { DeliveryRecord } from "../../src/domain/DeliveryState.ts"
import { DeliveryId, EndpointId, StepId } from "../../src/domain/Ids.ts"
import { transaction } from "../../src/server/Database/transaction.ts"
import { Delivery } from "../../src/server/Delivery.ts"
import { Countersign } from "../../src/testing/index.ts"
import { verify } from "../../src/webhook/index.ts"
import { type Scripted, scriptedServer, type Seen } from "../support/scripted.ts"
import { send, service } from "../support/service.ts"
import { eventually } from "../support/eventually.ts"
import { wholeStore } from "../support/wholeStore.ts"

/** One attempt a delivery, and no cooldown, so that a failure is there at once. */
const oneAttempt = { COUNTERSIGN_NOTIFY_RETRY_SECONDS: "0", COUNTERSIGN_NOTIFY_COOLDOWN_AFTER: "1000" }

/** One failure begins a cooldown that outlasts the test. */
const coolsAtOnce = { COUNTERSIGN_NOTIFY_RETRY_SECONDS: "0", COUNTERSIGN_NOTIFY_COOLDOWN_AFTER: "1" }

/** Room for two deliveries, which stay in it: the first attempt is an hour away. */
const roomForTwo = { COUNTERSIGN_NOTIFY_RETRY_SECONDS: "3600", COUNTERSIGN_NOTIFY_QUEUE_LIMIT: "2" }

const ok: Scripted = { status: 204 }

/** An admin of an organization of its own, and an endpoint at a receiver that answers as scripted. */
const setUp = Effect.fnUntraced(function* (organization: string, answers: ReadonlyArray<Scripted> = [ok]) {
  const countersign = yield* Countersign
  const admin = yield* countersign.client({}, organization)
  const receiver = yield* scriptedServer(answers)
  const { endpoint, secret } = yield* admin.notification_endpoints.create({
    payload: { url: `${receiver.url}/hook/of-mine` }
  })
  return { admin, receiver, secret, endpoint, params: { id: endpoint.id } }
})

/** An agent asks for leave, so that `approval.requested` is recorded. */
const ask = Effect.fnUntraced(function* (client: ClientCalls) {
  const { session_id } = yield* client.sessions.create({})
  const { approval_id } = yield* client.sessions.step({
    params: { id: session_id },
    payload: { step_id: StepId.make("1"), tool: "payments.refund", action_class: "write" }
  })
  return approval_id ?? assert.fail("the step waits for a person")
})

/** The endpoint's deliveries, once they hold. */
const deliveries = (
  client: ClientCalls,
  id: EndpointId,
  holds: (list: ReadonlyArray<DeliveryRecord>) => boolean
) =>
  eventually(
    Effect.map(client.notification_endpoints.deliveries({ params: { id } }), (answer) => answer.deliveries),
    holds
  )

const all =
  (count: number, status: string) =>
  (list: ReadonlyArray<DeliveryRecord>): boolean =>
    list.length === count && list.every((record) => record.status === status)

/** The one delivery there is. */
const only = (client: ClientCalls, id: EndpointId, status: string) =>
  Effect.map(deliveries(client, id, all(1, status)), ([record]) => record ?? assert.fail("a delivery"))

const headersOf = (seen: Seen) =>
  Object.fromEntries(Object.entries(seen.headers).map(([name, value]) => [name, String(value)]))

/** Which of the secrets a request is signed with, if our helper and both published libraries agree. */
const signers = (seen: Seen | undefined, secrets: ReadonlyArray<string>) =>
  Effect.promise(async () => {
    const request = seen ?? assert.fail("a request")
    const headers = headersOf(request)
    const found: Array<number> = []
    for (const [index, secret] of secrets.entries()) {
      const { ok } = await verify(request.body, headers, secret)
      const standard = Result.isSuccess(
        Result.try(() => new StandardWebhook(secret).verify(request.body, headers))
      )
      const svix = Result.isSuccess(Result.try(() => new SvixWebhook(secret).verify(request.body, headers)))
      assert.strictEqual(standard, ok, `standardwebhooks and ours about secret ${index}`)
      assert.strictEqual(svix, ok, `svix and ours about secret ${index}`)
      if (ok) found.push(index)
    }
    return found
  })

/** Waits until so many statements of this database wait for a lock. */
const blocked = (count: number) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    eventually(
      sql<{ readonly count: number }>`
        SELECT count(DISTINCT w.pid)::int AS count
        FROM pg_locks w
        JOIN pg_locks here ON here.pid = w.pid
        JOIN pg_database d ON d.oid = here.database
        WHERE NOT w.granted
          AND d.datname = current_database()
      `,
      ([row]) => row?.count === count
    )
  )

layer(service({ environment: oneAttempt }), { excludeTestServices: true })("notification endpoints", (it) => {
  it.effect("change their events and keep their address and their secret", () =>
    Effect.gen(function* () {
      const { admin, endpoint, params, receiver, secret } = yield* setUp("change events")
      const changed = yield* admin.notification_endpoints.update({
        params,
        payload: { events: ["approval.approved", "approval.requested", "approval.approved"] }
      })
      assert.deepStrictEqual(changed, { ...endpoint, events: ["approval.approved", "approval.requested"] })
      yield* ask(admin)
      yield* only(admin, endpoint.id, "delivered")
      assert.strictEqual(receiver.seen[0]?.url, "/hook/of-mine")
      assert.deepStrictEqual(yield* signers(receiver.seen[0], [secret]), [0])

      yield* admin.notification_endpoints.update({ params, payload: { events: ["approval.expired"] } })
      yield* ask(admin)
      yield* only(admin, endpoint.id, "delivered")
      const { endpoints } = yield* admin.notification_endpoints.list()
      assert.deepStrictEqual(endpoints[0]?.events, ["approval.expired"])
      assert.isTrue(endpoints[0]?.active)
    })
  )

  it.effect("are rotated under a key whatever body comes with it: nobody asked for one", () =>
    Effect.gen(function* () {
      const { endpoint } = yield* setUp("surplus body")
      const key = yield* (yield* Countersign).key({}, "surplus body")
      const rotate = (body: string) =>
        send(`/v1/notification-endpoints/${endpoint.id}/rotate-secret`, {
          method: "POST",
          key,
          headers: { "idempotency-key": "once" },
          body
        })
      const first = yield* rotate(JSON.stringify("x".repeat(100_000)))
      assert.strictEqual(first.status, 200)
      assert.deepStrictEqual((yield* rotate("")).body, first.body)
    })
  )

  it.effect("refuse what is no selection of events, and a change of nothing", () =>
    Effect.gen(function* () {
      const { endpoint } = yield* setUp("bad events")
      const key = yield* (yield* Countersign).key({}, "bad events")
      const path = `/v1/notification-endpoints/${endpoint.id}`
      for (const events of [[], ["approval.nonsense"], ["test"], "approval.requested", null, {}, [1]]) {
        for (const answer of [
          yield* send(path, { method: "PATCH", key, body: JSON.stringify({ events, active: true }) }),
          yield* send("/v1/notification-endpoints", {
            method: "POST",
            key,
            body: JSON.stringify({ url: "https://example.com/hook", events })
          }),
          // Whatever else is at fault.
          yield* send("/v1/notification-endpoints", { method: "POST", key, body: JSON.stringify({ events }) })
        ]) {
          assert.strictEqual(answer.status, 400, JSON.stringify(events))
          assert.strictEqual(answer.body["code"], "INVALID_WEBHOOK_EVENTS", JSON.stringify(events))
          assert.isTrue(answer.errors.some(({ pointer }) => pointer.startsWith("#/events")))
        }
      }
      for (const [body, pointer] of [
        ["{}", "#"],
        [`{"url":"https://example.com/"}`, "#"],
        [`{"active":"yes"}`, "#/active"],
        [`{"active":null}`, "#/active"]
      ] as const) {
        const answer = yield* send(path, { method: "PATCH", key, body })
        assert.strictEqual(answer.body["code"], "INVALID_REQUEST", body)
        assert.strictEqual(answer.errors[0]?.pointer, pointer, body)
      }
    })
  )

  it.effect("that are switched off get nothing, and are switched on again", () =>
    Effect.gen(function* () {
      const { admin, endpoint, params, receiver } = yield* setUp("switched off")
      const off = yield* admin.notification_endpoints.update({ params, payload: { active: false } })
      assert.deepStrictEqual(off, { ...endpoint, active: false })
      yield* ask(admin)
      const test = yield* admin.notification_endpoints.test({ params })
      const refused = yield* only(admin, endpoint.id, "failed")
      assert.strictEqual(refused.id, test.id)
      assert.strictEqual(refused.attempts, 0)
      assert.strictEqual(refused.last_error, "the endpoint is switched off")
      assert.lengthOf(receiver.seen, 0)

      const on = yield* admin.notification_endpoints.update({ params, payload: { active: true } })
      assert.deepStrictEqual(on, endpoint)
      yield* ask(admin)
      yield* deliveries(admin, endpoint.id, ([latest]) => latest?.status === "delivered")
      assert.lengthOf(receiver.seen, 1)
    })
  )

  it.effect(
    "that answer 410 are switched off, say why, and get the event again after a switch and a replay",
    () =>
      Effect.gen(function* () {
        const { admin, endpoint, params, receiver } = yield* setUp("gone", [{ status: 410 }, ok])
        const approval_id = yield* ask(admin)
        const failed = yield* only(admin, endpoint.id, "failed")
        assert.strictEqual(failed.label, `approval.requested ${approval_id}`)
        assert.strictEqual(failed.last_error, "HTTP 410: the endpoint was switched off")
        assert.isNotNull(failed.finished_at)
        const { endpoints } = yield* admin.notification_endpoints.list()
        assert.isFalse(endpoints[0]?.active)
        yield* ask(admin)
        yield* only(admin, endpoint.id, "failed")

        yield* admin.notification_endpoints.update({ params, payload: { active: true } })
        const delivery = { params: { id: endpoint.id, delivery: failed.id } }
        assert.deepStrictEqual(yield* admin.notification_endpoints.replay(delivery), {
          queued: true,
          id: failed.id
        })
        const { last_error, replays } = yield* only(admin, endpoint.id, "delivered")
        assert.strictEqual(replays, 1)
        assert.strictEqual(last_error, null)
        const detail = yield* admin.notification_endpoints.delivery(delivery)
        assert.strictEqual(detail.event_id, failed.event_id)
        assert.deepStrictEqual(
          detail.attempt_log.map(({ attempt, error, status }) => [attempt, status, error]),
          [
            [1, 410, "HTTP 410: the endpoint was switched off"],
            [2, 204, null]
          ]
        )
        const [first, second] = receiver.seen
        assert.strictEqual(first?.headers["x-svc-event-id"], failed.event_id)
        assert.strictEqual(second?.headers["x-svc-event-id"], failed.event_id)
        assert.strictEqual(second?.body, first?.body)
        const again = yield* Effect.flip(admin.notification_endpoints.replay(delivery))
        assert.strictEqual(again._tag, "NOT_REPLAYABLE")
      })
  )

  it.effect("are sent a test whatever they subscribed to, alone, and once for one idempotency key", () =>
    Effect.gen(function* () {
      const { admin, endpoint, params, receiver, secret } = yield* setUp("test event")
      const other = yield* admin.notification_endpoints.create({ payload: { url: receiver.url } })
      yield* admin.notification_endpoints.update({ params, payload: { events: ["approval.expired"] } })
      const request = { params, headers: { "idempotency-key": "try-it" } }
      const queued = yield* admin.notification_endpoints.test(request)
      assert.isTrue(queued.queued)
      assert.deepStrictEqual(yield* admin.notification_endpoints.test(request), queued)
      const record = yield* only(admin, endpoint.id, "delivered")
      assert.strictEqual(record.id, queued.id)
      assert.strictEqual(record.label, "test")
      const [seen] = receiver.seen
      const result = yield* Effect.promise(() => verify(seen?.body ?? "", headersOf(seen!), secret))
      if (!result.ok) return assert.fail(result.message)
      assert.strictEqual(result.event.type, "test")
      assert.strictEqual(result.event.id, record.event_id)
      assert.strictEqual(seen?.headers["x-svc-event-type"], "test")
      const body: unknown = JSON.parse(seen?.body ?? "")
      assert.hasAllKeys(body, ["id", "type", "org_id", "occurred_at", "approval"])
      assert.propertyVal(body, "approval", null)
      yield* deliveries(admin, other.endpoint.id, (list) => list.length === 0)
      assert.lengthOf(receiver.seen, 1)
    })
  )

  it.effect("sign with the old and the new secret after a rotation, and with the newest two after two", () =>
    Effect.gen(function* () {
      const { admin, endpoint, params, receiver, secret } = yield* setUp("rotation")
      const sent = Effect.fnUntraced(function* () {
        const count = receiver.seen.length + 1
        yield* admin.notification_endpoints.test({ params })
        yield* Effect.promise(() => receiver.arrived(count))
        return receiver.seen[count - 1]
      })
      const secrets = [secret]
      assert.deepStrictEqual(yield* signers(yield* sent(), secrets), [0])

      const request = { params, headers: { "idempotency-key": "change-it" } }
      const rotated = yield* admin.notification_endpoints.rotate_secret(request)
      assert.deepStrictEqual(yield* admin.notification_endpoints.rotate_secret(request), rotated)
      secrets.push(rotated.secret)
      const both = yield* sent()
      assert.deepStrictEqual(yield* signers(both, secrets), [0, 1])
      assert.match(String(both?.headers["x-svc-signature"]), /^t=\d+,v1=[0-9a-f]{64},v1=[0-9a-f]{64}$/)
      assert.match(String(both?.headers["webhook-signature"]), /^v1,\S{44} v1,\S{44}$/)

      secrets.push((yield* admin.notification_endpoints.rotate_secret({ params })).secret)
      assert.deepStrictEqual(yield* signers(yield* sent(), secrets), [1, 2])

      const sql = yield* SqlClient.SqlClient
      const racing = yield* transaction(
        Effect.gen(function* () {
          yield* sql`SELECT 1 AS held FROM notification_endpoints WHERE endpoint_id = ${endpoint.id} FOR UPDATE`
          const rotate = admin.notification_endpoints.rotate_secret({ params })
          const fibers = [yield* Effect.forkChild(rotate), yield* Effect.forkChild(rotate)]
          yield* blocked(2)
          return fibers
        })
      )
      for (const fiber of racing) secrets.push((yield* Fiber.join(fiber)).secret)
      assert.strictEqual(new Set(secrets).size, 5)
      assert.deepStrictEqual(yield* signers(yield* sent(), secrets), [3, 4])

      const [overlap] = yield* sql<{ readonly hours: number }>`
        UPDATE notification_endpoints
        SET previous_secret_until = now()
        WHERE endpoint_id = ${endpoint.id}
        RETURNING (
          SELECT round(extract(epoch FROM p.previous_secret_until - now()) / 3600)::int
          FROM notification_endpoints p
          WHERE p.endpoint_id = ${endpoint.id}
        ) AS hours
      `
      assert.strictEqual(overlap?.hours, 24)
      const alone = yield* signers(yield* sent(), secrets)
      assert.lengthOf(alone, 1)
      assert.include([3, 4], alone[0])

      yield* (yield* Delivery).runRetention
      assert.deepStrictEqual(
        yield* sql`
          SELECT previous_secret, previous_secret_until
          FROM notification_endpoints
          WHERE endpoint_id = ${endpoint.id}
        `,
        [{ previous_secret: null, previous_secret_until: null }]
      )
      assert.deepStrictEqual(yield* signers(yield* sent(), secrets), alone)
    })
  )

  it.effect("never show a secret or an address again, and leave neither in the store", () =>
    Effect.gen(function* () {
      const { admin, endpoint, params, receiver, secret } = yield* setUp("shown once", [{ status: 500 }])
      const request = { params, headers: { "idempotency-key": "kept-sealed" } }
      const rotated = yield* admin.notification_endpoints.rotate_secret(request)
      const { id } = yield* admin.notification_endpoints.test({ params })
      yield* only(admin, endpoint.id, "failed")
      const key = yield* (yield* Countersign).key({}, "shown once")
      const path = `/v1/notification-endpoints/${endpoint.id}`
      const shown = JSON.stringify([
        (yield* send("/v1/notification-endpoints", { key })).body,
        (yield* send(path, { method: "PATCH", key, body: `{"active":true}` })).body,
        (yield* send(`${path}/deliveries`, { key })).body,
        (yield* send(`${path}/deliveries/${id}`, { key })).body
      ])
      assert.include(shown, id)
      assert.notInclude(shown, "of-mine")
      const store = yield* wholeStore
      // What is looked for is found where it is: the event's body is kept as bytes.
      assert.include(store, Buffer.from(`"approval":null`).toString("hex"))
      for (const text of [secret, rotated.secret]) {
        const digits = text.slice("whsec_".length)
        const forms = [
          digits,
          Buffer.from(digits).toString("hex"),
          Buffer.from(digits, "base64").toString("hex")
        ]
        for (const form of forms) {
          assert.notInclude(shown, form)
          assert.notInclude(store, form)
        }
      }
      for (const text of ["of-mine", receiver.url]) {
        assert.notInclude(store, Buffer.from(text).toString("hex"))
      }
      assert.notInclude(store, "of-mine")
    })
  )

  it.effect("list the latest 50 deliveries, newest first, without bodies", () =>
    Effect.gen(function* () {
      const { admin, endpoint, params } = yield* setUp("latest")
      const first = yield* admin.notification_endpoints.test({ params })
      yield* only(admin, endpoint.id, "delivered")
      for (let count = 0; count < 50; count++) yield* admin.notification_endpoints.test({ params })
      const list = yield* deliveries(admin, endpoint.id, all(50, "delivered"))
      assert.notInclude(
        list.map(({ id }) => id),
        first.id
      )
      const times = list.map((record) => DateTime.toEpochMillis(record.created_at))
      assert.deepStrictEqual(
        times,
        times.toSorted((a, b) => b - a)
      )
      const answer = yield* send(`/v1/notification-endpoints/${endpoint.id}/deliveries`, {
        key: yield* (yield* Countersign).key({}, "latest")
      })
      const raw = answer.body["deliveries"]
      assert.hasAllKeys(Array.isArray(raw) ? raw[0] : undefined, [
        "id",
        "event_id",
        "label",
        "status",
        "attempts",
        "replays",
        "last_error",
        "created_at",
        "finished_at"
      ])
    })
  )

  it.effect("replay every failed delivery of a window", () =>
    Effect.gen(function* () {
      const { admin, endpoint, params, receiver } = yield* setUp("window", [
        { status: 500 },
        { status: 500 },
        { status: 500 },
        ok
      ])
      for (const count of [1, 2, 3]) {
        yield* ask(admin)
        yield* deliveries(admin, endpoint.id, all(count, "failed"))
      }
      const [third, second, first] = yield* deliveries(admin, endpoint.id, all(3, "failed"))
      if (first === undefined || second === undefined || third === undefined) return assert.fail("three")
      const between = yield* admin.notification_endpoints.replay_window({
        params,
        payload: { since: second.created_at, until: third.created_at }
      })
      assert.deepStrictEqual(between, { queued: 1, skipped: 0 })
      yield* deliveries(
        admin,
        endpoint.id,
        (list) => list.find((record) => record.id === second.id)?.status === "delivered"
      )
      const rest = yield* admin.notification_endpoints.replay_window({
        params,
        payload: { since: first.created_at, until: null }
      })
      assert.deepStrictEqual(rest, { queued: 2, skipped: 0 })
      yield* deliveries(admin, endpoint.id, all(3, "delivered"))
      const events = receiver.seen.map((seen) => seen.headers["x-svc-event-id"])
      assert.sameMembers(events.slice(3), [first.event_id, second.event_id, third.event_id])
      assert.deepStrictEqual(
        yield* admin.notification_endpoints.replay_window({ params, payload: { since: first.created_at } }),
        { queued: 0, skipped: 0 }
      )

      const key = yield* (yield* Countersign).key({}, "window")
      for (const [body, pointer] of [
        ["{}", "#/since"],
        [`{"since":"yesterday"}`, "#/since"],
        [`{"since":"2026-01-02T00:00:00Z","until":"2026-01-01T00:00:00Z"}`, "#/until"]
      ] as const) {
        const answer = yield* send(`/v1/notification-endpoints/${endpoint.id}/replay`, {
          method: "POST",
          key,
          body
        })
        assert.strictEqual(answer.body["code"], "INVALID_REQUEST", body)
        assert.strictEqual(answer.errors[0]?.pointer, pointer, body)
      }
    })
  )

  it.effect(
    "do not exist for another organization, nor a delivery at another endpoint, nor once removed",
    () =>
      Effect.gen(function* () {
        const countersign = yield* Countersign
        const { admin, endpoint, params } = yield* setUp("owner", [{ status: 500 }])
        const sibling = yield* admin.notification_endpoints.create({
          payload: { url: "https://1.1.1.1/hook" }
        })
        const { id } = yield* admin.notification_endpoints.test({ params })
        yield* only(admin, endpoint.id, "failed")
        const owner = yield* countersign.key({}, "owner")
        const stranger = yield* countersign.key({}, "stranger")
        const base = "/v1/notification-endpoints"
        const onDelivery: ReadonlyArray<readonly [string, string]> = [
          ["GET", `/deliveries/${id}`],
          ["POST", `/deliveries/${id}/replay`]
        ]
        const onEndpoint: typeof onDelivery = [
          ["GET", "/deliveries"],
          ["POST", "/replay"],
          ["POST", "/rotate-secret"],
          ["POST", "/test"],
          ["PATCH", ""],
          ["DELETE", ""],
          ...onDelivery
        ]
        const absent = Effect.fnUntraced(function* (
          key: Redacted.Redacted,
          at: string,
          operations: typeof onDelivery
        ) {
          for (const [method, path] of operations) {
            const answer = yield* send(`${base}/${at}${path}`, {
              method,
              key,
              ...(method === "PATCH" || path === "/replay"
                ? { body: `{"active":false,"since":"2026-01-01T00:00:00Z"}` }
                : {})
            })
            assert.strictEqual(answer.status, 404, `${method} ${path}`)
            assert.strictEqual(answer.body["code"], "NOT_FOUND", `${method} ${path}`)
          }
        })
        yield* absent(stranger, endpoint.id, onEndpoint)
        yield* absent(owner, sibling.endpoint.id, onDelivery)
        yield* absent(owner, endpoint.id, [
          ["GET", `/deliveries/${yield* DeliveryId.generate}`],
          ["POST", `/deliveries/${yield* DeliveryId.generate}/replay`],
          ["GET", "/deliveries/nonsense"]
        ])
        yield* absent(owner, yield* EndpointId.generate, onEndpoint)
        assert.deepStrictEqual(
          yield* Effect.map(
            admin.notification_endpoints.delivery({ params: { ...params, delivery: id } }),
            (found) => [found.status, found.replays]
          ),
          ["failed", 0]
        )
        yield* admin.notification_endpoints.remove({ params })
        yield* absent(owner, endpoint.id, onEndpoint)
      })
  )

  it.effect("are 50 at most, however many are made at once", () =>
    Effect.gen(function* () {
      const { admin } = yield* setUp("fifty")
      const make = admin.notification_endpoints.create({ payload: { url: "https://1.1.1.1/hook" } })
      yield* Effect.replicateEffect(make, 47, { discard: true })
      const sql = yield* SqlClient.SqlClient
      const racing = yield* transaction(
        Effect.gen(function* () {
          // All have counted, or wait for one that has, before any is written.
          yield* sql`LOCK TABLE notification_endpoints IN SHARE MODE`
          const fibers = yield* Effect.replicateEffect(Effect.forkChild(Effect.result(make)), 5)
          yield* blocked(5)
          return fibers
        })
      )
      const outcomes = yield* Effect.forEach(racing, (fiber) => Fiber.join(fiber))
      const refused = outcomes.filter(Result.isFailure).map(({ failure }) => failure._tag)
      assert.deepStrictEqual(refused, ["LIMIT_REACHED", "LIMIT_REACHED", "LIMIT_REACHED"])
      const { endpoints } = yield* admin.notification_endpoints.list()
      assert.lengthOf(endpoints, 50)
      const [oldest] = endpoints
      if (oldest === undefined) return assert.fail("fifty")
      yield* admin.notification_endpoints.remove({ params: { id: oldest.id } })
      yield* make
    })
  )

  it.effect("refuse an address that may not be used, with the reason", () =>
    Effect.gen(function* () {
      const key = yield* (yield* Countersign).key({}, "bad address")
      for (const [url, reason] of [
        ["ftp://example.com/", /https/],
        ["https://user:word@example.com/", /@|user|credential/i],
        ["https://example.com/#part", /#|fragment/i],
        ["https://localhost/", /public name/],
        ["https://10.0.0.1/", /address/],
        ["https://1.1.1.1:22/", /port/i],
        [`https://example.com/${"a".repeat(2_048)}`, /2,?048/]
      ] as const) {
        const answer = yield* send("/v1/notification-endpoints", {
          method: "POST",
          key,
          body: JSON.stringify({ url })
        })
        assert.strictEqual(answer.status, 400, url)
        assert.strictEqual(answer.body["code"], "INVALID_URL", url)
        assert.match(String(answer.body["detail"]), reason, url)
        assert.deepStrictEqual(answer.errors, [{ pointer: "#/url", detail: String(answer.body["detail"]) }])
        assert.notInclude(JSON.stringify(answer.body), "word@")
      }
    })
  )

  it.effect("are read with org_config.read and changed with org_config.write alone", () =>
    Effect.gen(function* () {
      const { endpoint } = yield* setUp("scopes")
      const reader = yield* (yield* Countersign).client(
        { name: "reader", scopes: ["org_config.read"] },
        "scopes"
      )
      const params = { id: endpoint.id }
      yield* reader.notification_endpoints.deliveries({ params })
      const refused = [
        yield* Effect.flip(reader.notification_endpoints.update({ params, payload: { active: false } })),
        yield* Effect.flip(reader.notification_endpoints.rotate_secret({ params })),
        yield* Effect.flip(reader.notification_endpoints.test({ params }))
      ]
      for (const { _tag } of refused) assert.strictEqual(_tag, "INSUFFICIENT_SCOPE")
    })
  )
})

layer(service({ environment: coolsAtOnce }), { excludeTestServices: true })("a failed delivery", (it) => {
  it.effect("is queued once by two replays at once, and waits for the cooldown", () =>
    Effect.gen(function* () {
      const { admin, endpoint, params, receiver } = yield* setUp("racing replays", [{ status: 500 }])
      const { id } = yield* admin.notification_endpoints.test({ params })
      yield* only(admin, endpoint.id, "failed")
      const replay = admin.notification_endpoints.replay({ params: { ...params, delivery: id } })
      const outcomes = yield* Effect.all([Effect.result(replay), Effect.result(replay)], {
        concurrency: "unbounded"
      })
      assert.deepStrictEqual(
        outcomes.filter(Result.isSuccess).map(({ success }) => success),
        [{ queued: true, id }]
      )
      assert.deepStrictEqual(
        outcomes.filter(Result.isFailure).map(({ failure }) => failure._tag),
        ["NOT_REPLAYABLE"]
      )
      const record = yield* only(admin, endpoint.id, "pending")
      assert.strictEqual(record.replays, 1)
      assert.strictEqual(record.finished_at, null)
      const { endpoints } = yield* admin.notification_endpoints.list()
      assert.isNotNull(endpoints[0]?.cooldown_until)
      assert.strictEqual(endpoints[0]?.consecutive_failures, 1)
      assert.strictEqual(endpoints[0]?.pending_deliveries, 1)
      assert.lengthOf(receiver.seen, 1)
    })
  )

  it.effect("is queued once by a replay and a bulk replay at once", () =>
    Effect.gen(function* () {
      const { admin, endpoint, params } = yield* setUp("replay and bulk", [{ status: 500 }])
      const { id } = yield* admin.notification_endpoints.test({ params })
      const failed = yield* only(admin, endpoint.id, "failed")
      const [one, bulk] = yield* Effect.all(
        [
          Effect.result(admin.notification_endpoints.replay({ params: { ...params, delivery: id } })),
          admin.notification_endpoints.replay_window({ params, payload: { since: failed.created_at } })
        ],
        { concurrency: "unbounded" }
      )
      assert.strictEqual((Result.isSuccess(one) ? 1 : 0) + bulk.queued, 1)
      assert.strictEqual((yield* only(admin, endpoint.id, "pending")).replays, 1)
    })
  )

  it.effect("is not queued for an endpoint whose removal is about to be committed", () =>
    Effect.gen(function* () {
      const { admin, endpoint, params } = yield* setUp("replay and removal", [{ status: 500 }])
      const { id } = yield* admin.notification_endpoints.test({ params })
      yield* only(admin, endpoint.id, "failed")
      const sql = yield* SqlClient.SqlClient
      const replaying = yield* transaction(
        Effect.gen(function* () {
          yield* sql`DELETE FROM notification_endpoints WHERE endpoint_id = ${endpoint.id}`
          const replay = yield* Effect.forkChild(
            Effect.flip(admin.notification_endpoints.replay({ params: { ...params, delivery: id } }))
          )
          yield* Effect.raceFirst(blocked(1), Fiber.await(replay))
          return replay
        })
      )
      assert.strictEqual((yield* Fiber.join(replaying))._tag, "NOT_FOUND")
      assert.deepStrictEqual(
        yield* sql`SELECT 1 AS waiting FROM delivery_queue WHERE destination_id = ${endpoint.id}`,
        []
      )
    })
  )
})

layer(service({ environment: roomForTwo }), { excludeTestServices: true })("a full queue", (it) => {
  it.effect("keeps a new event as failed, refuses a replay and counts what it skips", () =>
    Effect.gen(function* () {
      const { admin, endpoint, params } = yield* setUp("full")
      const made = yield* Effect.replicateEffect(admin.notification_endpoints.test({ params }), 3)
      assert.deepStrictEqual(
        made.map(({ queued }) => queued),
        [true, true, false]
      )
      yield* ask(admin)
      const list = yield* deliveries(admin, endpoint.id, (list) => list.length === 4)
      assert.deepStrictEqual(
        list.map(({ last_error, status }) => [status, last_error]),
        [
          ["failed", "queue full"],
          ["failed", "queue full"],
          ["pending", null],
          ["pending", null]
        ]
      )
      const [event, test, waiting] = list
      if (event === undefined || test === undefined || waiting === undefined) return assert.fail("four")
      assert.strictEqual(test.id, made[2]?.id)
      const replay = (delivery: DeliveryId) =>
        Effect.flip(admin.notification_endpoints.replay({ params: { ...params, delivery } }))
      assert.strictEqual((yield* replay(event.id))._tag, "QUEUE_FULL")
      assert.strictEqual((yield* replay(waiting.id))._tag, "NOT_REPLAYABLE")
      assert.deepStrictEqual(
        yield* admin.notification_endpoints.replay_window({
          params,
          payload: { since: waiting.created_at }
        }),
        { queued: 0, skipped: 2 }
      )
      const { endpoints } = yield* admin.notification_endpoints.list()
      assert.strictEqual(endpoints[0]?.pending_deliveries, 2)
      const detail = yield* admin.notification_endpoints.delivery({
        params: { ...params, delivery: event.id }
      })
      assert.strictEqual(detail.replays, 0)
      assert.deepStrictEqual(detail.attempt_log, [])
    })
  )
})
