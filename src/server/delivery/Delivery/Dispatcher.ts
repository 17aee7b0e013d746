import { Clock, Duration, Effect, FiberSet, Latch, Queue, type Scope } from "effect"
import type { SqlError } from "effect/sql"
import * as Cooldown from "../../../domain/delivery/Cooldown.ts"
import { type AttemptOutcome, destinationVerdict } from "../../../domain/delivery/DeliveryState.ts"
import type { OrgId } from "../../../domain/Ids.ts"
import { type AttemptResult, makeAttempt } from "./Attempt.ts"
import { makeTimerWheel } from "../../concurrency/TimerWheel.ts"
import type { AttemptHeld, Channel } from "../Channel.ts"
import type { QueuedDelivery, QueueRow } from "./QueuedDelivery.ts"
import { type Lane, LANE_LOW_WATERMARK } from "./Lane.ts"
import { makeLanes } from "./Lanes.ts"
import { nextStep } from "./LaneState.ts"
import { makeReadTracker, type ReadTracker } from "./ReadTracker.ts"
import { type Shards } from "./Shards.ts"
import { monotonicMillis } from "../../concurrency/monotonicMillis.ts"
import { deliveriesHeld } from "../../observability/metricDefinitions.ts"
import { makeReceiverRates } from "./ReceiverRates.ts"
import { makeSlots, type SlotOptions } from "./Slots.ts"

/** Results waiting to be recorded; beyond this, each result waits for space in a fiber of its own. */
const MAX_RESULTS = 4_096

/** Results that are a batch worth recording at once; fewer wait a moment for others. */
export const FULL_BATCH = 32

/** How long a delivery waits after its payload or destination could not be loaded, in milliseconds. */
const RELOAD_MILLIS = 1_000

/** The outcome of a delivery that expired in the queue. */
const expired: AttemptOutcome = { _tag: "Refused", error: "expired in queue before it could be sent" }

/**
 * A recorded attempt. `retryAt` is on the monotonic clock; null if the delivery is final or another replica owns it
 * now.
 */
export interface RecordedAttempt {
  readonly result: AttemptResult
  readonly retryAt: number | null
}

/** The lanes of the owned shards, and the attempts in flight. */
export interface Dispatcher {
  /**
   * Accepts rows that were read at `now`, in milliseconds on the clock of due times, by a read that began at
   * `readBeganAt`, on the process's monotonic clock. Rows already in memory change nothing.
   */
  readonly offer: (rows: ReadonlyArray<QueueRow>, now: number, readBeganAt: number) => void
  /**
   * Accepts the first row of each lane; more rows may follow in the database. `mayHideRows`: also behind a row that is in memory already,
   * because the tail can have missed them. Returns whether the read must be repeated: it found a row that has been recorded meanwhile.
   */
  readonly offerHeads: (
    rows: ReadonlyArray<QueueRow>,
    now: number,
    readBeganAt: number,
    mayHideRows: boolean
  ) => boolean
  /** Accepts the rows read for lanes that ran low. `complete`: the rows are the lane's entire queue. */
  readonly refill: (
    lanes: ReadonlyMap<Lane, { readonly rows: ReadonlyArray<QueueRow>; readonly complete: boolean }>,
    now: number
  ) => void
  /** Tracks a read of the queue; every read goes through this or `beginRead`. */
  readonly trackRead: ReadTracker["track"]
  readonly beginRead: ReadTracker["begin"]
  /** Results for the finisher to record. */
  readonly results: Queue.Dequeue<AttemptResult>
  /** Open while `FULL_BATCH` results or more wait. */
  readonly hasFullBatch: Latch.Latch
  /** Takes up to `limit` results, and waits for the first. */
  readonly takeResults: (limit: number) => Effect.Effect<ReadonlyArray<AttemptResult>>
  readonly acknowledge: (list: ReadonlyArray<RecordedAttempt>) => void
  /**
   * Marks a result that cannot be recorded: this replica does not send the delivery again, and the shard is no longer
   * kept for it.
   */
  readonly abandon: (result: AttemptResult) => void
  /**
   * Returns up to `limit` lanes whose health differs from the stored one, with their health. Their shards stay here
   * until it is stored.
   */
  readonly unsavedHealth: (limit: number) => ReadonlyMap<Lane, Cooldown.Health>
  /** Open while lanes with unsaved health exist. */
  readonly hasUnsavedHealth: Latch.Latch
  /** Confirms that this health was stored. */
  readonly acknowledgeHealth: (stored: ReadonlyMap<Lane, Cooldown.Health>) => void
  /** Takes up to `limit` lanes that ran low since the last call. */
  readonly takeLowLanes: (limit: number) => ReadonlyArray<Lane>
  /** Open while lanes are low. */
  readonly hasLowLanes: Latch.Latch
  /** Checks every lane again, after leases were renewed or shards gained. */
  readonly wakeAll: () => void
  /** Ends the cooldown of a destination whose lane is in memory: its next delivery is sent at once, as the probe. False: it is not. */
  readonly endCooldown: (org_id: string, destination_id: string) => boolean
  /** Ends the cooldown of a destination whose lane is in memory, and makes the waiting deliveries due, as their stored rows are. */
  readonly makeDue: (org_id: string, destination_id: string) => void
  /** Drops the lanes whose shards were lost, also if the shard has been regained since. */
  readonly dropLostLanes: () => void
  /** Whether this replica has an attempt at this delivery in flight. */
  readonly isSending: (delivery_id: string) => boolean
  /**
   * Takes a request that is not a delivery from the rates of a channel's receiver or network. Returns false if one of them
   * does not allow it now.
   */
  readonly tryTakeRequest: (
    channel: string,
    org_id: OrgId,
    by: "receiver" | "network",
    name: string
  ) => boolean
  /** Attempts in flight, by channel. */
  readonly attemptsInFlight: () => ReadonlyMap<string, number>
  /** How much is in memory: lanes, and deliveries that are waiting, in flight or not yet recorded. */
  readonly inMemory: () => { readonly lanes: number; readonly deliveries: number }
}

