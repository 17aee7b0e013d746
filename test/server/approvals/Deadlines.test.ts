import { assert, describe, it, layer } from "@effect/vitest"
import { Context, Duration, Effect, Layer, Logger, Metric } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { StepId } from "../../../src/domain/Ids.ts"
import { Deadlines } from "../../../src/server/approvals/Deadlines.ts"
import { StoreClock } from "../../../src/server/store/StoreClock.ts"
import { transaction } from "../../../src/server/store/transaction.ts"
import { workerFailures } from "../../../src/server/observability/metricDefinitions.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { eventually } from "../../support/eventually.ts"
import { cloneDatabase } from "../../support/postgres.ts"

describe("Deadlines › the worker", () => {
  /** Runs the worker over scripted runs: `next` is when the next approval is due, `rounds` counts the runs. */
  const loop = (next: () => Duration.Duration | null) => {
    let rounds = 0
    const scripted = Layer.succeed(
      Deadlines,
      Deadlines.of({
        runOnce: Effect.sync(() => {
          rounds++
          return { transitioned: 0, next_due_in: next() }
        })
      })
    )
    // The clock of the test's own fiber, which is a TestClock.
    const time = Layer.unwrap(Effect.clockWith((clock) => Effect.succeed(StoreClock.layerOf(clock))))
    return { rounds: () => rounds, layer: Layer.provide(Deadlines.layerWorker(), [scripted, time]) }
  }

  it.effect("the worker runs when the next approval is due", () =>
    Effect.gen(function* () {
      const { layer, rounds } = loop(() => Duration.millis(120))
      yield* Effect.gen(function* () {
        yield* TestClock.adjust(0)
        assert.strictEqual(rounds(), 1)
        yield* TestClock.adjust(119)
        assert.strictEqual(rounds(), 1)
        yield* TestClock.adjust(1)
        assert.strictEqual(rounds(), 2)
      }).pipe(Effect.provide(layer))
    })
  )

  it.effect("the worker pauses for 50 ms while due approvals are locked", () =>
    Effect.gen(function* () {
      let runs = 0
      const { layer, rounds } = loop(() => (runs++ < 10 ? Duration.zero : null))
      yield* Effect.gen(function* () {
        yield* TestClock.adjust(0)
        assert.strictEqual(rounds(), 1)
        yield* TestClock.adjust(49)
        assert.strictEqual(rounds(), 1)
        yield* TestClock.adjust(1)
        assert.strictEqual(rounds(), 2)
      }).pipe(Effect.provide(layer))
    })
  )

  it.effect(
    "the worker runs every second if nothing is due sooner, because another replica may have accepted approvals",
    () =>
      Effect.gen(function* () {
        for (const next of [null, Duration.hours(1)]) {
          const { layer, rounds } = loop(() => next)
          yield* Effect.gen(function* () {
            yield* TestClock.adjust(3_400)
            assert.strictEqual(rounds(), 4)
          }).pipe(Effect.provide(layer))
        }
      })
  )

  it.effect("the worker continues after a failed run", () =>
    Effect.gen(function* () {
      let fails = true
      const { layer, rounds } = loop(() => {
        if (fails) throw new Error("the database is unavailable")
        return null
      })
      yield* Effect.gen(function* () {
        yield* TestClock.adjust(0)
        fails = false
        yield* TestClock.adjust(1_500)
        assert.strictEqual(rounds(), 3)
      }).pipe(Effect.provide(layer))
    })
  )
})

/** The deadlines of the second replica. */
class SecondDeadlines extends Context.Service<SecondDeadlines, Deadlines["Service"]>()(
  "test/SecondDeadlines"
) {}

/** Small batches, so that a run has many, concurrently. */
const manyBatches = Deadlines.layer({ batch: 6, concurrency: 3 })

const sessions = 4
const steps = 15

/** Steps by their transition: warned, escalated to the admins, expired. */
const fates = ["expiring", "escalated", "expired"] as const

