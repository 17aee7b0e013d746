import { Clock, Effect, FiberSet, type Latch, Queue, type Scope } from "effect"
import type { SqlError } from "effect/sql"
import * as Cooldown from "../../../domain/delivery/Cooldown.ts"
import { type AttemptOutcome, destinationVerdict } from "../../../domain/delivery/DeliveryState.ts"
import { type Ended, makeAttempt } from "./Attempt.ts"
import { makeTimerWheel } from "../../concurrency/TimerWheel.ts"
import type { Channel } from "./Channel.ts"
import type { Item, QueueRow } from "./QueuedDelivery.ts"
import { type Lane, LANE_LOW } from "./Lane.ts"
import { makeLanes } from "./Lanes.ts"
import { makeReads, type Reads } from "./Reads.ts"
import { type Shards } from "./Shards.ts"
import { monotonicMillis } from "../../concurrency/monotonicMillis.ts"
import { makeSlots, type SlotOptions } from "./Slots.ts"

/** Results that wait to be written; past it each waits for room in a fiber of its own. */
const MAX_RESULTS = 4_096

/** How long an item waits whose payload or destination could not be read. */
const UNREADABLE_MILLIS = 1_000

/** What becomes of an item that waited past its time. */
const tooLate: AttemptOutcome = { _tag: "Refused", error: "its time was over before its turn came" }

/** What became of an item after it was written down. `due` on the monotonic clock; null: it is done, or another's. */
export interface Written {
  readonly ended: Ended
  readonly due: number | null
}

/** The lanes of the shards that are here, and the attempts under way. */
export interface Dispatcher {
  /** Takes in rows that were read at `now`, in milliseconds on the monotonic clock. Those it knows change nothing. */
  readonly offer: (rows: ReadonlyArray<QueueRow>, now: number) => void
  /** The same for the first row of each lane: behind it there may be more. */
  readonly offerHeads: (rows: ReadonlyArray<QueueRow>, now: number) => void
  /** Takes in what was read for lanes that ran low. `complete`: their whole queue was read. */
  readonly refilled: (
    lanes: ReadonlyMap<Lane, { readonly rows: ReadonlyArray<QueueRow>; readonly complete: boolean }>,
    now: number
  ) => void
  /** Every read of the queue goes through one of these. */
  readonly reading: Reads["reading"]
  readonly beginReading: Reads["begin"]
  /** What ended, for whoever writes it down. */
  readonly results: Queue.Dequeue<Ended>
  readonly written: (list: ReadonlyArray<Written>) => void
  /** What ended cannot be written: it is not sent again by this process, and does not keep its shard here. */
  readonly abandoned: (ended: Ended) => void
  /** Lanes whose health is not what is stored, each with its health, `limit` at most. Their shards stay here until it is. */
  readonly unsaved: (limit: number) => ReadonlyMap<Lane, Cooldown.Health>
  /** Open while there are such. */
  readonly anyUnsaved: Latch.Latch
  /** These were stored. */
  readonly saved: (stored: ReadonlyMap<Lane, Cooldown.Health>) => void
  /** Lanes that ran low since they were last asked for, `limit` at most. */
  readonly takeLow: (limit: number) => ReadonlyArray<Lane>
  /** Open while lanes are low. */
  readonly low: Latch.Latch
  /** Looks at every lane again: leases were renewed, or shards came. */
  readonly kick: () => void
  /** Forgets the lanes whose shards went, those also whose shards came back since. */
  readonly forgetLost: () => void
  /** Whether an attempt at this delivery is under way here. */
  readonly isSending: (delivery_id: string) => boolean
  /** Attempts under way, by channel. */
  readonly running: () => ReadonlyMap<string, number>
}

/**
 * Decides what is sent next. One ring of lanes that may have something to send; each turn of it starts at most one attempt per
 * lane, as far as the caps allow: of all, of retries, of the organization, of the channel, of the destination. A lane that must wait
 * leaves the ring and comes back by what it waits for: a timer fiber, the end of an attempt, a read of the store.
 */
