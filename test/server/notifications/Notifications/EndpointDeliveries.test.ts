import { assert, layer } from "@effect/vitest"
import { DateTime, Effect, Fiber, Result } from "effect"
import { SqlClient } from "effect/sql"
import type { DeliveryId } from "../../../../src/domain/Ids.ts"
import { transaction } from "../../../../src/server/store/transaction.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { waitForBlockedStatements } from "../../../support/eventually.ts"
import {
  allHaveStatus,
  requestApproval,
  awaitDeliveries,
  noContent,
  oneAttempt,
  awaitOnlyDelivery,
  seedEndpoint
} from "../../../support/notifications.ts"
import { send, service } from "../../../support/service.ts"

/** One failure starts a cooldown that outlasts the test. */
const coolsDownAfterOne = {
  COUNTERSIGN_NOTIFY_RETRY_SECONDS: "0",
  COUNTERSIGN_NOTIFY_COOLDOWN_AFTER: "1",
  COUNTERSIGN_NOTIFY_COOLDOWN_SECONDS: "900"
}

/** A queue limit of two. The first attempt is an hour away, so that deliveries stay queued. */
const queueOfTwo = { COUNTERSIGN_NOTIFY_RETRY_SECONDS: "3600", COUNTERSIGN_NOTIFY_QUEUE_LIMIT: "2" }

