import { Array as Arr, Context, DateTime, Duration, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { transition } from "../domain/ApprovalState.ts"
import { recordAll, type Moving } from "./Approvals/record.ts"
import { dueApprovals, stateOf } from "./Approvals/rows.ts"
import { atomic } from "./Database.ts"
import { Notifications } from "./Notifications.ts"
import { StoreClock } from "./StoreClock.ts"

/** What one round did. */
export interface Round {
  /** Approvals that were warned of, escalated or expired. */
  readonly moved: number
  /** Until the next approval is due, as far as the store knows; null: none is. */
  readonly next_due_in: Duration.Duration | null
}

/** Approvals that one transaction moves. */
const BATCH = 500
/** Batches at once where much is due. */
const LANES = 3
/** The longest the loop sleeps: an approval with an earlier deadline may have come from another replica. */
const LONGEST_SLEEP = Duration.millis(500)
/** How soon the loop comes back where approvals are due that somebody else holds. */
const HELD_ELSEWHERE = Duration.millis(50)

/**
 * Keeps the deadlines of approvals. All its state is the store's: any number of replicas may run it, each due approval is moved by
 * one of them, and one that was down catches up.
 */
export class Deadlines extends Context.Service<
  Deadlines,
  {
    /** Moves everything that is due. */
    readonly runOnce: Effect.Effect<Round>
  }
>()("countersign/server/Deadlines") {
  static readonly layer = Layer.effect(
    Deadlines,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const clock = yield* StoreClock
      const notifications = yield* Notifications

      const batch = Effect.gen(function* () {
        const now = yield* clock.now
        const rows = yield* dueApprovals(sql, now, BATCH)
        const moving = rows.flatMap((row): ReadonlyArray<Moving> => {
          const { moves } = transition(stateOf(row), { _tag: "Time" }, now)
          return Arr.isReadonlyArrayNonEmpty(moves) ? [{ row, moves }] : []
        })
        if (Arr.isArrayNonEmpty(moving)) yield* recordAll({ notifications, sql }, moving, now)
        return { found: rows.length, moved: moving.length }
      }).pipe(atomically)

      const nextDue = Effect.gen(function* () {
        const rows = yield* sql`
          SELECT next_due_at
          FROM approvals
          WHERE next_due_at IS NOT NULL
          ORDER BY next_due_at
          LIMIT 1
        `
        const [row] = yield* decodeDue(rows)
        if (row === undefined) return null
        const now = yield* clock.now
        return Duration.max(Duration.zero, DateTime.distance(now, row.next_due_at))
      }).pipe(Effect.orDie)

      const batches = Effect.gen(function* () {
        let moved = 0
        for (;;) {
          const done = yield* batch
          moved += done.moved
          if (done.found < BATCH) return moved
        }
      })

      const runOnce = Effect.gen(function* () {
        const [first = 0, ...others] = yield* batch.pipe(
          Effect.flatMap(({ found, moved }) =>
            // More than one batch: several at once, so that the store writes one while the next is worked out.
            found < BATCH
              ? Effect.succeed([moved])
              : Effect.map(Effect.replicateEffect(batches, LANES, { concurrency: LANES }), (more) => [
                  moved,
                  ...more
                ])
          )
        )
        return { moved: others.reduce((sum, moved) => sum + moved, first), next_due_in: yield* nextDue }
      }).pipe(Effect.withSpan("Deadlines.runOnce"))

      return Deadlines.of({ runOnce })
    })
  )
}

const decodeDue = Schema.decodeUnknownEffect(
  Schema.Array(Schema.Struct({ next_due_at: Schema.DateTimeUtcFromDate }))
)

/**
 * Runs the rounds: again at the next deadline, and every half second where that is later, since another replica may have taken in
 * an earlier one. A store that is away is waited for.
 */
export const layerLoop: Layer.Layer<never, never, Deadlines> = Layer.effectDiscard(
  Effect.gen(function* () {
    const deadlines = yield* Deadlines
    const round = deadlines.runOnce.pipe(
      Effect.map(({ next_due_in }) => {
        if (next_due_in === null) return LONGEST_SLEEP
        return Duration.isZero(next_due_in) ? HELD_ELSEWHERE : Duration.min(next_due_in, LONGEST_SLEEP)
      }),
      Effect.catchCause((cause) =>
        Effect.as(Effect.logWarning("Deadlines could not be kept; trying again", cause), LONGEST_SLEEP)
      )
    )
    yield* Effect.forkScoped(Effect.forever(Effect.flatMap(round, Effect.sleep)))
  })
)
