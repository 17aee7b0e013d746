import { Clock, Duration, Effect, Schema, Semaphore } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { Deadlines } from "../../server/approvals/Deadlines.ts"
import { processClock } from "../../server/concurrency/processClock.ts"
import { Delivery } from "../../server/delivery/Delivery.ts"
import { rowsOf } from "../../server/store/rows.ts"
import { StoreClock } from "../../server/store/StoreClock.ts"
import type { People } from "./makePeople.ts"

/** How long, in real time, one move waits for the due work of the service. A receiver that does not answer takes 5 s. */
const MAX_WAIT = Duration.seconds(60)

/** Pauses between two looks at the due work, in real time. */
const FIRST_PAUSE_MILLIS = 2
const MAX_PAUSE_MILLIS = 25

/** Moves of one call. Endless retries, or people who answer each other, would otherwise never come to an end. */
const MAX_MOVES = 10_000

const dueRows = rowsOf(
  Schema.Struct({
    approval_ms: Schema.NullOr(Schema.Number),
    delivery_ms: Schema.NullOr(Schema.Number)
  })
)

/**
 * Makes the function that moves the service's time. It stops at every time at which something is due, and goes on only when that is done.
 * Approvals are escalated and expire at their deadlines, people decide, and deliveries are retried, each at its own time. So the records
 * look as if the service had been running all the while.
 */
export const makeAdvance = Effect.fnUntraced(function* (people: People) {
  const clock = yield* Clock.Clock
  const sql = yield* SqlClient.SqlClient
  const deadlines = yield* Deadlines
  const delivery = yield* Delivery
  const { dueWork, millisUnsafe } = yield* StoreClock
  const oneAtATime = yield* Semaphore.make(1)

  const now = () => millisUnsafe()

  /** The earliest times at which approvals and deliveries are due, if any. A destination that cools down holds its deliveries up. */
  const stored = Effect.map(
    Effect.orDie(
      dueRows.first(sql`
        SELECT
          (
            SELECT ceil(extract(epoch FROM next_due_at) * 1000)::float8
            FROM approvals
            WHERE next_due_at IS NOT NULL
            ORDER BY next_due_at
            LIMIT 1
          ) AS approval_ms,
          (
            -- A millisecond later: the engine counts on the monotonic clock, whose nanoseconds a double rounds.
            SELECT ceil(extract(epoch FROM min(greatest(q.due_at, d.cooldown_until))) * 1000)::float8 + 1
            FROM delivery_queue q
              LEFT JOIN delivery_destinations d USING (org_id, destination_id)
          ) AS delivery_ms
      `)
    ),
    (row) => ({ approval: row?.approval_ms ?? Infinity, delivery: row?.delivery_ms ?? Infinity })
  )

  /** The due work that is left, after the work that can be done at once. */
  const stillDue = Effect.gen(function* () {
    if ((yield* people.decideDue) > 0) return "decisions of scripted people"
    if ((yield* deadlines.runOnce).transitioned > 0) return "deadlines of approvals"
    const due = yield* stored
    if (due.approval <= now()) return "deadlines of approvals"
    if (due.delivery <= now()) return "deliveries"
    return dueWork?.isDone() === false ? "background workers" : undefined
  })

  /** Waits, in real time, until everything that is due is done. */
  const settle = Effect.gen(function* () {
    const until = processClock.currentTimeMillisUnsafe() + Duration.toMillis(MAX_WAIT)
    let pause = FIRST_PAUSE_MILLIS
    for (;;) {
      const waitsFor = yield* stillDue
      if (waitsFor === undefined) return
      if (processClock.currentTimeMillisUnsafe() > until) {
        return yield* Effect.die(
          new Error(
            `countersign/testing: after ${Duration.format(MAX_WAIT)} the service is still busy with ${waitsFor}, which are due at ${new Date(now()).toISOString()}.`
          )
        )
      }
      yield* Effect.sleep(pause)
      pause = Math.min(MAX_PAUSE_MILLIS, pause * 1.5)
    }
  })

  const moveTo = (millis: number) =>
    Effect.provideService(TestClock.adjust(Duration.millis(millis - now())), Clock.Clock, clock)

  return (duration: Duration.Input): Effect.Effect<void> =>
    Effect.gen(function* () {
      if (clock === processClock) return yield* Effect.die(new Error(NEEDS_TEST_CLOCK))
      const target = now() + Duration.toMillis(Duration.fromInputUnsafe(duration))
      yield* settle
      for (let moves = 0; ; moves++) {
        if (moves === MAX_MOVES) {
          return yield* Effect.die(
            new Error(`countersign/testing: work keeps becoming due: stopped after ${MAX_MOVES} moves.`)
          )
        }
        const due = yield* stored
        const next = Math.min(due.approval, due.delivery, (yield* people.nextDue) ?? Infinity)
        const to = Math.min(target, next)
        if (to > now()) yield* moveTo(to)
        yield* settle
        // The effects of the last move can have made more work due at this very time.
        if (now() >= target) break
      }
      yield* Effect.orDie(delivery.runRetention)
    }).pipe(
      // Only the service's time stands still: the statements and pauses of this function are part of the test.
      Effect.provideService(Clock.Clock, processClock),
      oneAtATime.withPermits(1)
    )
})

const NEEDS_TEST_CLOCK =
  "countersign/testing: `advance` needs a clock that stands still. Use `startCountersign`, or build the layer under Effect's TestClock, which `layer` of @effect/vitest does unless `excludeTestServices` is set."
