import { assert, describe, layer } from "@effect/vitest"
import { DateTime, Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import type { NewApiKey } from "../../../src/api/ApiKeys.ts"
import { Authorized } from "../../../src/api/Authorization.ts"
import { MAX_COUNTED_PENDING } from "../../../src/api/console/Overview.ts"
import { bucketSeconds } from "../../../src/server/console/Overview/readApprovals.ts"
import { KeyId, type OrgId } from "../../../src/domain/Ids.ts"
import { toDate } from "../../../src/domain/Time.ts"
import { Overview } from "../../../src/server/console/Overview.ts"
import { approvalStatement } from "../../../src/server/console/Overview/readAlerts.ts"
import { shardOf } from "../../../src/server/delivery/Delivery/shardOf.ts"
import { ApiKeys } from "../../../src/server/identity/ApiKeys.ts"
import { StoreClock } from "../../../src/server/store/StoreClock.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { countRows } from "../../support/counts.ts"
import { service } from "../../support/service.ts"

/** The day so many days ago in UTC, such as `2026-11-21`. */
const dayAgo = (days: number) =>
  Effect.map(DateTime.now, (now) => DateTime.formatIsoDateUtc(DateTime.subtract(now, { days })))

const principalOf = Effect.fnUntraced(function* (organization: string, input: Partial<NewApiKey> = {}) {
  const { key } = yield* Countersign
  const keys = yield* ApiKeys
  return yield* keys.verify(yield* key(input, organization))
})

const ada = KeyId.make(`key_${"1".padStart(32, "0")}`)
const bob = KeyId.make(`key_${"2".padStart(32, "0")}`)

/** Queues deliveries of an endpoint that are due in an hour, and makes its last attempts fail. */
const fail = Effect.fnUntraced(function* (
  org_id: OrgId,
  endpoint: string,
  waiting: number,
  failures: number
) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO deliveries (org_id, destination_id, delivery_id, channel, event_id, label, status, created_at)
    SELECT ${org_id}, ${endpoint}, 'ndl_' || lpad(n::text, 8, '0'), 'webhook', 'evt_1', 'approval.requested', 'pending', now() - (${waiting}::int - n) * interval '1 minute'
    FROM generate_series(1, ${waiting}::int) AS n
  `
  yield* sql`
    INSERT INTO delivery_queue (shard, org_id, destination_id, delivery_id, channel, event_id, due_at, attempt, first_attempt)
    SELECT ${shardOf(endpoint)}::smallint, ${org_id}, ${endpoint}, 'ndl_' || lpad(n::text, 8, '0'), 'webhook', 'evt_1', now() + interval '1 hour', 1, 1
    FROM generate_series(1, ${waiting}::int) AS n
  `
  yield* sql`
    INSERT INTO delivery_destinations (org_id, destination_id, consecutive_failures, failing_since)
    VALUES (${org_id}, ${endpoint}, ${failures}, now())
  `
})

/** An approval as a test stores it. */
interface Closed {
  readonly id: string
  /** When it was decided, such as `2026-11-21T23:59:59.999Z`. */
  readonly at: string
  readonly seconds?: number
  readonly status?: "approved" | "rejected" | "expired"
  readonly source?: "human" | "timeout" | "session_closed"
  readonly by?: string
  readonly tool?: string
  readonly escalated?: boolean
}

/** Stores closed approvals, and counts them. */
const closeApprovals = Effect.fnUntraced(function* (org_id: OrgId, approvals: ReadonlyArray<Closed>) {
  const sql = yield* SqlClient.SqlClient
  for (const {
    at,
    by = ada,
    escalated = false,
    id,
    seconds = 60,
    source = "human",
    status = "approved",
    tool = "mail.send"
  } of approvals) {
    yield* sql`
      INSERT INTO approvals (
        org_id, approval_id, session_id, step_id, tool, action_class, arguments_digest, status, stage, requested_at,
        requested_by_id, review_deadline_at, expires_at, timeout_action, decision_source, decided_at, decided_by_id, escalated_at
      ) VALUES (
        ${org_id}, ${id}, 'ses_1', ${id}, ${tool}, 'write', '', ${status}, 'reviewer',
        ${at}::text::timestamptz - ${seconds}::float8 * interval '1 second', 'key_agent', now(), now(), 'reject', ${source},
        ${at}::text::timestamptz, ${source === "human" ? by : null}::text, CASE WHEN ${escalated}::boolean THEN now() END
      )
    `
  }
  yield* countRows(org_id)
})

/** Whether a time is known as closely as the buckets of the counters allow. */
const isNear = (actual: number | null | undefined, expected: number) =>
  assert.isBelow(Math.abs((actual ?? 0) - expected) / expected, 0.05, `${actual} should be near ${expected}`)

layer(service(), { excludeTestServices: true, timeout: "60 seconds" })("Overview", (it) => {
  it.effect("approvals are counted by the UTC day of their close, outcome, tool and person", () =>
    Effect.gen(function* () {
      const overview = yield* Overview
      const mine = yield* principalOf("decided")
      const [today, yesterday, first, before] = yield* Effect.all([
        dayAgo(0),
        dayAgo(1),
        dayAgo(6),
        dayAgo(7)
      ])
      yield* closeApprovals(mine.org_id, [
        { id: "apr_1", at: `${yesterday}T23:59:59.999Z`, seconds: 10, tool: "pay" },
        {
          id: "apr_2",
          at: `${today}T00:00:00.000Z`,
          seconds: 100,
          tool: "pay",
          by: bob,
          escalated: true
        },
        { id: "apr_3", at: `${today}T00:00:00.001Z`, seconds: 1_000, status: "rejected" },
        { id: "apr_4", at: `${today}T00:00:00.002Z`, status: "expired", source: "timeout", tool: "pay" },
        { id: "apr_5", at: `${first}T00:00:00.000Z`, status: "expired", source: "session_closed" },
        { id: "apr_6", at: `${before}T23:59:59.999Z`, seconds: 5 }
      ])
      // Another organization's approvals are not counted.
      yield* closeApprovals((yield* principalOf("elsewhere")).org_id, [
        { id: "apr_1", at: `${today}T00:00:00.000Z` }
      ])
      const read = (period: "7d" | "30d") =>
        Effect.provideService(overview.approvals(period), Authorized("approvals.read"), mine)
      const week = yield* read("7d")
      assert.deepStrictEqual(
        week.days.map(({ day }) => day),
        yield* Effect.all([6, 5, 4, 3, 2, 1, 0].map(dayAgo))
      )
      const { p50_seconds, p95_seconds, ...total } = week.total
      assert.deepStrictEqual(total, {
        approved: 2,
        rejected: 1,
        timed_out: 1,
        session_closed: 1,
        escalated: 1
      })
      isNear(p50_seconds, 100)
      isNear(p95_seconds, 1_000)
      const last = week.days.at(-1)
      assert.deepStrictEqual([last?.approved, last?.rejected, last?.timed_out, last?.escalated], [1, 1, 1, 1])
      assert.deepStrictEqual([week.days[0]?.session_closed, week.days[0]?.p50_seconds], [1, null])
      assert.strictEqual(week.days.at(-2)?.approved, 1)
      assert.deepStrictEqual(week.tools, [
        { tool: "pay", approved: 2, rejected: 0, timed_out: 1, session_closed: 0 },
        { tool: "mail.send", approved: 0, rejected: 1, timed_out: 0, session_closed: 1 }
      ])
      assert.deepStrictEqual(week.people, [
        { key_id: ada, name: null, approved: 1, rejected: 1 },
        { key_id: bob, name: null, approved: 1, rejected: 0 }
      ])
      assert.strictEqual((yield* read("30d")).total.approved, 3)
    }).pipe(Effect.orDie)
  )

  it.effect("an organization without data has every day, all zero", () =>
    Effect.gen(function* () {
      const overview = yield* Overview
      const empty = yield* principalOf("empty")
      const approvals = yield* Effect.provideService(
        overview.approvals("30d"),
        Authorized("approvals.read"),
        empty
      )
      assert.strictEqual(approvals.days.length, 30)
      assert.deepStrictEqual(approvals.pending, { count: 0, more: false, oldest_requested_at: null })
      assert.deepStrictEqual(approvals.total, {
        approved: 0,
        rejected: 0,
        timed_out: 0,
        session_closed: 0,
        escalated: 0,
        p50_seconds: null,
        p95_seconds: null
      })
      const feedback = yield* Effect.provideService(
        overview.feedback("7d"),
        Authorized("feedback.read"),
        empty
      )
      assert.deepStrictEqual(feedback.total, { runs: 0, positive: 0, neutral: 0, negative: 0 })
      assert.deepStrictEqual([feedback.days.length, feedback.releases, feedback.released], [7, [], []])
      const deliveries = yield* Effect.provideService(
        overview.deliveries("7d"),
        Authorized("org_config.read"),
        empty
      )
      assert.deepStrictEqual(deliveries.total, {
        delivered: 0,
        failed: 0,
        waiting: 0,
        oldest_waiting_at: null
      })
      assert.deepStrictEqual([deliveries.days.length, deliveries.failing], [7, []])
    }).pipe(Effect.orDie)
  )

  it.effect("pending approvals are counted up to a limit, with the oldest", () =>
    Effect.gen(function* () {
      const overview = yield* Overview
      const sql = yield* SqlClient.SqlClient
      const mine = yield* principalOf("waiting")
      const insert = (from: number, to: number) => sql`
        INSERT INTO approvals (
          org_id, approval_id, session_id, step_id, tool, action_class, arguments_digest, status, stage, requested_at,
          requested_by_id, review_deadline_at, expires_at, timeout_action
        )
        SELECT
          ${mine.org_id}, 'apr_' || lpad(n::text, 6, '0'), 'ses_1', n::text, 'mail.send', 'write', '', 'pending', 'reviewer',
          '2026-01-01T00:00:00Z'::timestamptz + n * interval '1 second', 'key_agent', now(), now() + interval '1 hour', 'reject'
        FROM generate_series(${from}::int, ${to}::int) AS n
      `
      const pending = Effect.map(
        Effect.provideService(overview.approvals("7d"), Authorized("approvals.read"), mine),
        (read) => read.pending
      )
      yield* insert(1, 3)
      assert.deepStrictEqual(yield* pending, {
        count: 3,
        more: false,
        oldest_requested_at: DateTime.makeUnsafe("2026-01-01T00:00:01Z")
      })
      yield* insert(4, MAX_COUNTED_PENDING + 1)
      assert.deepStrictEqual(yield* pending, {
        count: MAX_COUNTED_PENDING,
        more: true,
        oldest_requested_at: DateTime.makeUnsafe("2026-01-01T00:00:01Z")
      })
    }).pipe(Effect.orDie)
  )

  it.effect("feedback and runs are counted by release, and new releases are named", () =>
    Effect.gen(function* () {
      const { client } = yield* Countersign
      const overview = yield* Overview
      const sql = yield* SqlClient.SqlClient
      const admin = yield* client({}, "answers")
      const mine = yield* principalOf("answers")
      const task = yield* admin.tasks.create({
        payload: {
          name: "Sort messages",
          instructions: "Sort.",
          input_schema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
          answer_schema: { type: "object", properties: { topic: { type: "string" } }, required: ["topic"] },
          provider: { kind: "examples" }
        }
      })
      const release_id = task.live_release_id ?? ""
      const [today, yesterday, eighth] = yield* Effect.all([dayAgo(0), dayAgo(1), dayAgo(7)])
      const run = (n: number, day: string, release: string, source: string) => sql`
        INSERT INTO runs (
          org_id, trace_id, run_id, task_id, release_id, source, status, input, metadata, provider_calls, created_at,
          created_by_id, created_by_name, bytes
        ) VALUES (
          ${mine.org_id}, ${`trace${n}`}, ${`run_${n}`}, ${task.id}, ${release}, ${source}, 'succeeded', '{}', '{}', 1,
          ${`${day}T12:00:00Z`}::text::timestamptz, 'key_1', 'agent', 4
        )
      `
      const judge = (n: number, day: string, release: string | null, score: number) => sql`
        INSERT INTO feedback (
          org_id, feedback_id, task_id, trace_id, score, bytes, status, created_at, created_by_id, created_by_name, author, run_id,
          release_id
        ) VALUES (
          ${mine.org_id}, ${`fbk_${n}`}, ${task.id}, ${`trace${n}`}, ${score}, 0, 'recorded',
          ${`${day}T12:00:00Z`}::text::timestamptz, 'key_1', 'Ada', 'key_1', ${`run_${n}`}, ${release}
        )
      `
      yield* run(1, today, release_id, "provider")
      yield* run(2, today, release_id, "provider")
      yield* run(3, yesterday, release_id, "provider")
      yield* run(4, yesterday, release_id, "logged")
      yield* run(5, eighth, release_id, "provider")
      yield* judge(1, today, release_id, 1)
      yield* judge(2, today, release_id, -1)
      yield* judge(3, yesterday, release_id, 0)
      yield* judge(4, yesterday, null, 1)
      yield* judge(5, eighth, release_id, 1)
      yield* countRows(mine.org_id)
      const read = Effect.provideService(overview.feedback("7d"), Authorized("feedback.read"), mine)
      const before = yield* read
      assert.deepStrictEqual(before.total, { runs: 4, positive: 2, neutral: 1, negative: 1 })
      assert.deepStrictEqual(before.days.slice(-2), [
        { day: yesterday, runs: 2, positive: 1, neutral: 1, negative: 0 },
        { day: today, runs: 2, positive: 1, neutral: 0, negative: 1 }
      ])
      assert.deepStrictEqual(
        before.releases.map(({ created_at: _, ...release }) => release),
        [
          {
            task_id: task.id,
            task_name: "Sort messages",
            release_id: task.live_release_id,
            number: 1,
            live: true,
            runs: 3,
            positive: 1,
            neutral: 1,
            negative: 1
          }
        ]
      )
      assert.deepStrictEqual(before.released, [
        { day: today, task_id: task.id, task_name: "Sort messages", release_id: task.live_release_id }
      ])
    }).pipe(Effect.orDie)
  )

  it.effect(
    "completed deliveries are counted by the UTC day that enqueued them, and failing endpoints come first",
    () =>
      Effect.gen(function* () {
        const { client } = yield* Countersign
        const overview = yield* Overview
        const sql = yield* SqlClient.SqlClient
        const admin = yield* client({}, "delivered")
        const mine = yield* principalOf("delivered")
        const { endpoint: good } = yield* admin.notificationEndpoints.create({
          payload: { url: "http://127.0.0.1:9/good" }
        })
        const { endpoint: bad } = yield* admin.notificationEndpoints.create({
          payload: { url: "http://127.0.0.1:9/bad", description: "orders" }
        })
        const [today, yesterday, before] = yield* Effect.all([dayAgo(0), dayAgo(1), dayAgo(7)])
        const enqueue = (destination: string, id: string, day: string, status = "delivered") => sql`
        INSERT INTO deliveries (org_id, destination_id, delivery_id, channel, event_id, label, status, created_at)
        VALUES (
          ${mine.org_id}, ${destination}, ${id}, 'webhook', 'evt_1', 'approval.requested', ${status},
          ${`${day}T23:59:59.999Z`}::text::timestamptz
        )
      `
        yield* enqueue(good.id, "ndl_1", today)
        yield* enqueue(good.id, "ndl_2", yesterday)
        yield* enqueue(bad.id, "ndl_3", yesterday, "failed")
        yield* enqueue(bad.id, "ndl_4", before)
        yield* enqueue("tel_1", "tdl_1", today)
        yield* enqueue(bad.id, "ndl_5", today, "partial")
        yield* enqueue(good.id, "ndl_6", today, "pending")
        yield* countRows(mine.org_id)
        const read = Effect.provideService(overview.deliveries("7d"), Authorized("org_config.read"), mine)
        const result = yield* read
        assert.deepStrictEqual(result.total, {
          delivered: 3,
          failed: 1,
          waiting: 0,
          oldest_waiting_at: null
        })
        assert.deepStrictEqual(result.days.slice(-2), [
          { day: yesterday, delivered: 1, failed: 1 },
          { day: today, delivered: 2, failed: 0 }
        ])
        assert.deepStrictEqual(result.failing, [
          {
            id: bad.id,
            url_hint: bad.url_hint,
            description: "orders",
            active: true,
            delivered: 1,
            failed: 1,
            consecutive_failures: 0,
            cooldown_until: null,
            waiting: 0,
            oldest_waiting_at: null
          }
        ])
        yield* sql`
        INSERT INTO delivery_destinations (org_id, destination_id, consecutive_failures)
        VALUES (${mine.org_id}, ${good.id}, 3)
      `
        assert.deepStrictEqual(
          (yield* read).failing.map(({ consecutive_failures, id }) => [id, consecutive_failures]),
          [
            [good.id, 3],
            [bad.id, 0]
          ]
        )
      }).pipe(Effect.orDie)
  )

  describe("alerts", () => {
    it.effect(
      "an endpoint that fails again and again is one, with its waiting deliveries; one failure is none",
      () =>
        Effect.gen(function* () {
          const { client } = yield* Countersign
          const overview = yield* Overview
          const sql = yield* SqlClient.SqlClient
          const admin = yield* client({}, "alerts")
          const mine = yield* principalOf("alerts")
          const make = (name: string) =>
            Effect.map(
              admin.notificationEndpoints.create({
                payload: { url: `http://127.0.0.1:9/${name}`, description: name }
              }),
              ({ endpoint }) => endpoint.id
            )
          const [orders, once, off] = yield* Effect.all([make("orders"), make("once"), make("off")])
          assert.deepStrictEqual(yield* overview.alerts(mine), {
            approvals: { escalated: 0, due_soon: 0, next_due_at: null, unknown_executions: 0 },
            endpoints: [],
            collector: null,
            reviewers: [],
            limits: []
          })
          yield* fail(mine.org_id, orders, 30, 5)
          yield* fail(mine.org_id, once, 1, 1)
          yield* fail(mine.org_id, off, 10, 50)
          yield* admin.notificationEndpoints.update({ params: { id: off }, payload: { active: false } })
          const { endpoints } = yield* overview.alerts(mine)
          assert.deepStrictEqual(
            endpoints?.map(({ id, name, waiting }) => [id, name, waiting]),
            [[orders, "orders", 30]]
          )
          assert.isNotNull(endpoints?.[0]?.failing_since)
          // The start page counts them, so that a dead endpoint is no success.
          const { failing, total } = yield* Effect.provideService(
            overview.deliveries("7d"),
            Authorized("org_config.read"),
            mine
          )
          assert.strictEqual(total.waiting, 41)
          assert.deepStrictEqual(
            failing.map(({ active, id, waiting }) => [id, active, waiting]),
            [
              [orders, true, 30],
              [once, true, 1],
              [off, false, 10]
            ]
          )
          const [oldest] = yield* sql<{ readonly same: boolean }>`
          SELECT date_trunc('milliseconds', min(created_at)) = ${toDate(total.oldest_waiting_at ?? assert.fail("some wait"))}::timestamptz AS same
          FROM deliveries
          WHERE org_id = ${mine.org_id}
            AND destination_id = ${orders}
            AND delivery_id = 'ndl_00000001'
        `
          assert.isTrue(oldest?.same)
          // Another organization sees none of it, and a key without the scope neither.
          assert.deepStrictEqual((yield* overview.alerts(yield* principalOf("calm"))).endpoints, [])
          const reviewer = yield* principalOf("alerts", { preset: "reviewer" })
          assert.isNull((yield* overview.alerts(reviewer)).endpoints)
        }).pipe(Effect.orDie)
    )

    it.effect("a queue that is nearly full is one, and a collector that fails", () =>
      Effect.gen(function* () {
        const { client } = yield* Countersign
        const overview = yield* Overview
        const sql = yield* SqlClient.SqlClient
        const admin = yield* client({}, "full")
        const mine = yield* principalOf("full")
        const { endpoint } = yield* admin.notificationEndpoints.create({
          payload: { url: "http://127.0.0.1:9/slow" }
        })
        const collector = yield* admin.telemetryDestinations.create({
          payload: { url: "http://127.0.0.1:9/v1/traces" }
        })
        yield* fail(mine.org_id, endpoint.id, 8_000, 0)
        yield* fail(mine.org_id, collector.id, 0, 7)
        yield* sql`UPDATE telemetry_destinations SET waiting_spans = 2500 WHERE org_id = ${mine.org_id}`
        const alerts = yield* overview.alerts(mine)
        assert.deepStrictEqual(
          alerts.endpoints?.map(({ failing_since, queue_use }) => [failing_since, queue_use]),
          [[null, 0.8]]
        )
        assert.strictEqual(alerts.collector?.queue_use, 0.25)
        assert.isNotNull(alerts.collector?.failing_since)
      }).pipe(Effect.orDie)
    )

    it.effect(
      "escalated approvals and near deadlines are counted up to a limit, by the index of pending ones",
      () =>
        Effect.gen(function* () {
          const overview = yield* Overview
          const sql = yield* SqlClient.SqlClient
          const mine = yield* principalOf("near")
          yield* sql`
          INSERT INTO approvals (
            org_id, approval_id, session_id, step_id, tool, action_class, arguments_digest, status, stage, requested_at,
            requested_by_id, review_deadline_at, expires_at, timeout_action
          )
          SELECT
            ${mine.org_id}, 'apr_' || n, 'ses_1', n, 'mail.send', 'write', '', 'pending',
            CASE WHEN n <= 3 THEN 'admin' ELSE 'reviewer' END, now(), 'key_agent', now(), now() + n * interval '10 minutes', 'reject'
          FROM generate_series(1, 20000) AS n
        `
          yield* sql`ANALYZE approvals`
          const { approvals } = yield* overview.alerts(mine)
          assert.deepStrictEqual([approvals?.escalated, approvals?.due_soon], [3, 1])
          const clock = yield* StoreClock
          const rows = yield* sql<{ readonly "QUERY PLAN": string }>`
          EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF, SUMMARY OFF) ${approvalStatement(sql, clock, mine.org_id)}
        `
          const plan = rows.map((line) => line["QUERY PLAN"]).join("\n")
          assert.notInclude(plan, "Seq Scan", plan)
          const read = [...plan.matchAll(/approvals_inbox on approvals \S* ?\(actual rows=([\d.]+)/g)].map(
            ([, count]) => Number(count)
          )
          assert.deepStrictEqual(
            read.toSorted((a, b) => a - b),
            [1, 1, 10_000],
            plan
          )
          yield* sql`UPDATE approvals SET stage = 'admin', expires_at = now() WHERE org_id = ${mine.org_id}`
          const after = (yield* overview.alerts(mine)).approvals
          assert.deepStrictEqual([after?.escalated, after?.due_soon], [100, 100])
        }).pipe(Effect.orDie)
    )
  })

  it.effect("each part needs its scope, and a period that is not offered is refused", () =>
    Effect.gen(function* () {
      const { key, url } = yield* Countersign
      const secret = yield* key({ preset: "integration" }, "scopes")
      const headers = {
        origin: url.replace("http:", "https:"),
        "sec-fetch-site": "same-origin",
        "content-type": "application/json"
      }
      const statuses = yield* Effect.promise(async () => {
        const signedIn = await fetch(`${url}/console/session`, {
          method: "POST",
          headers,
          body: JSON.stringify({ key: Redacted.value(secret) })
        })
        const cookie = signedIn.headers.get("set-cookie")?.split(";")[0] ?? ""
        const status = async (path: string) =>
          (await fetch(`${url}/console/overview/${path}`, { headers: { cookie } })).status
        return Promise.all(
          ["approvals?period=7d", "feedback?period=7d", "deliveries?period=7d", "feedback?period=365d"].map(
            status
          )
        )
      })
      assert.deepStrictEqual(statuses, [403, 200, 403, 400])
    }).pipe(Effect.orDie)
  )

  it.effect("times under a second are in the first bucket", () =>
    Effect.sync(() => assert.isAtMost(bucketSeconds(0), 1.05))
  )
})