layer(service({ environment: oneAttempt }), { excludeTestServices: true })("EndpointDeliveries", (it) => {
  it.effect("the list has the latest 50 deliveries of an endpoint, newest first, without bodies", () =>
    Effect.gen(function* () {
      const { admin, endpoint, params } = yield* seedEndpoint("latest")
      const first = yield* admin.notificationEndpoints.test({ params })
      yield* awaitOnlyDelivery(admin, endpoint.id, "delivered")
      for (let count = 0; count < 50; count++) yield* admin.notificationEndpoints.test({ params })
      const list = yield* awaitDeliveries(admin, endpoint.id, allHaveStatus(50, "delivered"))
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

  it.effect("a window replay queues every failed delivery of the window", () =>
    Effect.gen(function* () {
      const { admin, endpoint, params, receiver } = yield* seedEndpoint("window", [
        { status: 500 },
        { status: 500 },
        { status: 500 },
        noContent
      ])
      for (const count of [1, 2, 3]) {
        yield* requestApproval(admin)
        yield* awaitDeliveries(admin, endpoint.id, allHaveStatus(count, "failed"))
      }
      const [third, second, first] = yield* awaitDeliveries(admin, endpoint.id, allHaveStatus(3, "failed"))
      if (first === undefined || second === undefined || third === undefined) return assert.fail("three")
      const between = yield* admin.notificationEndpoints.replayDeliveries({
        params,
        payload: { since: second.created_at, until: third.created_at }
      })
      assert.deepStrictEqual(between, { queued: 1, skipped: 0 })
      yield* awaitDeliveries(
        admin,
        endpoint.id,
        (list) => list.find((record) => record.id === second.id)?.status === "delivered"
      )
      const rest = yield* admin.notificationEndpoints.replayDeliveries({
        params,
        payload: { since: first.created_at, until: null }
      })
      assert.deepStrictEqual(rest, { queued: 2, skipped: 0 })
      yield* awaitDeliveries(admin, endpoint.id, allHaveStatus(3, "delivered"))
      const events = receiver.seen.map((seen) => seen.headers["x-svc-event-id"])
      assert.sameMembers(events.slice(3), [first.event_id, second.event_id, third.event_id])
      assert.deepStrictEqual(
        yield* admin.notificationEndpoints.replayDeliveries({ params, payload: { since: first.created_at } }),
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
})

layer(service({ environment: coolsDownAfterOne }), { excludeTestServices: true })(
  "EndpointDeliveries › a failed delivery",
  (it) => {
    it.effect("two concurrent replays queue a failed delivery once, and it waits for the cooldown", () =>
      Effect.gen(function* () {
        const { admin, endpoint, params, receiver } = yield* seedEndpoint("racing replays", [{ status: 500 }])
        const { id } = yield* admin.notificationEndpoints.test({ params })
        yield* awaitOnlyDelivery(admin, endpoint.id, "failed")
        const replay = admin.notificationEndpoints.replayDelivery({ params: { ...params, delivery_id: id } })
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
        const record = yield* awaitOnlyDelivery(admin, endpoint.id, "pending")
        assert.strictEqual(record.replays, 1)
        assert.strictEqual(record.finished_at, null)
        const { endpoints } = yield* admin.notificationEndpoints.list()
        assert.isNotNull(endpoints[0]?.cooldown_until)
        assert.strictEqual(endpoints[0]?.consecutive_failures, 1)
        assert.strictEqual(endpoints[0]?.pending_deliveries, 1)
        assert.lengthOf(receiver.seen, 1)
      })
    )

    it.effect("a test event, and enabling the endpoint, end its cooldown", () =>
      Effect.gen(function* () {
        const { admin, endpoint, params, receiver } = yield* seedEndpoint("impatient", [
          { status: 500 },
          { status: 500 },
          { status: 204 }
        ])
        const { id } = yield* admin.notificationEndpoints.test({ params })
        yield* awaitOnlyDelivery(admin, endpoint.id, "failed")
        yield* admin.notificationEndpoints.test({ params })
        yield* awaitDeliveries(admin, endpoint.id, allHaveStatus(2, "failed"))
        assert.lengthOf(receiver.seen, 2)
        yield* admin.notificationEndpoints.replayDelivery({ params: { ...params, delivery_id: id } })
        yield* admin.notificationEndpoints.update({ params, payload: { active: true } })
        yield* awaitDeliveries(admin, endpoint.id, (list) =>
          list.some(({ status }) => status === "delivered")
        )
        assert.lengthOf(receiver.seen, 3)
        assert.isNull((yield* admin.notificationEndpoints.list()).endpoints[0]?.cooldown_until)
      })
    )

    it.effect("concurrent tests of several endpoints are all sent, and each is in the audit log", () =>
      Effect.gen(function* () {
        const one = yield* seedEndpoint("tested by many")
        const { endpoint: other } = yield* one.admin.notificationEndpoints.create({
          payload: { url: one.receiver.url }
        })
        const key = yield* (yield* Countersign).key({}, "tested by many")
        const made = yield* Effect.forEach(
          Array.from({ length: 20 }, (_, index) => (index % 2 === 0 ? one.endpoint.id : other.id)),
          (id) => send(`/v1/notification-endpoints/${id}/test`, { method: "POST", key }),
          { concurrency: "unbounded" }
        )
        for (const id of [one.endpoint.id, other.id])
          yield* awaitDeliveries(one.admin, id, allHaveStatus(10, "delivered"))
        const { entries } = yield* one.admin.auditLog.list({ query: { action: "endpoint.tested" } })
        assert.sameMembers(
          entries.map(({ detail }) => detail["delivery_id"]),
          made.map(({ body }) => body["id"])
        )
      })
    )

    it.effect("a concurrent replay and window replay queue a failed delivery once", () =>
      Effect.gen(function* () {
        const { admin, endpoint, params } = yield* seedEndpoint("replay and bulk", [{ status: 500 }])
        const { id } = yield* admin.notificationEndpoints.test({ params })
        const failed = yield* awaitOnlyDelivery(admin, endpoint.id, "failed")
        const [one, bulk] = yield* Effect.all(
          [
            Effect.result(
              admin.notificationEndpoints.replayDelivery({ params: { ...params, delivery_id: id } })
            ),
            admin.notificationEndpoints.replayDeliveries({ params, payload: { since: failed.created_at } })
          ],
          { concurrency: "unbounded" }
        )
        assert.strictEqual((Result.isSuccess(one) ? 1 : 0) + bulk.queued, 1)
        assert.strictEqual((yield* awaitOnlyDelivery(admin, endpoint.id, "pending")).replays, 1)
      })
    )

    it.effect("a replay that waits for the removal of its endpoint queues nothing", () =>
      Effect.gen(function* () {
        const { admin, endpoint, params } = yield* seedEndpoint("replay and removal", [{ status: 500 }])
        const { id } = yield* admin.notificationEndpoints.test({ params })
        yield* awaitOnlyDelivery(admin, endpoint.id, "failed")
        const sql = yield* SqlClient.SqlClient
        const replaying = yield* transaction(
          Effect.gen(function* () {
            yield* sql`DELETE FROM notification_endpoints WHERE endpoint_id = ${endpoint.id}`
            const replay = yield* Effect.forkChild(
              Effect.flip(
                admin.notificationEndpoints.replayDelivery({ params: { ...params, delivery_id: id } })
              )
            )
            yield* Effect.raceFirst(waitForBlockedStatements(1), Fiber.await(replay))
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
  }
)

layer(service({ environment: { ...coolsDownAfterOne, COUNTERSIGN_NOTIFY_COOLDOWN_AFTER: "5" } }), {
  excludeTestServices: true
})("EndpointDeliveries › failing tests", (it) => {
  it.effect("five failing test events leave the endpoint in cooldown, and the next one is sent at once", () =>
    Effect.gen(function* () {
      const { admin, endpoint, params, receiver } = yield* seedEndpoint(
        "broken",
        Array.from({ length: 6 }, () => ({ status: 500 }))
      )
      const key = yield* (yield* Countersign).key({}, "broken")
      const testAndFail = Effect.fnUntraced(function* (count: number) {
        // The client sends an idempotency key, with which a test is a transaction of several statements.
        if (count % 2 === 0) yield* admin.notificationEndpoints.test({ params })
        else yield* send(`/v1/notification-endpoints/${endpoint.id}/test`, { method: "POST", key })
        yield* awaitDeliveries(admin, endpoint.id, allHaveStatus(count, "failed"))
        return yield* Effect.repeat(
          Effect.map(admin.notificationEndpoints.list(), ({ endpoints }) => endpoints[0]),
          { until: (found) => found?.consecutive_failures === count }
        )
      })
      for (const count of [1, 2, 3, 4]) assert.isNull((yield* testAndFail(count))?.cooldown_until)
      assert.isNotNull((yield* testAndFail(5))?.cooldown_until)
      assert.isNotNull((yield* testAndFail(6))?.cooldown_until)
      assert.lengthOf(receiver.seen, 6)
    })
  )
})

layer(service({ environment: queueOfTwo }), { excludeTestServices: true })(
  "EndpointDeliveries › a full queue",
  (it) => {
    it.effect(
      "a full queue records new events as failed, refuses a replay, and makes a window replay count what it skips",
      () =>
        Effect.gen(function* () {
          const { admin, endpoint, params } = yield* seedEndpoint("full")
          const made = yield* Effect.replicateEffect(admin.notificationEndpoints.test({ params }), 3)
          assert.deepStrictEqual(
            made.map(({ queued }) => queued),
            [true, true, false]
          )
          yield* requestApproval(admin)
          const list = yield* awaitDeliveries(admin, endpoint.id, (list) => list.length === 4)
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
            Effect.flip(
              admin.notificationEndpoints.replayDelivery({ params: { ...params, delivery_id: delivery } })
            )
          assert.strictEqual((yield* replay(event.id))._tag, "QUEUE_FULL")
          assert.strictEqual((yield* replay(waiting.id))._tag, "NOT_REPLAYABLE")
          assert.deepStrictEqual(
            yield* admin.notificationEndpoints.replayDeliveries({
              params,
              payload: { since: waiting.created_at }
            }),
            { queued: 0, skipped: 2 }
          )
          const { endpoints } = yield* admin.notificationEndpoints.list()
          assert.strictEqual(endpoints[0]?.pending_deliveries, 2)
          const detail = yield* admin.notificationEndpoints.getDelivery({
            params: { ...params, delivery_id: event.id }
          })
          assert.strictEqual(detail.replays, 0)
          assert.deepStrictEqual(detail.attempt_log, [])
        })
    )

    it.effect("removing an endpoint empties its queue", () =>
      Effect.gen(function* () {
        const { admin, endpoint, params } = yield* seedEndpoint("removed")
        yield* admin.notificationEndpoints.test({ params })
        const sql = yield* SqlClient.SqlClient
        const queued = sql`SELECT 1 AS waiting FROM delivery_queue WHERE destination_id = ${endpoint.id}`
        assert.lengthOf(yield* queued, 1)
        yield* admin.notificationEndpoints.remove({ params })
        assert.lengthOf(yield* queued, 0)
      })
    )

    it.effect("a test event without an idempotency key is recorded once as failed if the queue is full", () =>
      Effect.gen(function* () {
        const { endpoint, params } = yield* seedEndpoint("full, no idempotency key")
        const key = yield* (yield* Countersign).key({}, "full, no idempotency key")
        const made = yield* Effect.replicateEffect(
          send(`/v1/notification-endpoints/${params.id}/test`, { method: "POST", key }),
          3
        )
        assert.deepStrictEqual(
          made.map(({ body }) => body["queued"]),
          [true, true, false]
        )
        const sql = yield* SqlClient.SqlClient
        const deliveries = yield* sql<{ readonly delivery_id: string }>`
          SELECT delivery_id
          FROM deliveries
          WHERE destination_id = ${endpoint.id}
          ORDER BY delivery_id
        `
        assert.deepStrictEqual(
          deliveries.map((row) => row.delivery_id),
          made.map(({ body }) => body["id"])
        )
        const written = yield* sql`
          SELECT
            (SELECT count(*)::int FROM audit_log WHERE org_id = e.org_id AND action = 'endpoint.tested') AS entries,
            (SELECT count(*)::int FROM approval_events WHERE org_id = e.org_id AND type = 'test') AS events
          FROM notification_endpoints e
          WHERE endpoint_id = ${endpoint.id}
        `
        assert.deepStrictEqual(written, [{ entries: 3, events: 3 }])
      })
    )
  }
)
