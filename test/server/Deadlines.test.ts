import { assert, describe, it, layer } from "@effect/vitest"
import { Context, Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { StepId } from "../../src/domain/Ids.ts"
import { Deadlines, layerLoop } from "../../src/server/Deadlines.ts"
import { Countersign } from "../../src/testing/index.ts"
import { cloneDatabase } from "../support/postgres.ts"

describe("the loop of deadlines", () => {
  /** Runs the loop over rounds that say when the next approval is due, and answers with how many rounds there were. */
  const loop = (next: () => Duration.Duration | null) => {
    let rounds = 0
    const scripted = Layer.succeed(
      Deadlines,
      Deadlines.of({
        runOnce: Effect.sync(() => {
          rounds++
          return { moved: 0, next_due_in: next() }
        })
      })
    )
    return { rounds: () => rounds, layer: Layer.provide(layerLoop(), scripted) }
  }

  it.effect("comes back when the next approval is due", () =>
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

  it.effect(
    "looks every half second where nothing is due, or much later: another replica may have taken in more",
    () =>
      Effect.gen(function* () {
        for (const next of [null, Duration.hours(1)]) {
          const { layer, rounds } = loop(() => next)
          yield* Effect.gen(function* () {
            yield* TestClock.adjust(1_700)
            assert.strictEqual(rounds(), 4)
          }).pipe(Effect.provide(layer))
        }
      })
  )

  it.effect("goes on after a round that failed", () =>
    Effect.gen(function* () {
      let fails = true
      const { layer, rounds } = loop(() => {
        if (fails) throw new Error("the store is away")
        return null
      })
      yield* Effect.gen(function* () {
        yield* TestClock.adjust(0)
        fails = false
        yield* TestClock.adjust(1_000)
        assert.strictEqual(rounds(), 3)
      }).pipe(Effect.provide(layer))
    })
  )
})

/** The deadlines of the second replica. */
class SecondDeadlines extends Context.Service<SecondDeadlines, Deadlines["Service"]>()(
  "test/SecondDeadlines"
) {}

/** Approvals of one session, asked for in the ordinary way. */
const waiting = (count: number) =>
  Effect.gen(function* () {
    const agent = yield* (yield* Countersign).client({ preset: "runtime" })
    const { session_id } = yield* agent.sessions.create({})
    yield* Effect.forEach(
      Array.from({ length: count }, (_, index) => StepId.make(`step ${index}`)),
      (step_id) =>
        agent.sessions.step({
          params: { id: session_id },
          payload: { step_id, tool: "payments.refund", action_class: "write" }
        }),
      { concurrency: 8 }
    )
    return session_id
  })

layer(
  Layer.unwrap(
    Effect.map(cloneDatabase, (databaseUrl) =>
      Layer.mergeAll(
        Countersign.layer({ databaseUrl }),
        // A second replica over the same store, for the races between the two.
        Layer.effect(
          SecondDeadlines,
          Effect.map(Layer.build(Layer.fresh(Countersign.layer({ databaseUrl }))), Context.get(Deadlines))
        )
      )
    )
  ),
  { excludeTestServices: true }
)("two replicas", (it) => {
  it.effect("move each due approval once between them, with one event", () =>
    Effect.gen(function* () {
      const count = 120
      const session_id = yield* waiting(count)
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        UPDATE approvals
        SET
          review_deadline_at = review_deadline_at - interval '2 hours',
          expires_at = expires_at - interval '2 hours',
          next_due_at = next_due_at - interval '2 hours'
        WHERE session_id = ${session_id}
      `
      const ours = yield* Deadlines
      const theirs = yield* SecondDeadlines
      yield* Effect.all(
        Array.from({ length: 6 }, (_, index) => (index % 2 === 0 ? ours : theirs).runOnce),
        { concurrency: "unbounded" }
      )
      const left = sql<{ readonly count: number }>`
        SELECT count(*)::int AS count FROM approvals WHERE session_id = ${session_id} AND status = 'pending'
      `
      yield* Effect.repeat(Effect.andThen(ours.runOnce, left), { until: (rows) => rows[0]?.count === 0 })
      const events = yield* sql<{ readonly type: string; readonly count: number; readonly steps: number }>`
        SELECT type, count(*)::int AS count, count(DISTINCT step_id)::int AS steps
        FROM session_events
        WHERE session_id = ${session_id}
        GROUP BY type
        ORDER BY type
      `
      assert.deepStrictEqual(
        events.map((row) => [row.type, row.count, row.steps]),
        [
          ["approval:decided", count, count],
          ["approval:requested", count, count],
          ["step:governed", count, count]
        ]
      )
    })
  )
})