export const makeDispatcher = (
  channels: ReadonlyMap<string, Channel>,
  shards: Shards,
  options: SlotOptions,
  horizonMillis: number
): Effect.Effect<Dispatcher, never, Scope.Scope> =>
  Effect.gen(function* () {
    const clock = yield* Clock.Clock
    const fork = yield* FiberSet.makeRuntime<never, unknown, SqlError.SqlError>()
    const results = yield* Queue.bounded<Ended>(MAX_RESULTS)
    const reads = makeReads()
    const slots = makeSlots(options)
    const ring = new Set<Lane>()
    const sending = new Set<string>()
    let turning = false

    const lanes = makeLanes(channels, shards, reads, horizonMillis, (lane) => {
      lane.timer?.fiber.interruptUnsafe()
      lane.timer = undefined
      ring.delete(lane)
      slots.forget(lane)
    })

    const wait = (lane: Lane, until: number, now: number): void => {
      if (lane.timer !== undefined) {
        if (lane.timer.at <= until) return
        lane.timer.fiber.interruptUnsafe()
      }
      const awake = Effect.flatMap(Effect.sleep(Math.max(1, Math.ceil(until - now))), () =>
        Effect.sync(() => {
          lane.timer = undefined
          ring.add(lane)
          turn()
        })
      )
      lane.timer = { at: until, fiber: fork(awake) }
    }

    /** A lane has nothing to do before `until`: it waits here, or is found again when the time is near. */
    const rest = (lane: Lane, until: number, now: number): void => {
      if (!lanes.dropUntil(lane, until, now)) wait(lane, Math.min(until, now + horizonMillis), now)
    }

    const report = (ended: Ended): void => {
      if (!Queue.offerUnsafe(results, ended)) fork(Queue.offer(results, ended))
    }

    /** An item waits no more, and its shard stays here until what became of it is written. */
    const begin = (lane: Lane, item: Item): void => {
      lane.remove(item)
      lane.owned.open++
      if (lane.items.length < LANE_LOW) lanes.askForMore(lane)
    }

    /** Ends an item without an attempt: it takes no slot, and says nothing of its destination. */
    const giveUp = (lane: Lane, item: Item): void => {
      begin(lane, item)
      const startedAt = clock.currentTimeMillisUnsafe()
      report({ lane, item, outcome: tooLate, startedAt, durationMillis: 0 })
    }

    /** Starts one attempt of a lane, or ends what waited too long; whether it did. Where it did not, what the lane waits for will bring it back. */
    const startOne = (lane: Lane): boolean => {
      const now = monotonicMillis(clock)
      // A lane that was let go may still be told of the end of its attempts.
      if (!lanes.has(lane) || !shards.mayStart(lane.owned, now)) return false
      lane.health = Cooldown.advance(lane.health, now)
      const late = lane.late(now)
      if (late !== undefined) {
        giveUp(lane, late)
        return true
      }
      if (lane.active >= Cooldown.concurrencyLimit(lane.health, lane.channel.policy.concurrency)) {
        if (lane.health._tag === "CoolingDown") rest(lane, lane.health.until, now)
        return false
      }
      const head = lane.items[0]
      if (head === undefined) {
        lanes.askForMore(lane)
        lanes.dropIfIdle(lane)
        return false
      }
      if (head.due > now) {
        rest(lane, head.due, now)
        return false
      }
      const item = lane.next(now, slots.retriesFree())
      if (item === undefined) {
        slots.awaitRetry(lane)
        return false
      }
      if (!slots.take(lane, item)) return false
      begin(lane, item)
      lane.active++
      sending.add(item.delivery_id)
      attempt(lane, item)
      return true
    }

    const turn = (): void => {
      // What an attempt does before its first wait may call for a turn: the one at hand will come to it.
      if (turning) return
      turning = true
      try {
        for (const lane of ring) {
          if (!slots.anyFree()) break
          ring.delete(lane)
          // Added again it is met once more at the end of this same pass: the ring goes round.
          if (startOne(lane)) ring.add(lane)
        }
      } finally {
        turning = false
      }
    }

    const admit = (lane: Lane, item: Item): void => {
      lanes.admit(lane, item)
      ring.add(lane)
    }

    const take = (row: QueueRow, now: number): Lane | undefined => {
      const lane = lanes.take(row, now)
      if (lane !== undefined) ring.add(lane)
      return lane
    }

    /** The slots of an attempt come free. */
    const free = (lane: Lane, item: Item): void => {
      lane.active--
      sending.delete(item.delivery_id)
      for (const waiting of slots.free(lane, item)) ring.add(waiting)
      ring.add(lane)
    }

    const judge = (lane: Lane, outcome: AttemptOutcome): void => {
      const verdict = destinationVerdict(outcome)
      // A destination whose shard has gone is judged by its present owner, who may know more against it than is known here.
      if (verdict === "ignored" || !lanes.has(lane)) return
      const after =
        verdict === "success"
          ? Cooldown.recordSuccess(lane.health)
          : Cooldown.recordFailure(lane.health, lane.channel.policy.cooldown, monotonicMillis(clock))
      if (after !== lane.health) lanes.setHealth(lane, after)
    }

    const attempt = makeAttempt(clock, shards, yield* makeTimerWheel, fork, {
      ended: (ended) => {
        judge(ended.lane, ended.outcome)
        free(ended.lane, ended.item)
        turn()
        report(ended)
      },
      putBack: (lane, item) => {
        lane.owned.open--
        free(lane, item)
        if (lanes.has(lane)) admit(lane, { ...item, due: monotonicMillis(clock) + UNREADABLE_MILLIS })
        else lanes.done(lane, item)
        turn()
      }
    })

    return {
      offer: (rows, now) => {
        for (const row of rows) take(row, now)
        turn()
      },
      offerHeads: (rows, now) => {
        for (const row of rows) {
          const lane = take(row, now)
          if (lane === undefined) continue
          lane.more = true
          // A lane that cools down needs no more than its first row: a backlog of thousands of them stays in the store.
          if (lane.health._tag !== "CoolingDown") lanes.askForMore(lane)
        }
        turn()
      },
      refilled: (batch, now) => {
        for (const [lane, { complete, rows }] of batch) {
          lane.refilling = false
          if (!lanes.has(lane)) continue
          for (const row of rows) take(row, now)
          if (!complete) lane.more = true
          ring.add(lane)
        }
        turn()
      },
      reading: reads.reading,
      beginReading: reads.begin,
      results,
      written: (list) => {
        for (const { due, ended } of list) {
          const { item, lane } = ended
          lane.owned.open--
          reads.finished(item.seq, item.attempt)
          if (due === null || !lanes.has(lane)) lanes.done(lane, item)
          else admit(lane, { ...item, attempt: item.attempt + 1, due })
        }
        turn()
      },
      abandoned: ({ item, lane }) => {
        lane.owned.open--
        lanes.abandon(lane, item)
      },
      unsaved: lanes.unsaved,
      anyUnsaved: lanes.anyUnsaved,
      saved: (stored) => {
        // What had to stay in memory until it was stored may rest now.
        for (const lane of lanes.saved(stored)) ring.add(lane)
        turn()
      },
      takeLow: lanes.takeLow,
      low: lanes.low,
      kick: () => {
        for (const lane of lanes.all()) ring.add(lane)
        turn()
      },
      forgetLost: lanes.dropLost,
      isSending: (delivery_id) => sending.has(delivery_id),
      running: slots.running
    }
  })