/** Requests approvals in several sessions, with an escalation window after the review window. */
const waiting = Effect.gen(function* () {
  const countersign = yield* Countersign
  const admin = yield* countersign.client({})
  yield* admin.approvalRules.replace({
    payload: {
      rules: [
        { effect: "require_approval", review_seconds: 600, expiring_seconds: 60, escalation_seconds: 600 }
      ]
    }
  })
  yield* admin.notificationEndpoints.create({ payload: { url: "http://127.0.0.1:9/hook" } })
  const agent = yield* countersign.client({ preset: "runtime" })
  const asked = Array.from({ length: steps }, (_, index) =>
    StepId.make(`${fates[index % fates.length]} ${index}`)
  )
  for (let count = 0; count < sessions; count++) {
    const { session_id } = yield* agent.sessions.create({})
    yield* Effect.forEach(
      asked,
      (step_id) =>
        agent.sessions.step({
          params: { id: session_id },
          payload: { step_id, tool: "payments.refund", action_class: "write" }
        }),
      { concurrency: 4 }
    )
  }
})

/** Requests an approval in a new organization with a webhook endpoint. */
const waitingOf = Effect.fnUntraced(function* (organization: string) {
  const countersign = yield* Countersign
  const admin = yield* countersign.clientWith(yield* countersign.key({}, organization))
  yield* admin.approvalRules.replace({ payload: { rules: [{ effect: "require_approval" }] } })
  yield* admin.notificationEndpoints.create({ payload: { url: "http://127.0.0.1:9/hook" } })
  const { session_id } = yield* admin.sessions.create({})
  yield* admin.sessions.step({
    params: { id: session_id },
    payload: { step_id: StepId.make("expired"), tool: "payments.refund", action_class: "write" }
  })
})

/** Creates a session whose only step is claimed. */
const claimedIn = Effect.fnUntraced(function* (organization: string) {
  const countersign = yield* Countersign
  const admin = yield* countersign.clientWith(yield* countersign.key({}, organization))
  yield* admin.approvalRules.replace({ payload: { rules: [{ effect: "allow" }] } })
  const { session_id } = yield* admin.sessions.create({})
  yield* admin.sessions.step({
    params: { id: session_id },
    payload: { step_id: StepId.make("claimed"), tool: "t", action_class: "c", claim: true }
  })
  return session_id
})