const smallQueues = { COUNTERSIGN_NOTIFY_QUEUE_LIMIT: "10", COUNTERSIGN_TELEMETRY_QUEUE_LIMIT: "1000" }

layer(service({ environment: smallQueues }), { excludeTestServices: true })("Overview", (it) => {
  it.effect("a queue is nearly full by the limit that the operator has set", () =>
    Effect.gen(function* () {
      const overview = yield* Overview
      const sql = yield* SqlClient.SqlClient
      const admin = yield* (yield* Countersign).client({}, "small")
      const mine = yield* principalOf("small")
      const { endpoint } = yield* admin.notificationEndpoints.create({
        payload: { url: "http://127.0.0.1:9/slow" }
      })
      yield* admin.telemetryDestinations.create({ payload: { url: "http://127.0.0.1:9/v1/traces" } })
      yield* fail(mine.org_id, endpoint.id, 8, 0)
      yield* sql`UPDATE telemetry_destinations SET waiting_spans = 900 WHERE org_id = ${mine.org_id}`
      const alerts = yield* overview.alerts(mine)
      assert.deepStrictEqual(
        alerts.endpoints?.map(({ queue_use }) => queue_use),
        [0.8]
      )
      assert.strictEqual(alerts.collector?.queue_use, 0.9)
    }).pipe(Effect.orDie)
  )
})
