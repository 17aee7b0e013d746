import { assert, layer } from "@effect/vitest"
import { DateTime, Effect } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { Authorized } from "../../../src/api/Authorization.ts"
import {
  type BatchLogPage,
  DELIVERIES_PAGE,
  type DeliveryFilter,
  type DeliveryLogPage
} from "../../../src/api/console/Deliveries.ts"
import { DeliveryId, type EndpointId, type OrgId } from "../../../src/domain/Ids.ts"
import type { Principal } from "../../../src/domain/identity/Principal.ts"
import { ConsoleDeliveries } from "../../../src/server/console/ConsoleDeliveries.ts"
import { findDeliveries, findStatement } from "../../../src/server/console/ConsoleDeliveries/rows.ts"
import { shardOf } from "../../../src/server/delivery/Delivery/shardOf.ts"
import { ApiKeys } from "../../../src/server/identity/ApiKeys.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { eventually } from "../../support/eventually.ts"
import {
  awaitDeliveries,
  noContent,
  oneAttempt,
  requestApproval,
  seedEndpoint
} from "../../support/notifications.ts"
import { service } from "../../support/service.ts"

const reading = <A, E, R>(
  effect: Effect.Effect<A, E, R | Authorized<"org_config.read">>,
  principal: Principal
) => Effect.provideService(effect, Authorized("org_config.read"), principal)

const writing = <A, E, R>(
  effect: Effect.Effect<A, E, R | Authorized<"org_config.write">>,
  principal: Principal
) => Effect.provideService(effect, Authorized("org_config.write"), principal)

/** The principal of a new admin key of an organization. */
const principalOf = Effect.fnUntraced(function* (organization: string, input: object = {}) {
  const { key } = yield* Countersign
  return yield* (yield* ApiKeys).verify(yield* key(input, organization))
})

const hex = (n: number, length: number) => n.toString(16).padStart(length, "0")
const MINUTE = 60_000

/** The id of a delivery made at this time. */
const deliveryId = (millis: number, n: number) => DeliveryId.make(`ndl_${hex(millis, 12)}7000${hex(n, 16)}`)

/**
 * Logs `count` deliveries of an endpoint, one each minute, the newest first: of ten, one failed with 503; of a hundred, one was never
 * answered.
 */