layer(
  Layer.unwrap(
    Effect.map(cloneDatabase, (databaseUrl) =>
      Layer.merge(
        Layer.provideMerge(manyBatches, Countersign.layer({ databaseUrl })),
        // A second replica on the same database, for races between the two.
        Layer.effect(
          SecondDeadlines,
          Effect.map(
            Layer.build(Layer.fresh(Layer.provideMerge(manyBatches, Countersign.layer({ databaseUrl })))),
            Context.get(Deadlines)
          )
        )
      )
    )
  ),
  { excludeTestServices: true }
)("Deadlines › two replicas", (it) => {
  it.effect("a run with no approval due takes no row locks, and so needs no transaction", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { runOnce } = yield* Deadlines
      const run = yield* transaction(
        Effect.andThen(
          // Conflicts with every row lock, but not with reads.
          sql`LOCK TABLE approvals IN EXCLUSIVE MODE`,
          // Outside this transaction.
          Effect.promise(() => Effect.runPromise(runOnce))
        )
      )
      assert.deepStrictEqual(run, { transitioned: 0, next_due_in: null })
    })
  )

  it.effect(
    "two replicas make each transition once: warnings, escalations and expiries, in many sessions concurrently",
    () =>
      Effect.gen(function* () {
        yield* waiting
        const sql = yield* SqlClient.SqlClient
        yield* sql`
        UPDATE approvals
        SET
          requested_at = requested_at - by,
          review_deadline_at = review_deadline_at - by,
          escalation_deadline_at = escalation_deadline_at - by,
          expires_at = expires_at - by,
          next_due_at = next_due_at - by
        FROM (
          VALUES ('expiring', interval '570 seconds'), ('escalated', interval '630 seconds'), ('expired', interval '2 hours')
        ) AS shift (fate, by)
        WHERE step_id LIKE fate || ' %'
      `
        const ours = yield* Deadlines
        const theirs = yield* SecondDeadlines
        const left = sql<{ readonly count: number }>`
        SELECT count(*)::int AS count
        FROM approvals
        WHERE next_due_at <= now()
      `
        yield* Effect.repeat(
          Effect.andThen(
            Effect.all(
              Array.from({ length: 6 }, (_, index) => (index % 2 === 0 ? ours : theirs).runOnce),
              { concurrency: "unbounded" }
            ),
            left
          ),
          { until: (rows) => rows[0]?.count === 0 }
        )
        const each = (sessions * steps) / fates.length
        const published = yield* sql<{
          readonly said: string
          readonly count: number
          readonly steps: number
        }>`
        SELECT split_part(step_id, ' ', 1) || ' ' || type AS said, count(*)::int AS count,
          count(DISTINCT (session_id, step_id))::int AS steps
        FROM session_events
        WHERE type NOT IN ('step:governed', 'approval:requested')
        GROUP BY 1
        ORDER BY 1
      `
        assert.deepStrictEqual(published, [
          { said: "escalated approval:escalated", count: each, steps: each },
          { said: "expired approval:decided", count: each, steps: each },
          { said: "expiring approval:expiring", count: each, steps: each }
        ])
        const sent = yield* sql<{ readonly type: string; readonly count: number }>`
        SELECT type, count(*)::int AS count
        FROM approval_events
        WHERE type <> 'approval.requested'
        GROUP BY type
        ORDER BY type
      `
        assert.deepStrictEqual(
          sent.map(({ count, type }) => [type, count]),
          [
            ["approval.escalated", each],
            ["approval.expired", each],
            ["approval.expiring", each]
          ]
        )
        const gaps = yield* sql`
        SELECT session_id
        FROM agent_sessions
          JOIN session_events USING (org_id, session_id)
        GROUP BY session_id, last_event
        HAVING count(*) <> last_event OR min(number) <> 1 OR max(number) <> last_event
      `
        assert.lengthOf(gaps, 0)
      })
  )

  it.effect(
    "two replicas publish to organizations in the same order, whichever is due first, and do not deadlock",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const deadlines = yield* Deadlines
        // The workers of the two services run too, and may transition the approvals first: then the test starts again with new ones.
        const attempt = Effect.gen(function* () {
          yield* sql`DELETE FROM approval_events`
          yield* Effect.forEach(["one", "two", "three"], waitingOf, { discard: true })
          yield* sql`
            UPDATE approvals
            SET expires_at = due, review_deadline_at = due, next_due_at = due
            FROM (
              SELECT org_id AS org, now() - row_number() OVER (ORDER BY org_id) * interval '1 minute' AS due
              FROM approvals
              WHERE step_id = 'expired'
                AND status = 'pending'
            ) o
            WHERE org_id = org
              AND status = 'pending'
          `
          return (yield* deadlines.runOnce).transitioned
        })
        const transitioned = yield* Effect.repeat(attempt, { until: (count) => count === 3, times: 4 })
        assert.strictEqual(transitioned, 3)
        const published = yield* sql<{ readonly org_id: string }>`
        SELECT e.org_id
        FROM approval_events e
        WHERE e.type = 'approval.expired'
          -- Only the last attempt: a worker may publish an earlier one's approvals at any time.
          AND e.approval_id IN (
            SELECT approval_id
            FROM approvals
            WHERE step_id = 'expired'
            ORDER BY approval_id DESC
            LIMIT 3
          )
        ORDER BY event_id
      `
        const order = published.map(({ org_id }) => org_id)
        assert.lengthOf(order, 3)
        assert.deepStrictEqual(order, order.toSorted())
      })
  )

  it.effect("a run leaves approvals of a locked session to a later run, and does not wait for them", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { runOnce } = yield* Deadlines
      yield* Effect.forEach(["locked", "free"], waitingOf, { discard: true })
      const waitingSessions = sql<{ readonly session_id: string }>`
        SELECT session_id
        FROM approvals
        WHERE step_id = 'expired'
          AND status = 'pending'
        ORDER BY session_id
      `
      // A worker may have locked what is left.
      const runUntil = (length: number) =>
        Effect.repeat(Effect.andThen(runOnce, waitingSessions), { until: (rows) => rows.length <= length })
      yield* transaction(
        Effect.gen(function* () {
          yield* sql`SET LOCAL idle_in_transaction_session_timeout = 0`
          const [locked] = yield* waitingSessions
          assert.isDefined(locked)
          yield* sql`SELECT FROM agent_sessions WHERE session_id = ${locked.session_id} FOR UPDATE`
          const apart = sql`
            UPDATE approvals
            SET expires_at = now(), review_deadline_at = now(), next_due_at = now()
            WHERE step_id = 'expired'
              AND status = 'pending'
          `.pipe(Effect.andThen(runUntil(1)), Effect.timeout("20 seconds"))
          // Outside this transaction.
          assert.deepStrictEqual(yield* Effect.promise(() => Effect.runPromise(apart)), [locked])
        })
      )
      assert.deepStrictEqual(yield* runUntil(0), [])
    })
  )

  it.effect("a batch waits for a locked destination without a lock timeout", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { runOnce } = yield* Deadlines
      yield* waitingOf("timeouts")
      yield* sql`
        UPDATE approvals
        SET expires_at = now(), review_deadline_at = now(), next_due_at = now()
        WHERE step_id = 'expired'
          AND status = 'pending'
      `
      // Stands for a transaction that has locked a destination for seconds: a write fails if a lock timeout is set.
      yield* sql`
        CREATE FUNCTION held() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
          IF current_setting('lock_timeout') <> '0' THEN RAISE 'canceling statement due to lock timeout'; END IF;
          RETURN NEW;
        END $$
      `
      yield* sql`CREATE TRIGGER held BEFORE INSERT ON approval_events FOR EACH ROW EXECUTE FUNCTION held()`
      yield* runOnce
      // A worker may have transitioned it.
      const pending = sql`SELECT FROM approvals WHERE step_id = 'expired' AND status = 'pending'`
      yield* Effect.repeat(pending, { until: (rows) => rows.length === 0 }).pipe(Effect.timeout("20 seconds"))
      yield* sql`DROP TRIGGER held ON approval_events`
    })
  )

  it.effect(
    "an approval that cannot be read stops neither the deadlines nor the leases of other organizations",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { runOnce } = yield* Deadlines
        yield* Effect.forEach(["faulty", "sound"], waitingOf, { discard: true })
        const session_id = yield* claimedIn("leases")
        // Both are due at once: the faulty one is in the same batch.
        yield* sql`
          UPDATE approvals
          SET expires_at = now(), review_deadline_at = now(), next_due_at = now(),
            votes = CASE name WHEN 'faulty' THEN '{}'::json END
          FROM organizations
          WHERE organizations.org_id = approvals.org_id
            AND name IN ('faulty', 'sound')
        `
        yield* sql`
          UPDATE governed_steps
          SET claim_expires_at = claim_expires_at - interval '2 hours'
          WHERE session_id = ${session_id}
        `
        const pendingOf = (organization: string) => sql`
          SELECT
          FROM approvals
            JOIN organizations USING (org_id)
          WHERE name = ${organization}
            AND status = 'pending'
        `
        yield* eventually(Effect.andThen(runOnce, pendingOf("sound")), (rows) => rows.length === 0)
        yield* eventually(
          sql`SELECT FROM governed_steps WHERE session_id = ${session_id} AND execution = 'unknown'`,
          (rows) => rows.length === 1
        )
        assert.lengthOf(yield* pendingOf("faulty"), 1)
        const [faulty] = yield* sql<{ readonly org_id: string }>`
          SELECT org_id
          FROM organizations
          WHERE name = 'faulty'
        `
        const lines: Array<unknown> = []
        const capture = Logger.make(({ logLevel, message }) => {
          if (logLevel !== "Debug") lines.push(message)
        })
        const failures = Effect.map(Metric.value(workerFailures("approval_deadlines")), ({ count }) => count)
        const before = yield* failures
        // A worker may have locked it.
        const run = yield* eventually(
          Effect.provide(runOnce, Logger.layer([capture])),
          () => lines.length > 0
        )
        assert.strictEqual(Duration.toMillis(run.next_due_in ?? Duration.zero), 500)
        assert.strictEqual(lines.flat()[0], `Could not enforce the deadlines of ${faulty?.org_id}; retrying`)
        assert.lengthOf(lines, 1)
        // Operators are alerted by the count.
        assert.isAbove(yield* failures, before)
        yield* sql`UPDATE approvals SET votes = NULL WHERE votes::text = '{}'`
        yield* eventually(Effect.andThen(runOnce, pendingOf("faulty")), (rows) => rows.length === 0)
      })
  )

  it.effect("a lease whose claim cannot be read is tried again after a pause", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { runOnce } = yield* Deadlines
      const session_id = yield* claimedIn("faulty lease")
      const setAttempt = (attempt: number | null) => sql`
        UPDATE governed_steps
        SET claim_expires_at = claim_expires_at - interval '2 hours', attempt = ${attempt}
        WHERE session_id = ${session_id}
      `
      yield* setAttempt(null)
      const { next_due_in } = yield* runOnce
      assert.strictEqual(Duration.toMillis(next_due_in ?? Duration.zero), 500)
      yield* setAttempt(1)
      yield* eventually(
        sql`SELECT FROM governed_steps WHERE session_id = ${session_id} AND execution = 'unknown'`,
        (rows) => rows.length === 1
      )
    })
  )
})
