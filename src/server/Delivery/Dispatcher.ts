import { Cause, Clock, Effect, FiberSet, Latch, Queue, type Scope } from "effect"
import { allowance, at, failed, type Health, succeeded } from "../../domain/Cooldown.ts"
import type { Outcome } from "../../domain/DeliveryState.ts"
import type { Channel } from "./Channel.ts"
import { healthOf, isRetry, type Item, itemOf, type QueueRow } from "./Item.ts"
import { Lane, LANE_ITEMS, LANE_LOW } from "./Lane.ts"
import { makeReads, type Reads } from "./Reads.ts"
import { monotonicMillis, type OwnedShard, type Shards } from "./Shards.ts"

/** How much may be under way at once in one process. */
export interface SlotOptions {
  /** Attempts in all. */
  readonly slots: number
  /** Of them retries at most: the rest is kept for first attempts. */
  readonly retrySlots: number
  /** Of them those of one organization at most. */
  readonly organizationSlots: number
}

/** A quarter of the slots is kept for first attempts, and no organization takes more than a quarter. */
export const defaultSlots: SlotOptions = { slots: 256, retrySlots: 192, organizationSlots: 64 }

/** Items in memory over all lanes; past it each lane holds one. */
const MAX_ITEMS = 100_000

/** Lanes in memory; past it those that cool down are let go, and found again by the sweep. */
const MAX_LANES = 20_000

/** Results that wait to be written; past it nothing new ends. */
const MAX_RESULTS = 4_096

/** How long an item waits whose payload or destination could not be read. */
const UNREADABLE_MILLIS = 1_000

/** Retries that are waiting for a slot of theirs and are looked at when one comes free. */
const WAKE_RETRIES = 4

/** An attempt that has ended and is to be written down. */
export interface Ended {
  readonly lane: Lane
  readonly item: Item
  readonly owned: OwnedShard
  readonly outcome: Outcome
  /** When the sending began, in milliseconds since the epoch. */
  readonly startedAt: number
  readonly durationMillis: number
}

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
  /** Every read of the queue goes through here. */
  readonly reading: Reads["reading"]
  /** What ended, for whoever writes it down. */
  readonly results: Queue.Dequeue<Ended>
  readonly written: (list: ReadonlyArray<Written>) => void
  /** Lanes whose health changed since they were last asked for. */
  readonly takeUnsaved: () => ReadonlyArray<Lane>
  /** Lanes that ran low since they were last asked for, `limit` at most. */
  readonly takeLow: (limit: number) => ReadonlyArray<Lane>
  /** Open while lanes are low. */
  readonly low: Latch.Latch
  /** Looks at every lane again: leases were renewed, or shards came. */
  readonly kick: () => void
  /** Forgets the lanes of shards that went. */
  readonly forget: (shards: ReadonlyArray<number>) => void
  /** Whether an attempt at this delivery is under way here. */
  readonly isSending: (delivery_id: string) => boolean
  /** Attempts under way or not yet written. */
  readonly open: () => number
}

interface Organization {
  running: number
  readonly waiting: Set<Lane>
}

/**
 * Decides what is sent next. One ring of lanes that may have something to send; each turn of it starts at most one attempt per
 * lane, as far as the caps allow: of all, of retries, of the organization, of the destination. A lane that must wait leaves
 * the ring and comes back by what it waits for: a timer fiber, the end of an attempt, a read of the store.
 */
