import { Array as Arr, Context, DateTime, Duration, Effect, Layer, Schema, Semaphore } from "effect"
import { SqlClient } from "effect/sql"
import { transition } from "../../domain/approvals/ApprovalState.ts"
import { lockDueApprovals, type DueCursor, firstDueCursor } from "./Approvals/transitionRows.ts"
import { recordTransitions, type PendingTransition } from "./Approvals/recordTransitions.ts"
import { stateOf } from "./Approvals/rows.ts"
import { atomic } from "../store/Database/transaction.ts"
import { Notifications } from "../notifications/Notifications.ts"
import { Spans } from "../telemetry/Spans.ts"
import { StoreClock } from "../store/StoreClock.ts"

/** What one round did. */
export interface DeadlineRun {
  /** Approvals that were warned of, escalated or expired. */
  readonly transitioned: number
  /** Until the next approval is due, as far as the store knows; null: none is. */
  readonly next_due_in: Duration.Duration | null
}

/** How deadlines are kept. */
export interface DeadlineOptions {
  /** Approvals that one transaction moves. Default 1,000. */
  readonly batch: number
  /** Batches at once where more than one is due: the store writes one while the next is worked out. Default 2. */
  readonly concurrency: number
  /** The longest sleep: an approval with an earlier deadline may have come from another replica. Default 500 ms. */
  readonly maxSleep: Duration.Duration
  /** How soon the loop comes back where approvals are due that somebody else holds. Default 50 ms. */
  readonly lockedRetry: Duration.Duration
}

const defaults: DeadlineOptions = {
  batch: 1_000,
  concurrency: 2,
  maxSleep: Duration.millis(500),
  lockedRetry: Duration.millis(50)
}

/**
 * Keeps the deadlines of approvals. All its state is the store's: any number of replicas may run it, each due approval is moved by
 * one of them, and one that was down catches up.
 */
export class Deadlines extends Context.Service<
  Deadlines,
  {
    /** Moves everything that is due. */
    readonly runOnce: Effect.Effect<DeadlineRun>
  }
>()("countersign/server/approvals/Deadlines") {
  static readonly layer = (options: Partial<DeadlineOptions> = {}) =>
    Layer.effect(Deadlines, make({ ...defaults, ...options }))

  /**
   * Runs the rounds: again at the next deadline, and every half second where that is later, since another replica may have taken in
   * an earlier one. A store that is away is waited for.
   */
  static readonly layerLoop = (
    options: Partial<Pick<DeadlineOptions, "maxSleep" | "lockedRetry">> = {}
  ): Layer.Layer<never, never, Deadlines> => Layer.effectDiscard(loop({ ...defaults, ...options }))
}

const make = Effect.fnUntraced(function* ({ batch: size, concurrency }: DeadlineOptions) {
  const sql = yield* SqlClient.SqlClient
  const atomically = atomic(sql)
  const clock = yield* StoreClock
  const notifications = yield* Notifications
  const spans = yield* Spans

  /** One claim at a time, each going on where the last one ended. */
  const claiming = yield* Semaphore.make(1)

  const batch = (round: { after: DueCursor }) =>
    Effect.gen(function* () {
      // A destination that somebody fills is waited for: all that has moved so far would be given up.
      yield* sql`SET LOCAL lock_timeout = 0`
      const now = yield* clock.now
      const rows = yield* claiming.withPermits(1)(
        Effect.tap(
          Effect.suspend(() => lockDueApprovals(sql, now, round.after, size)),
          (claimed) =>
            Effect.sync(() => {
              round.after = claimed.at(-1) ?? round.after
            })
        )
      )
      const moving = rows.flatMap((row): ReadonlyArray<PendingTransition> => {
        const { transitions } = transition(stateOf(row), { _tag: "Time" }, now)
        return Arr.isReadonlyArrayNonEmpty(transitions) ? [{ row, transitions }] : []
      })
      if (Arr.isArrayNonEmpty(moving)) yield* recordTransitions({ notifications, spans, sql }, moving, now)
      return { moved: moving.length, more: rows.length === size }
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

  const lane = Effect.fnUntraced(function* (round: { after: DueCursor }) {
    for (let moved = 0; ;) {
      const done = yield* batch(round)
      moved += done.moved
      if (!done.more) return moved
    }
  })

  const runOnce = Effect.gen(function* () {
    const round = { after: firstDueCursor }
    const first = yield* batch(round)
    const others = first.more ? yield* Effect.replicateEffect(lane(round), concurrency, { concurrency }) : []
    return {
      transitioned: others.reduce((sum, count) => sum + count, first.moved),
      next_due_in: yield* nextDue
    }
  }).pipe(Effect.withSpan("Deadlines.runOnce"))

  return Deadlines.of({ runOnce })
})

const decodeDue = Schema.decodeUnknownEffect(
  Schema.Array(Schema.Struct({ next_due_at: Schema.DateTimeUtcFromDate }))
)

const loop = Effect.fnUntraced(function* ({ lockedRetry, maxSleep }: DeadlineOptions) {
  const deadlines = yield* Deadlines
  const round = deadlines.runOnce.pipe(
    Effect.map(({ next_due_in }) => {
      if (next_due_in === null) return maxSleep
      return Duration.isZero(next_due_in) ? lockedRetry : Duration.min(next_due_in, maxSleep)
    }),
    Effect.catchCause((cause) =>
      Effect.as(Effect.logWarning("Deadlines could not be kept; trying again", cause), maxSleep)
    )
  )
  yield* Effect.forkScoped(Effect.forever(Effect.flatMap(round, Effect.sleep)))
})