const logDeliveries = (org_id: OrgId, endpoint: EndpointId, count: number, newest: number) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      INSERT INTO deliveries
        (org_id, destination_id, delivery_id, channel, event_id, label, status, attempts, status_code, last_error, created_at, finished_at)
      SELECT
        ${org_id}, ${endpoint},
        'ndl_' || lpad(to_hex(${newest}::bigint - n * 60000), 12, '0') || '7000' || lpad(to_hex(n), 16, '0'),
        'webhook', 'evt_' || lpad(to_hex(n), 32, '0'),
        CASE WHEN n % 2 = 0 THEN 'approval.requested apr_' ELSE 'approval.approved apr_' END || lpad(to_hex(n), 32, '0'),
        CASE WHEN n % 10 = 9 THEN 'failed' ELSE 'delivered' END, 1,
        CASE WHEN n % 100 = 99 THEN NULL WHEN n % 10 = 9 THEN 503 ELSE 204 END,
        CASE WHEN n % 10 = 9 THEN 'HTTP 503' END,
        to_timestamp((${newest}::bigint - n * 60000) / 1000.0), to_timestamp((${newest}::bigint - n * 60000) / 1000.0)
      FROM generate_series(0, ${count - 1}::bigint) AS n
    `
  )

/** Every page of a filtered log. */
const readAll = Effect.fnUntraced(function* (principal: Principal, filter: DeliveryFilter) {
  const deliveries = yield* ConsoleDeliveries
  const ids: Array<string> = []
  let cursor: DeliveryId | null = null
  for (let page = 0; page < 100; page++) {
    const answer: DeliveryLogPage = yield* reading(
      deliveries.list({ ...filter, ...(cursor === null ? {} : { cursor }) }),
      principal
    )
    assert.isAtMost(answer.deliveries.length, DELIVERIES_PAGE)
    ids.push(...answer.deliveries.map(({ id }) => id))
    cursor = answer.next_cursor
    if (cursor === null) return ids
  }
  return assert.fail("the log has an end")
})

layer(service({ environment: oneAttempt }), { excludeTestServices: true, timeout: "120 seconds" })(
  "ConsoleDeliveries",
  (it) => {
    it.effect(
      "the log pages through the deliveries of all endpoints, newest first, and through those that match",
      () =>
        Effect.gen(function* () {
          const { admin, endpoint, receiver } = yield* seedEndpoint("log")
          const second = yield* admin.notificationEndpoints.create({ payload: { url: `${receiver.url}/2` } })
          const principal = yield* principalOf("log")
          const newest = Date.now() - MINUTE
          yield* logDeliveries(principal.org_id, endpoint.id, 300, newest)
          yield* logDeliveries(principal.org_id, second.endpoint.id, 10, newest - MINUTE / 2)
          const all = yield* readAll(principal, {})
          assert.strictEqual(all.length, 310)
          assert.deepStrictEqual(all, all.toSorted().toReversed())
          const numbers = (filter: DeliveryFilter) =>
            Effect.map(readAll(principal, { endpoint_id: endpoint.id, ...filter }), (ids) =>
              ids.map((id) => Number.parseInt(id.slice(20), 16))
            )
          const every = (holds: (n: number) => boolean) =>
            Array.from({ length: 300 }, (_, n) => n).filter(holds)
          assert.deepStrictEqual(
            yield* numbers({ status: "failed" }),
            every((n) => n % 10 === 9)
          )
          assert.deepStrictEqual(
            yield* numbers({ code: 503 }),
            every((n) => n % 10 === 9 && n % 100 !== 99)
          )
          assert.deepStrictEqual(
            yield* numbers({ code: 0 }),
            every((n) => n % 100 === 99)
          )
          assert.deepStrictEqual(
            yield* numbers({ type: "approval.approved" }),
            every((n) => n % 2 === 1)
          )
          assert.deepStrictEqual(yield* numbers({ type: "test" }), [])
          const until = DateTime.makeUnsafe(newest - 100 * MINUTE)
          const since = DateTime.makeUnsafe(newest - 199 * MINUTE)
          assert.deepStrictEqual(
            yield* numbers({ since, until, status: "failed" }),
            every((n) => n > 100 && n <= 199 && n % 10 === 9)
          )
          // Another organization has none of these.
          const other = yield* principalOf("elsewhere")
          assert.deepStrictEqual(yield* readAll(other, { endpoint_id: endpoint.id }), [])
        })
    )

    it.effect(
      "a page examines a bounded number of deliveries, tells how far it searched, and the next continues there",
      () =>
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const { admin, endpoint, receiver } = yield* seedEndpoint("bounded")
          const second = yield* admin.notificationEndpoints.create({ payload: { url: `${receiver.url}/2` } })
          const { org_id } = yield* principalOf("bounded")
          const newest = Date.now()
          yield* logDeliveries(org_id, endpoint.id, 1_000, newest)
          yield* logDeliveries(org_id, second.endpoint.id, 120, newest - MINUTE / 2)
          const endpoints = [endpoint.id, second.endpoint.id]
          // 100 of each endpoint.
          const found: Array<string> = []
          let cursor: DeliveryId | undefined
          let pages = 0
          do {
            const page: { keys: ReadonlyArray<{ delivery_id: DeliveryId }>; horizon: DeliveryId | null } =
              yield* findDeliveries(
                sql,
                org_id,
                endpoints,
                { status: "failed", code: 0, ...(cursor === undefined ? {} : { cursor }) },
                200
              )
            found.push(...page.keys.map(({ delivery_id }) => delivery_id))
            cursor = page.horizon ?? undefined
            pages++
          } while (cursor !== undefined)
          assert.isAbove(pages, 5)
          assert.strictEqual(found.length, 11)
          assert.deepStrictEqual(found, found.toSorted().toReversed())
        })
    )

    it.effect(
      "every filter reads the deliveries of an endpoint by their index, and no more than the bound",
      () =>
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const { endpoint } = yield* seedEndpoint("plans")
          const { org_id } = yield* principalOf("plans")
          const now = Date.now()
          yield* logDeliveries(org_id, endpoint.id, 12_000, now)
          yield* sql`ANALYZE deliveries`
          const since = DateTime.makeUnsafe(now - 8_000 * MINUTE)
          const filters: ReadonlyArray<DeliveryFilter> = [
            {},
            { status: "failed" },
            { status: "pending" },
            { code: 404 },
            { code: 0, type: "test" },
            { since, status: "pending", code: 500, type: "approval.expired" }
          ]
          for (const filter of filters) {
            const plan = yield* explain(findStatement(sql, org_id, [endpoint.id], filter, 1_000))
            assert.notInclude(plan, "Seq Scan on deliveries", JSON.stringify(filter))
            const read = [
              ...plan.matchAll(/deliveries_pkey on deliveries.*rows=(\d+)(?:\.\d+)? loops=1/g)
            ].map(([, rows]) => Number(rows))
            assert.isNotEmpty(read, plan)
            assert.isAtMost(Math.max(...read), 1_001, `${JSON.stringify(filter)}\n${plan}`)
          }
        })
    )

    it.effect("batches of spans are paged by status, for the own organization only", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const admin = yield* (yield* Countersign).client({}, "batches")
        const destination = yield* admin.telemetryDestinations.create({
          payload: { url: "http://127.0.0.1:9/v1/traces" }
        })
        const principal = yield* principalOf("batches")
        const now = Date.now()
        yield* sql`
          INSERT INTO deliveries
            (org_id, destination_id, delivery_id, channel, event_id, label, status, size, rejected, attempts, status_code, created_at)
          SELECT
            ${principal.org_id}, ${destination.id},
            'tdl_' || lpad(to_hex(${now}::bigint - n * 60000), 12, '0') || '7000' || lpad(to_hex(n), 16, '0'),
            'otlp', 'bat_' || n, 'spans', CASE WHEN n % 2 = 0 THEN 'partial' ELSE 'failed' END, 3, 1, 1, 200, now()
          FROM generate_series(0::bigint, 199) AS n
        `
        const deliveries = yield* ConsoleDeliveries
        const first: BatchLogPage = yield* reading(deliveries.batches({ status: "partial" }), principal)
        assert.strictEqual(first.batches.length, DELIVERIES_PAGE)
        const second: BatchLogPage = yield* reading(
          deliveries.batches({
            status: "partial",
            ...(first.next_cursor === null ? {} : { cursor: first.next_cursor })
          }),
          principal
        )
        const all = [...first.batches, ...second.batches]
        assert.strictEqual(new Set(all.map(({ id }) => id)).size, 100)
        assert.isTrue(all.every(({ rejected_spans, status }) => status === "partial" && rejected_spans === 1))
        assert.isNull(second.next_cursor)
        const other = yield* principalOf("batches elsewhere")
        assert.deepStrictEqual(yield* reading(deliveries.batches({}), other), {
          batches: [],
          next_cursor: null
        })
      })
    )

    it.effect(
      "a delivery has its tool, attempts, event and headers, and the event only with approvals.read",
      () =>
        Effect.gen(function* () {
          const { admin, endpoint } = yield* seedEndpoint("detail", [{ status: 503 }, noContent])
          const approval_id = yield* requestApproval(admin)
          yield* awaitDeliveries(admin, endpoint.id, ([latest]) => latest?.status === "failed")
          const deliveries = yield* ConsoleDeliveries
          const principal = yield* principalOf("detail")
          const [listed] = (yield* reading(deliveries.list({}), principal)).deliveries
          assert.strictEqual(listed?.tool, "payments.refund")
          assert.strictEqual(listed?.type, "approval.requested")
          assert.strictEqual(listed?.approval_id, approval_id)
          assert.strictEqual(listed?.status_code, 503)
          const key = { endpoint_id: endpoint.id, delivery_id: listed!.id }
          const detail = yield* reading(deliveries.get(key), principal)
          assert.deepStrictEqual(
            detail.attempt_log.map(({ status }) => status),
            [503]
          )
          assert.strictEqual(JSON.parse(detail.event_json ?? "null").approval.approval_id, approval_id)
          const headers = Object.fromEntries(detail.headers.map(({ name, value }) => [name, value]))
          assert.strictEqual(headers["webhook-id"], detail.event_id)
          assert.match(headers["x-svc-signature"] ?? "", /^t=\d+,v1=…$/)
          const config = yield* principalOf("detail", { preset: undefined, scopes: ["org_config.read"] })
          const without = yield* reading(deliveries.get(key), config)
          assert.deepStrictEqual([without.event_json, without.tool], [null, null])
          const other = yield* principalOf("detail elsewhere")
          const missing = yield* Effect.flip(reading(deliveries.get(key), other))
          assert.strictEqual(missing._tag, "NOT_FOUND")
        })
    )

    it.effect("a pending delivery tells when its next attempt is due", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { endpoint } = yield* seedEndpoint("next")
        const principal = yield* principalOf("next")
        const { org_id } = principal
        const now = Date.now()
        const id = deliveryId(now, 1)
        yield* sql`
          INSERT INTO deliveries (org_id, destination_id, delivery_id, channel, event_id, label, status, created_at)
          VALUES (${org_id}, ${endpoint.id}, ${id}, 'webhook', 'evt_1', 'test', 'pending', now())
        `
        // In a shard of its own that no replica serves, so that it stays.
        const due = new Date(now + 240_000)
        yield* sql`
          INSERT INTO delivery_queue (shard, org_id, destination_id, delivery_id, channel, event_id, due_at, attempt, first_attempt)
          VALUES (${shardOf(endpoint.id)}, ${org_id}, ${endpoint.id}, ${id}, 'webhook', 'evt_1', ${due}, 1, 0)
        `
        const deliveries = yield* ConsoleDeliveries
        const [listed] = (yield* reading(deliveries.list({ status: "pending" }), principal)).deliveries
        assert.strictEqual(listed?.next_attempt_at?.epochMilliseconds, due.getTime())
      })
    )

    it.effect("the failed deliveries of a period are counted without those shortly before and after it", () =>
      Effect.gen(function* () {
        const { endpoint } = yield* seedEndpoint("counted", [noContent])
        const principal = yield* principalOf("counted")
        const newest = Date.now() - 1_000 * MINUTE
        yield* logDeliveries(principal.org_id, endpoint.id, 100, newest)
        const { countFailed } = yield* ConsoleDeliveries
        const at = (minutes: number) => DateTime.makeUnsafe(newest - minutes * MINUTE)
        const count = (period: { readonly since: DateTime.Utc; readonly until?: DateTime.Utc }) =>
          reading(countFailed({ endpoint_id: endpoint.id, ...period }), principal)
        assert.deepStrictEqual(yield* count({ since: at(100) }), { failed: 10, is_complete: true })
        // The 20th to the 50th have failed; the end of the period is not part of it.
        assert.deepStrictEqual(yield* count({ since: at(49), until: at(9) }), {
          failed: 4,
          is_complete: true
        })
      })
    )

    it.effect("many failed deliveries are replayed with one audit entry; a repetition changes nothing", () =>
      Effect.gen(function* () {
        const { admin, endpoint, params } = yield* seedEndpoint("replays", [
          { status: 503 },
          { status: 503 },
          { status: 503 },
          noContent
        ])
        for (let n = 0; n < 3; n++) yield* requestApproval(admin)
        const failed = yield* awaitDeliveries(
          admin,
          endpoint.id,
          (list) => list.length === 3 && list.every(({ status }) => status === "failed")
        )
        const deliveries = yield* ConsoleDeliveries
        const principal = yield* principalOf("replays")
        const unknown = deliveryId(Date.now(), 9)
        const keys = [...failed.map(({ id }) => id), unknown].map((delivery_id) => ({
          endpoint_id: endpoint.id,
          delivery_id
        }))
        const outcomes = (results: ReadonlyArray<{ readonly outcome: string }>) =>
          results.map(({ outcome }) => outcome)
        // Nothing is replayed to a disabled endpoint.
        yield* admin.notificationEndpoints.update({ params, payload: { active: false } })
        assert.deepStrictEqual(
          outcomes(yield* writing(deliveries.replay(keys), principal)),
          keys.map(() => "endpoint_disabled")
        )
        yield* admin.notificationEndpoints.update({ params, payload: { active: true } })
        const results = yield* writing(deliveries.replay(keys), principal)
        assert.deepStrictEqual(outcomes(results), ["queued", "queued", "queued", "not_found"])
        yield* awaitDeliveries(admin, endpoint.id, (list) =>
          list.every(({ status }) => status === "delivered")
        )
        const again = yield* writing(deliveries.replay(keys), principal)
        assert.deepStrictEqual(outcomes(again), ["not_failed", "not_failed", "not_failed", "not_found"])
        const { entries } = yield* admin.auditLog.list({ query: { action: "endpoint.replayed" } })
        assert.deepStrictEqual(
          entries.map(({ detail, target_id }) => [target_id, detail]),
          [[endpoint.id, { selected: 4, queued: 3, skipped: 1 }]]
        )
        // A key of another organization reaches none of them.
        const other = yield* principalOf("replays elsewhere")
        assert.deepStrictEqual(
          outcomes(yield* writing(deliveries.replay(keys), other)),
          keys.map(() => "not_found")
        )
      })
    )

    it.effect(
      "the health of an endpoint has its hours, its last success, and since when and why it fails",
      () =>
        Effect.gen(function* () {
          const { admin, endpoint, params } = yield* seedEndpoint("health", [
            noContent,
            { status: 503 },
            { status: 500 }
          ])
          const deliveries = yield* ConsoleDeliveries
          const principal = yield* principalOf("health")
          for (let n = 1; n <= 3; n++) {
            yield* admin.notificationEndpoints.test({ params })
            yield* awaitDeliveries(
              admin,
              endpoint.id,
              (list) => list.length === n && list.every(({ finished_at }) => finished_at !== null)
            )
          }
          const [health] = yield* eventually(
            reading(deliveries.health, principal),
            ([one]) => one?.last_error === "HTTP 500" && one.failing_since !== null
          )
          const attempts = yield* admin.notificationEndpoints.listDeliveries({ params: { id: endpoint.id } })
          assert.deepStrictEqual(
            health?.hours.reduce((sum, hour) => [sum[0]! + hour.delivered, sum[1]! + hour.failed], [0, 0]),
            [1, 2]
          )
          assert.strictEqual(health?.hours.length, 24)
          const [third, second, first] = attempts.deliveries
          assert.deepStrictEqual(health?.last_success_at, first?.finished_at)
          assert.isAtLeast(
            health!.failing_since!.epochMilliseconds,
            second!.created_at.epochMilliseconds - 1_000
          )
          assert.isBelow(
            health!.failing_since!.epochMilliseconds,
            third!.created_at.epochMilliseconds + 1_000
          )
        })
    )
  }
)

/** The plan of a statement as it ran, with the rows that each node read. */
const explain = Effect.fnUntraced(function* (statement: Statement.Statement<unknown>) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly "QUERY PLAN": string }>`
    EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF, SUMMARY OFF) ${statement}
  `
  return rows.map((row) => row["QUERY PLAN"]).join("\n")
})
