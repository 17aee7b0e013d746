import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, type Redacted, Result } from "effect"
import { SqlClient } from "effect/sql"
import { DeliveryId, EndpointId } from "../../../src/domain/Ids.ts"
import { transaction } from "../../../src/server/store/transaction.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { verify } from "../../../src/webhook/index.ts"
import { waitForBlockedStatements } from "../../support/eventually.ts"
import {
  requestApproval,
  awaitDeliveries,
  headersOf,
  noContent,
  oneAttempt,
  awaitOnlyDelivery,
  seedEndpoint,
  matchingSecrets
} from "../../support/notifications.ts"
import { send, service } from "../../support/service.ts"

layer(service({ environment: oneAttempt }), { excludeTestServices: true })("Notifications", (it) => {
  it.effect("an update changes the events of an endpoint and keeps its URL and secret", () =>
    Effect.gen(function* () {
      const { admin, endpoint, params, receiver, secret } = yield* seedEndpoint("change events")
      const changed = yield* admin.notificationEndpoints.update({
        params,
        payload: { events: ["approval.approved", "approval.requested", "approval.approved"] }
      })
      assert.deepStrictEqual(changed, { ...endpoint, events: ["approval.approved", "approval.requested"] })
      yield* requestApproval(admin)
      yield* awaitOnlyDelivery(admin, endpoint.id, "delivered")
      assert.strictEqual(receiver.seen[0]?.url, "/hook/of-mine")
      assert.deepStrictEqual(yield* matchingSecrets(receiver.seen[0], [secret]), [0])

      yield* admin.notificationEndpoints.update({ params, payload: { events: ["approval.expired"] } })
      yield* requestApproval(admin)
      yield* awaitOnlyDelivery(admin, endpoint.id, "delivered")
      const { endpoints } = yield* admin.notificationEndpoints.list()
      assert.deepStrictEqual(endpoints[0]?.events, ["approval.expired"])
      assert.isTrue(endpoints[0]?.active)
    })
  )

  it.effect("an endpoint has a description, which updates change and clear, and the audit log has it", () =>
    Effect.gen(function* () {
      const { admin, endpoint, params, receiver } = yield* seedEndpoint("descriptions")
      assert.isNull(endpoint.description)
      const created = yield* admin.notificationEndpoints.create({
        payload: { url: `${receiver.url}/second`, description: "Orders team, production" }
      })
      assert.strictEqual(created.endpoint.description, "Orders team, production")
      const named = yield* admin.notificationEndpoints.update({
        params,
        payload: { description: "Billing" }
      })
      assert.deepStrictEqual(named, { ...endpoint, description: "Billing" })
      const { events } = endpoint
      const kept = yield* admin.notificationEndpoints.update({ params, payload: { active: true } })
      assert.deepStrictEqual([kept.description, kept.events], ["Billing", events])
      const cleared = yield* admin.notificationEndpoints.update({ params, payload: { description: null } })
      assert.isNull(cleared.description)
      const { endpoints } = yield* admin.notificationEndpoints.list()
      assert.deepStrictEqual(
        endpoints.map(({ description }) => description),
        ["Orders team, production", null]
      )
      const { entries } = yield* admin.auditLog.list({ query: {} })
      const details = entries.flatMap(({ action, detail }) =>
        action.startsWith("endpoint.") && "description" in detail ? [[action, detail["description"]]] : []
      )
      assert.deepStrictEqual(details, [
        ["endpoint.updated", null],
        ["endpoint.updated", "Billing"],
        ["endpoint.created", "Orders team, production"],
        ["endpoint.created", null]
      ])
    })
  )

  it.effect("a description that is blank, too long, or not one visible line is refused with its place", () =>
    Effect.gen(function* () {
      const { endpoint } = yield* seedEndpoint("hostile descriptions")
      const key = yield* (yield* Countersign).key({}, "hostile descriptions")
      const path = `/v1/notification-endpoints/${endpoint.id}`
      const hostile = [
        "",
        " ",
        "x".repeat(201),
        "two\nlines",
        "\u202eexe.gpj",
        "a\u0000b",
        "zero\u200bwidth",
        1,
        {}
      ]
      for (const description of hostile) {
        for (const answer of [
          yield* send(path, { method: "PATCH", key, body: JSON.stringify({ description }) }),
          yield* send("/v1/notification-endpoints", {
            method: "POST",
            key,
            body: JSON.stringify({ url: "https://example.com/hook", description })
          })
        ]) {
          assert.strictEqual(answer.status, 400, JSON.stringify(description))
          assert.deepStrictEqual([...new Set(answer.errors.map(({ pointer }) => pointer))], ["#/description"])
        }
      }
    })
  )

  it.effect("an invalid list of events and an empty update are refused", () =>
    Effect.gen(function* () {
      const { endpoint } = yield* seedEndpoint("bad events")
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
          // Other faults do not hide this one.
          yield* send("/v1/notification-endpoints", { method: "POST", key, body: JSON.stringify({ events }) })
        ]) {
          assert.strictEqual(answer.status, 400, JSON.stringify(events))
          assert.strictEqual(answer.body["code"], "INVALID_WEBHOOK_EVENTS", JSON.stringify(events))
          assert.isTrue(answer.errors.some(({ pointer }) => pointer.startsWith("#/events")))
        }
      }
      for (const [body, pointer] of [
        ["{}", "#"],
        [`{"url":"https://example.com/"}`, "#/url"],
        [`{"active":"yes"}`, "#/active"],
        [`{"active":null}`, "#/active"]
      ] as const) {
        const answer = yield* send(path, { method: "PATCH", key, body })
        assert.strictEqual(answer.body["code"], "INVALID_REQUEST", body)
        assert.strictEqual(answer.errors[0]?.pointer, pointer, body)
      }
    })
  )

  it.effect("a disabled endpoint gets no deliveries until it is enabled again", () =>
    Effect.gen(function* () {
      const { admin, endpoint, params, receiver } = yield* seedEndpoint("switched off")
      const off = yield* admin.notificationEndpoints.update({ params, payload: { active: false } })
      const { disabled } = off
      assert.deepStrictEqual(off, { ...endpoint, active: false, disabled })
      assert.deepStrictEqual(disabled?.by, endpoint.created_by)
      assert.strictEqual(disabled?.delivery_id, null)
      // Disabling it again changes nothing.
      const again = yield* admin.notificationEndpoints.update({ params, payload: { active: false } })
      assert.deepStrictEqual(again, off)
      yield* requestApproval(admin)
      const test = yield* admin.notificationEndpoints.test({ params })
      const refused = yield* awaitOnlyDelivery(admin, endpoint.id, "failed")
      assert.strictEqual(refused.id, test.id)
      assert.strictEqual(refused.attempts, 0)
      assert.strictEqual(refused.last_error, "the endpoint is disabled")
      assert.lengthOf(receiver.seen, 0)

      const on = yield* admin.notificationEndpoints.update({ params, payload: { active: true } })
      assert.deepStrictEqual(on, endpoint)
      yield* requestApproval(admin)
      yield* awaitDeliveries(admin, endpoint.id, ([latest]) => latest?.status === "delivered")
      assert.lengthOf(receiver.seen, 1)
    })
  )

  it.effect(
    "an endpoint that answers 410 is disabled, and gets the event after it is enabled and the delivery replayed",
    () =>
      Effect.gen(function* () {
        const { admin, endpoint, params, receiver } = yield* seedEndpoint("gone", [
          { status: 410 },
          noContent
        ])
        const approval_id = yield* requestApproval(admin)
        const failed = yield* awaitOnlyDelivery(admin, endpoint.id, "failed")
        assert.strictEqual(failed.label, `approval.requested ${approval_id}`)
        assert.strictEqual(failed.last_error, "HTTP 410: the endpoint was disabled")
        assert.isNotNull(failed.finished_at)
        const { endpoints } = yield* admin.notificationEndpoints.list()
        assert.isFalse(endpoints[0]?.active)
        assert.strictEqual(endpoints[0]?.disabled?.by, null)
        assert.strictEqual(endpoints[0]?.disabled?.delivery_id, failed.id)
        const { entries } = yield* admin.auditLog.list({ query: { action: "endpoint.disabled" } })
        assert.deepStrictEqual(
          entries.map(({ actor, target_id }) => ({ actor, target_id })),
          [{ actor: null, target_id: endpoint.id }]
        )
        yield* requestApproval(admin)
        yield* awaitOnlyDelivery(admin, endpoint.id, "failed")

        const enabled = yield* admin.notificationEndpoints.update({ params, payload: { active: true } })
        assert.isNull(enabled.disabled)
        const delivery = { params: { id: endpoint.id, delivery_id: failed.id } }
        assert.deepStrictEqual(yield* admin.notificationEndpoints.replayDelivery(delivery), {
          queued: true,
          id: failed.id
        })
        const { last_error, replays } = yield* awaitOnlyDelivery(admin, endpoint.id, "delivered")
        assert.strictEqual(replays, 1)
        assert.strictEqual(last_error, null)
        const detail = yield* admin.notificationEndpoints.getDelivery(delivery)
        assert.strictEqual(detail.event_id, failed.event_id)
        assert.deepStrictEqual(
          detail.attempt_log.map(({ attempt, error, status }) => [attempt, status, error]),
          [
            [1, 410, "HTTP 410: the endpoint was disabled"],
            [2, 204, null]
          ]
        )
        const [first, second] = receiver.seen
        assert.strictEqual(first?.headers["x-svc-event-id"], failed.event_id)
        assert.strictEqual(second?.headers["x-svc-event-id"], failed.event_id)
        assert.strictEqual(second?.body, first?.body)
        const again = yield* Effect.flip(admin.notificationEndpoints.replayDelivery(delivery))
        assert.strictEqual(again._tag, "NOT_REPLAYABLE")
      })
  )

  it.effect(
    "a test event goes to its endpoint alone, whatever it subscribes to, and once for one idempotency key",
    () =>
      Effect.gen(function* () {
        const { admin, endpoint, params, receiver, secret } = yield* seedEndpoint("test event")
        const other = yield* admin.notificationEndpoints.create({ payload: { url: receiver.url } })
        yield* admin.notificationEndpoints.update({ params, payload: { events: ["approval.expired"] } })
        const request = { params, headers: { "idempotency-key": "try-it" } }
        const queued = yield* admin.notificationEndpoints.test(request)
        assert.isTrue(queued.queued)
        assert.deepStrictEqual(yield* admin.notificationEndpoints.test(request), queued)
        const record = yield* awaitOnlyDelivery(admin, endpoint.id, "delivered")
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
        yield* awaitDeliveries(admin, other.endpoint.id, (list) => list.length === 0)
        assert.lengthOf(receiver.seen, 1)
      })
  )

  it.effect(
    "an endpoint of another organization, a delivery of another endpoint and a removed endpoint answer 404",
    () =>
      Effect.gen(function* () {
        const countersign = yield* Countersign
        const { admin, endpoint, params } = yield* seedEndpoint("owner", [{ status: 500 }])
        const sibling = yield* admin.notificationEndpoints.create({
          payload: { url: "https://1.1.1.1/hook" }
        })
        const { id } = yield* admin.notificationEndpoints.test({ params })
        yield* awaitOnlyDelivery(admin, endpoint.id, "failed")
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
              ...(method === "PATCH" ? { body: `{"active":false}` } : {}),
              ...(path === "/replay" ? { body: `{"since":"2026-01-01T00:00:00Z"}` } : {})
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
            admin.notificationEndpoints.getDelivery({ params: { ...params, delivery_id: id } }),
            (found) => [found.status, found.replays]
          ),
          ["failed", 0]
        )
        yield* admin.notificationEndpoints.remove({ params })
        yield* absent(owner, endpoint.id, onEndpoint)
      })
  )

  it.effect("an organization has at most 50 endpoints, however many are created concurrently", () =>
    Effect.gen(function* () {
      const { admin } = yield* seedEndpoint("fifty")
      const make = admin.notificationEndpoints.create({ payload: { url: "https://1.1.1.1/hook" } })
      yield* Effect.replicateEffect(make, 47, { discard: true })
      const sql = yield* SqlClient.SqlClient
      const racing = yield* transaction(
        Effect.gen(function* () {
          // Every creation has counted, or waits for one that has, before any inserts. Four, because that many requests with an
          // idempotency key run concurrently.
          yield* sql`LOCK TABLE notification_endpoints IN SHARE MODE`
          const fibers = yield* Effect.replicateEffect(Effect.forkChild(Effect.result(make)), 4)
          yield* waitForBlockedStatements(4)
          return fibers
        })
      )
      const outcomes = yield* Effect.forEach(racing, (fiber) => Fiber.join(fiber))
      const refused = outcomes.filter(Result.isFailure).map(({ failure }) => failure._tag)
      assert.deepStrictEqual(refused, ["LIMIT_REACHED", "LIMIT_REACHED"])
      const { endpoints } = yield* admin.notificationEndpoints.list()
      assert.lengthOf(endpoints, 50)
      const [oldest] = endpoints
      if (oldest === undefined) return assert.fail("fifty")
      yield* admin.notificationEndpoints.remove({ params: { id: oldest.id } })
      yield* make
    })
  )

  it.effect("a URL that egress forbids is refused with the reason", () =>
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

  it.effect("a new endpoint is answered while no queue can be read: its secret is shown only once", () =>
    Effect.gen(function* () {
      const { admin, receiver } = yield* seedEndpoint("locked queue")
      const sql = yield* SqlClient.SqlClient
      const created = yield* transaction(
        Effect.andThen(
          sql`LOCK TABLE delivery_queue IN ACCESS EXCLUSIVE MODE`,
          admin.notificationEndpoints.create({ payload: { url: `${receiver.url}/second` } })
        )
      )
      const { endpoints } = yield* admin.notificationEndpoints.list()
      assert.deepStrictEqual(created.endpoint, endpoints[0])
    })
  )

  it.effect("endpoints are read with org_config.read and changed only with org_config.write", () =>
    Effect.gen(function* () {
      const { endpoint } = yield* seedEndpoint("scopes")
      const reader = yield* (yield* Countersign).client(
        { name: "reader", scopes: ["org_config.read"] },
        "scopes"
      )
      const params = { id: endpoint.id }
      yield* reader.notificationEndpoints.listDeliveries({ params })
      const refused = [
        yield* Effect.flip(reader.notificationEndpoints.update({ params, payload: { active: false } })),
        yield* Effect.flip(reader.notificationEndpoints.rotateSecret({ params })),
        yield* Effect.flip(reader.notificationEndpoints.test({ params }))
      ]
      for (const { _tag } of refused) assert.strictEqual(_tag, "INSUFFICIENT_SCOPE")
    })
  )
})