/**
 * Selects the delivery to send next. The dispatcher keeps a round-robin ring of ready lanes, which may have a delivery
 * to send. It starts one attempt of a lane at a time, within the concurrency limits (total, retries, per organization,
 * per channel, per destination). So a destination with a long queue or a hanging peer does not block the others behind
 * it (head-of-line blocking).
 *
 * ```
 *            dispatch, a slot is free
 *   ready ───────────────────────────────> attempt in flight ── finished ──> ready
 *     │ ^                                        │
 *     │ │                                        └── result ──> Finisher ── acknowledge ──> ready (retry) or done
 *     │ ├── slot released ── waits for a slot (`Slots`)
 *     │ └── its turn ── held back by the rates of its receiver's host or network (`ReceiverRates`)
 *     │
 *     └── nothing due: parked until its time, or dropped from memory; the timer or the sweep makes it ready again
 * ```
 *
 * Due times, cooldowns and expiry are on `dueClock`; leases and time-outs are on the process's clock; the times of the log are `storeMillis`.
 */
export const makeDispatcher = (
  channels: ReadonlyMap<string, Channel>,
  shards: Shards,
  options: SlotOptions,
  horizonMillis: number,
  { dueClock, storeMillis }: { readonly dueClock: Clock.Clock; readonly storeMillis: () => number }
): Effect.Effect<Dispatcher, never, Scope.Scope> =>
  Effect.gen(function* () {
    const clock = yield* Clock.Clock
    const context = yield* Effect.context<never>()
    const fork = yield* FiberSet.makeRuntime<never, unknown, SqlError.SqlError | AttemptHeld>()
    const results = yield* Queue.bounded<AttemptResult>(MAX_RESULTS)
    const fullBatch = Latch.makeUnsafe(false)
    const reads = makeReadTracker()
    const slots = makeSlots(options)
    const readyLanes = new Set<Lane>()
    const sending = new Set<string>()
    let dispatching = false

    const lanes = makeLanes(channels, shards, reads, horizonMillis, (lane) => {
      lane.timer?.fiber.interruptUnsafe()
      lane.timer = undefined
      readyLanes.delete(lane)
      slots.cancelWaits(lane)
    })

    const wakeAt = (lane: Lane, until: number): void => {
      if (lane.timer !== undefined) {
        if (lane.timer.at <= until) return
        lane.timer.fiber.interruptUnsafe()
      }
      // A time that has passed meanwhile is not waited for: a clock that a test moves would stand still by then.
      const pause = Effect.suspend(() =>
        dueClock.sleep(Duration.millis(Math.max(0, Math.ceil(until - monotonicMillis(dueClock)))))
      )
      const wake = Effect.flatMap(pause, () =>
        Effect.sync(() => {
          lane.timer = undefined
          readyLanes.add(lane)
          dispatch()
        })
      )
      lane.timer = { at: until, fiber: fork(wake) }
    }

    /**
     * Parks a lane that has nothing to do before `until`. A lane whose time is far off is dropped; the sweep finds it
     * again.
     */
    const parkUntil = (lane: Lane, until: number, now: number): void => {
      if (!lanes.dropIfIdleUntil(lane, until, now)) wakeAt(lane, Math.min(until, now + horizonMillis))
    }

    const publish = (result: AttemptResult): void => {
      if (!Queue.offerUnsafe(results, result)) fork(Queue.offer(results, result))
      if (Queue.sizeUnsafe(results) >= FULL_BATCH) fullBatch.openUnsafe()
    }

    /** Takes a delivery out of its lane. Its shard stays here until the result is recorded. */
    const checkOut = (lane: Lane, delivery: QueuedDelivery): void => {
      lane.remove(delivery)
      lane.owned.unfinished++
      if (lane.waiting.length < LANE_LOW_WATERMARK) lanes.requestRefill(lane)
    }

    /** Fails a delivery without an attempt. This takes no slot and does not count for or against its destination. */
    const expire = (lane: Lane, delivery: QueuedDelivery): void => {
      checkOut(lane, delivery)
      const startedAt = storeMillis()
      publish({ lane, delivery, outcome: expired, startedAt, durationMillis: 0 })
    }

    /**
     * Starts one attempt of a lane, or expires an overdue delivery. Returns whether it did; if not, the event that the
     * lane waits for makes it ready again.
     */
    const startNext = (lane: Lane): boolean => {
      const now = monotonicMillis(dueClock)
      const leaseNow = dueClock === clock ? now : monotonicMillis(clock)
      // Attempts of a dropped lane may still be finishing, which makes the lane ready.
      if (!lanes.has(lane) || !shards.canStart(lane.owned, leaseNow)) return false
      lane.health = Cooldown.advance(lane.health, now)
      // The probe is the delivery that is due first, which the refill may be reading.
      if (lane.health._tag === "Probing" && lane.isRefilling) return false
      const step = nextStep(lane, slots.hasFreeRetrySlot(), now)
      switch (step._tag) {
        case "Start":
          return start(lane, step.delivery)
        case "Expire":
          expire(lane, step.delivery)
          return true
        case "Park":
          parkUntil(lane, step.until, now)
          return false
        case "Wait":
          wakeAt(lane, step.until)
          return false
        case "AwaitRetrySlot":
          slots.awaitRetrySlot(lane)
          return false
        case "Empty":
          lanes.requestRefill(lane)
          lanes.dropIfIdle(lane)
          return false
        case "AwaitAttempt":
          return false
      }
    }

    /** Starts an attempt if the slots that it needs are free. */
    const start = (lane: Lane, delivery: QueuedDelivery): boolean => {
      if (!slots.acquire(lane, delivery)) return false
      checkOut(lane, delivery)
      lane.apply({ _tag: "Started" })
      sending.add(delivery.delivery_id)
      attempt(lane, delivery)
      return true
    }

    const dispatch = (): void => {
      // An attempt may call `dispatch` synchronously before its first wait; the pass that is running covers it.
      if (dispatching) return
      dispatching = true
      try {
        for (const lane of readyLanes) {
          if (!slots.hasFreeSlot()) break
          readyLanes.delete(lane)
          // A lane added again during the pass is visited at the end of the same pass, since a Set iterates in
          // insertion order.
          if (startNext(lane)) readyLanes.add(lane)
        }
      } finally {
        dispatching = false
      }
    }

    const insert = (lane: Lane, delivery: QueuedDelivery): void => {
      lanes.insert(lane, delivery)
      readyLanes.add(lane)
    }

    const accept = (row: QueueRow, now: number, readBeganAt: number): Lane | undefined => {
      const lane = lanes.accept(row, now, readBeganAt)
      if (lane !== undefined) readyLanes.add(lane)
      return lane
    }

    /** Ends an attempt and releases its slots. */
    const endAttempt = (lane: Lane, delivery: QueuedDelivery, end: "Finished" | "Returned"): void => {
      lane.apply({ _tag: end })
      sending.delete(delivery.delivery_id)
      for (const waiting of slots.release(lane, delivery)) readyLanes.add(waiting)
      readyLanes.add(lane)
    }

    const updateHealth = (lane: Lane, outcome: AttemptOutcome): void => {
      const verdict = destinationVerdict(outcome)
      // The current owner of a lost shard decides on the destination's health: it may have recorded failures that this
      // replica never saw.
      if (verdict === "ignored" || !lanes.has(lane)) return
      if (verdict === "failure" && "error" in outcome) lane.lastError = outcome.error
      const after =
        verdict === "success"
          ? Cooldown.recordSuccess(lane.health)
          : Cooldown.recordFailure(lane.health, lane.channel.policy.cooldown, monotonicMillis(dueClock))
      if (after !== lane.health) lanes.setHealth(lane, after)
    }

    const ratesBy = (name: "receiverRates" | "networkRates") =>
      new Map(
        [...channels.values()].flatMap(({ name: channel, policy: { [name]: rates } }) =>
          rates === undefined ? [] : [[channel, makeReceiverRates(rates)] as const]
        )
      )
    const receiverRates = ratesBy("receiverRates")
    const networkRates = ratesBy("networkRates")

    /** Returns an unsent delivery to its lane. */
    const returnToLane = (lane: Lane, delivery: QueuedDelivery, dueAt = delivery.dueAt): void => {
      lane.owned.unfinished--
      endAttempt(lane, delivery, "Returned")
      if (lanes.has(lane)) insert(lane, { ...delivery, dueAt })
      else lanes.unload(lane, delivery)
      dispatch()
    }

    /** Returns a delivery that a rate limit does not allow now, to the front of its lane. */
    const putBack = (lane: Lane, delivery: QueuedDelivery): void => {
      deliveriesHeld(lane.channel.name).updateUnsafe(1, context)
      returnToLane(lane, delivery)
    }

    /** Whether the receiver's rate allows a loaded attempt now; if not, it returns to its lane, which is held back. */
    const admit = (lane: Lane, delivery: QueuedDelivery): boolean => {
      const receiver = lane.channel.receiverOf?.(delivery)
      const rates = receiverRates.get(lane.channel.name)
      if (receiver === undefined || rates === undefined) return true
      const now = monotonicMillis(dueClock)
      const before = lane.state.hold
      if (before === undefined || before.until <= now) {
        const hold = rates.reserve(lane.org_id, receiver, now, before)
        lane.apply({ _tag: "ReceiverReserved", hold })
        if (hold === undefined) return true
      }
      putBack(lane, delivery)
      return false
    }

    /**
     * Whether the rate limit of a network allows an attempt now. If not, the lane gets a hold, which reserves its next
     * attempt.
     */
    const admitNetwork = (lane: Lane, network: string): boolean => {
      const rates = networkRates.get(lane.channel.name)
      if (rates === undefined) return true
      const now = monotonicMillis(dueClock)
      if (lane.state.networkHeldUntil > now) return false
      const hold = rates.reserve(lane.org_id, network, now, lane.state.networkHolds.get(network))
      lane.apply({ _tag: "NetworkReserved", network, hold })
      return hold === undefined
    }

    const attempt = makeAttempt(clock, storeMillis, shards, yield* makeTimerWheel, fork, {
      admit,
      admitNetwork,
      held: (lane, delivery) => {
        lane.apply({ _tag: "NetworkHeld", now: monotonicMillis(dueClock) })
        putBack(lane, delivery)
      },
      loaded: (lane) => lane.apply({ _tag: "Loaded" }),
      started: (lane) => {
        if (!lane.state.isThrottled) return
        readyLanes.add(lane)
        dispatch()
      },
      finished: (result) => {
        updateHealth(result.lane, result.outcome)
        endAttempt(result.lane, result.delivery, "Finished")
        dispatch()
        publish(result)
      },
      requeue: (lane, delivery) => returnToLane(lane, delivery, monotonicMillis(dueClock) + RELOAD_MILLIS)
    })

    /** The lane of a destination, if this replica owns it, without a cooldown. */
    const endCooldown = (org_id: string, destination_id: string): Lane | undefined => {
      const lane = lanes.find(org_id, destination_id)
      if (lane === undefined || !lanes.has(lane)) return undefined
      const health = Cooldown.endCooldown(lane.health)
      if (health !== lane.health) {
        lanes.setHealth(lane, health)
        readyLanes.add(lane)
        dispatch()
      }
      return lane
    }

    return {
      offer: (rows, now, readBeganAt) => {
        for (const row of rows) accept(row, now, readBeganAt)
        dispatch()
      },
      offerHeads: (rows, now, readBeganAt, mayHideRows) => {
        let hidesRows = false
        for (const row of rows) {
          const lane =
            accept(row, now, readBeganAt) ??
            (mayHideRows ? lanes.find(row.org_id, row.destination_id) : undefined)
          if (lane === undefined) {
            hidesRows ||= mayHideRows && reads.isStale(row.seq, row.attempt)
            continue
          }
          lane.hasMore = true
          // A lane in cooldown needs only its first row, so a backlog of thousands of such lanes stays in the database.
          if (lane.health._tag !== "CoolingDown") lanes.requestRefill(lane)
        }
        dispatch()
        return hidesRows
      },
      refill: (batch, now) => {
        for (const [lane, { complete, rows }] of batch) {
          lane.isRefilling = false
          // Its rows were read under the lane's ownership, which is current.
          if (!lanes.has(lane)) continue
          for (const row of rows) accept(row, now, lane.owned.claimedAt)
          if (!complete) lane.hasMore = true
          readyLanes.add(lane)
        }
        dispatch()
      },
      trackRead: reads.track,
      beginRead: reads.begin,
      results,
      hasFullBatch: fullBatch,
      takeResults: (limit) =>
        Effect.map(Queue.takeBetween(results, 1, limit), (taken) => {
          if (Queue.sizeUnsafe(results) < FULL_BATCH) fullBatch.closeUnsafe()
          return taken
        }),
      acknowledge: (list) => {
        for (const { retryAt, result } of list) {
          const { delivery, lane } = result
          lane.owned.unfinished--
          reads.recorded(delivery.seq, delivery.attempt)
          if (retryAt === null || !lanes.has(lane)) lanes.unload(lane, delivery)
          else insert(lane, { ...delivery, attempt: delivery.attempt + 1, dueAt: retryAt })
        }
        dispatch()
      },
      abandon: ({ delivery, lane }) => {
        lane.owned.unfinished--
        lanes.abandon(lane, delivery)
      },
      unsavedHealth: lanes.unsavedHealth,
      hasUnsavedHealth: lanes.hasUnsavedHealth,
      acknowledgeHealth: (stored) => {
        // Lanes that stayed in memory only until their health was stored may be parked now.
        for (const lane of lanes.acknowledgeHealth(stored)) readyLanes.add(lane)
        dispatch()
      },
      takeLowLanes: lanes.takeLow,
      hasLowLanes: lanes.hasLow,
      wakeAll: () => {
        for (const lane of lanes.all()) readyLanes.add(lane)
        dispatch()
      },
      endCooldown: (org_id, destination_id) => endCooldown(org_id, destination_id) !== undefined,
      makeDue: (org_id, destination_id) => {
        const lane = endCooldown(org_id, destination_id)
        if (lane === undefined) return
        lane.makeDue(monotonicMillis(dueClock))
        // Rows that are not in memory may be due before some that are.
        lane.hasMore = true
        lanes.requestRefill(lane)
        readyLanes.add(lane)
        dispatch()
      },
      dropLostLanes: lanes.dropLost,
      isSending: (delivery_id) => sending.has(delivery_id),
      tryTakeRequest: (channel, org_id, by, name) => {
        const rates = (by === "receiver" ? receiverRates : networkRates).get(channel)
        return rates === undefined || rates.tryTake(org_id, name, monotonicMillis(dueClock))
      },
      attemptsInFlight: slots.inFlight,
      inMemory: lanes.size
    }
  })