export const makeDispatcher = (
  channels: ReadonlyMap<string, Channel>,
  shards: Shards,
  options: SlotOptions
): Effect.Effect<Dispatcher, never, Scope.Scope> =>
  Effect.gen(function* () {
    const clock = yield* Clock.Clock
    const fork = yield* FiberSet.makeRuntime<never, void, never>()
    const results = yield* Queue.bounded<Ended>(MAX_RESULTS)
    const low = Latch.makeUnsafe(false)
    const lanes = new Map<string, Lane>()
    const ring = new Set<Lane>()
    const organizations = new Map<string, Organization>()
    const waitingRetries = new Set<Lane>()
    const lowLanes = new Set<Lane>()
    const unsaved = new Set<Lane>()
    /** Rows in memory, by number: waiting, under way, or not yet written. */
    const known = new Set<number>()
    const sending = new Set<string>()
    const reads = makeReads()
    let running = 0
    let retries = 0
    let turning = false

    const organizationOf = (lane: Lane): Organization => {
      const found = organizations.get(lane.org_id)
      if (found !== undefined) return found
      const made = { running: 0, waiting: new Set<Lane>() }
      organizations.set(lane.org_id, made)
      return made
    }

    const wait = (lane: Lane, until: number, now: number): void => {
      if (lane.timer !== undefined) {
        if (lane.timer.at <= until) return
        lane.timer.fiber.interruptUnsafe()
      }
      const awake = Effect.flatMap(Effect.sleep(Math.max(1, Math.ceil(until - now))), () =>
        Effect.sync(() => {
          lane.timer = undefined
          turnTo(lane)
        })
      )
      lane.timer = { at: until, fiber: fork(awake) }
    }

    const drop = (lane: Lane): void => {
      for (const item of lane.items) known.delete(item.seq)
      lane.items.length = 0
      lane.timer?.fiber.interruptUnsafe()
      lane.timer = undefined
      if (lanes.get(lane.key) === lane) lanes.delete(lane.key)
      ring.delete(lane)
      lowLanes.delete(lane)
      waitingRetries.delete(lane)
      organizations.get(lane.org_id)?.waiting.delete(lane)
    }

    const dropIfIdle = (lane: Lane): void => {
      if (lane.held === 0 && !lane.more && !lane.refilling && !lane.unsaved) drop(lane)
    }

    const askForMore = (lane: Lane): void => {
      if (lane.refilling || !lane.more) return
      lane.refilling = true
      lowLanes.add(lane)
      low.openUnsafe()
    }

    /** Starts one attempt of a lane; whether it did. Where it did not, what the lane waits for will bring it back. */
    const startOne = (lane: Lane): boolean => {
      const now = monotonicMillis(clock)
      const owned = shards.owned.get(lane.shard)
      // A lane that was let go may still be told of the end of its attempts.
      if (lanes.get(lane.key) !== lane || owned === undefined || !shards.mayStart(lane.shard, now))
        return false
      lane.health = at(lane.health, now)
      if (lane.active >= allowance(lane.health, lane.channel.policy.concurrency)) {
        if (lane.health._tag !== "Cooling") return false
        if (lanes.size > MAX_LANES && lane.active === 0 && !lane.unsaved) drop(lane)
        else wait(lane, lane.health.until, now)
        return false
      }
      const head = lane.items[0]
      if (head === undefined) {
        askForMore(lane)
        dropIfIdle(lane)
        return false
      }
      if (head.due > now) {
        wait(lane, head.due, now)
        return false
      }
      const item = lane.next(now, retries < options.retrySlots)
      if (item === undefined) {
        waitingRetries.add(lane)
        return false
      }
      const organization = organizationOf(lane)
      if (organization.running >= options.organizationSlots) {
        organization.waiting.add(lane)
        return false
      }
      lane.remove(item)
      lane.active++
      owned.open++
      organization.running++
      running++
      if (isRetry(item)) retries++
      sending.add(item.delivery_id)
      fork(attempt(lane, item, owned))
      if (lane.items.length < LANE_LOW) askForMore(lane)
      return true
    }

    const turn = (): void => {
      // What an attempt does before its first wait may call for a turn: the one at hand will come to it.
      if (turning) return
      turning = true
      for (const lane of ring) {
        if (running >= options.slots) break
        ring.delete(lane)
        // Added again it is met once more at the end of this same pass: the ring goes round.
        if (startOne(lane)) ring.add(lane)
      }
      turning = false
    }

    const turnTo = (lane: Lane): void => {
      ring.add(lane)
      turn()
    }

    /** The slots of an attempt come free. */
    const free = (lane: Lane, item: Item): void => {
      lane.active--
      running--
      sending.delete(item.delivery_id)
      if (isRetry(item)) {
        retries--
        let woken = 0
        for (const waiting of waitingRetries) {
          if (woken++ === WAKE_RETRIES && retries > 0) break
          waitingRetries.delete(waiting)
          ring.add(waiting)
        }
      }
      const organization = organizationOf(lane)
      organization.running--
      for (const waiting of organization.waiting) ring.add(waiting)
      organization.waiting.clear()
      if (organization.running === 0) organizations.delete(lane.org_id)
      ring.add(lane)
    }

    const judge = (lane: Lane, outcome: Outcome): void => {
      const before = lane.health
      const now = monotonicMillis(clock)
      const after: Health =
        outcome._tag === "Refused"
          ? before
          : outcome._tag === "Delivered"
            ? succeeded(before)
            : failed(before, lane.channel.policy.cooldown, now)
      if (after === before) return
      lane.health = after
      lane.unsaved = true
      unsaved.add(lane)
    }

    /** An item goes back as it was: nothing was sent. */
    const putBack = (lane: Lane, item: Item, owned: OwnedShard): Effect.Effect<void> =>
      Effect.sync(() => {
        owned.open--
        free(lane, item)
        admit(lane, { ...item, due: monotonicMillis(clock) + UNREADABLE_MILLIS })
        turn()
      })

    const send = Effect.fnUntraced(function* (
      lane: Lane,
      item: Item,
      owned: OwnedShard,
      sendingOf: Effect.Effect<Outcome>
    ) {
      // Reading may have taken long: what the lease allowed before it need not be allowed now.
      if (!shards.mayStart(lane.shard, monotonicMillis(clock))) return yield* putBack(lane, item, owned)
      const startedAt = clock.currentTimeMillisUnsafe()
      const before = monotonicMillis(clock)
      const outcome = yield* sendingOf.pipe(
        Effect.timeoutOrElse({
          duration: lane.channel.policy.deadlineMillis,
          orElse: () => Effect.succeed(timedOut)
        }),
        Effect.catchCauseIf(
          (cause) => !Cause.hasInterruptsOnly(cause),
          (cause) => Effect.as(Effect.logError("A delivery could not be sent", cause), broken)
        )
      )
      const durationMillis = Math.round(monotonicMillis(clock) - before)
      judge(lane, outcome)
      free(lane, item)
      turn()
      yield* Queue.offer(results, { lane, item, owned, outcome, startedAt, durationMillis })
    })

    /** Untraced: it runs for every attempt. */
    const attempt = (lane: Lane, item: Item, owned: OwnedShard): Effect.Effect<void> =>
      lane.channel.load(item).pipe(
        Effect.matchCauseEffect({
          onSuccess: (sendingOf) => send(lane, item, owned, sendingOf),
          onFailure: (cause) =>
            Cause.hasInterruptsOnly(cause)
              ? Effect.interrupt
              : Effect.andThen(
                  Effect.logWarning("A delivery could not be read", cause),
                  putBack(lane, item, owned)
                )
        })
      )

    /** Gives an item its place in a lane, if there is room. */
    const admit = (lane: Lane, item: Item): void => {
      const out = lane.insert(item, known.size > MAX_ITEMS ? 1 : LANE_ITEMS)
      if (out !== undefined) {
        known.delete(out.seq)
        lane.held--
      }
      ring.add(lane)
    }

    const laneOf = (row: QueueRow, item: Item, now: number): Lane | undefined => {
      const key = `${row.org_id}/${row.destination_id}`
      const found = lanes.get(key)
      if (found !== undefined) return found
      const channel = channels.get(row.channel)
      if (channel === undefined) return undefined
      const health = healthOf(row, now)
      if (lanes.size >= MAX_LANES && at(health, now)._tag === "Cooling") return undefined
      const lane = new Lane(key, channel, item, health)
      lanes.set(key, lane)
      return lane
    }

    /** The lane that took a row in; none where it is known, finished, or not ours. */
    const take = (row: QueueRow, now: number): Lane | undefined => {
      if (known.has(row.seq) || !shards.owned.has(row.shard) || reads.isStale(row.seq, row.attempt))
        return undefined
      const item = itemOf(row, now)
      const lane = laneOf(row, item, now)
      if (lane === undefined) return undefined
      known.add(item.seq)
      lane.held++
      admit(lane, item)
      return lane
    }

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
          if (lane.health._tag !== "Cooling") askForMore(lane)
        }
        turn()
      },
      refilled: (batch, now) => {
        for (const [lane, { complete, rows }] of batch) {
          lane.refilling = false
          if (lanes.get(lane.key) !== lane) continue
          for (const row of rows) take(row, now)
          if (!complete) lane.more = true
          ring.add(lane)
        }
        turn()
      },
      reading: reads.reading,
      results,
      written: (list) => {
        for (const { due, ended } of list) {
          const { item, lane, owned } = ended
          owned.open--
          reads.finished(item.seq, item.attempt)
          if (due === null || lanes.get(lane.key) !== lane) {
            known.delete(item.seq)
            lane.held--
            dropIfIdle(lane)
          } else {
            admit(lane, { ...item, attempt: item.attempt + 1, due })
          }
        }
        turn()
      },
      takeUnsaved: () => {
        const list = [...unsaved]
        unsaved.clear()
        for (const lane of list) lane.unsaved = false
        return list
      },
      takeLow: (limit) => {
        const list: Array<Lane> = []
        for (const lane of lowLanes) {
          if (list.length === limit) break
          lowLanes.delete(lane)
          // Rows that come from now on and find no room set it again.
          lane.more = false
          list.push(lane)
        }
        if (lowLanes.size === 0) low.closeUnsafe()
        return list
      },
      low,
      kick: () => {
        for (const lane of lanes.values()) ring.add(lane)
        turn()
      },
      forget: (gone) => {
        if (gone.length === 0) return
        const set = new Set(gone)
        for (const lane of lanes.values()) if (set.has(lane.shard)) drop(lane)
      },
      isSending: (delivery_id) => sending.has(delivery_id),
      open: () => {
        let open = 0
        for (const owned of shards.owned.values()) open += owned.open
        return open
      }
    }
  })

const timedOut: Outcome = { _tag: "Retry", error: "timed out", status: null, retryAfter: null }
const broken: Outcome = { _tag: "Retry", error: "internal error", status: null, retryAfter: null }
