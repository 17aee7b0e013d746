/* oxlint-disable typescript/no-this-alias -- statements are generators, which have no arrow form */
import type { QueueRow } from "../../../src/server/delivery/Delivery/QueuedDelivery.ts"
import type { HeadRow, SweepPosition, TailRange } from "../../../src/server/delivery/Delivery/QueueReads.ts"
import { SWEEP_LANES } from "../../../src/server/delivery/Delivery/QueueReads.ts"
import type { InsertedDelivery, PreparedDelivery } from "../../../src/server/delivery/Delivery/QueueWrites.ts"
import { shardOf, SHARDS } from "../../../src/server/delivery/Delivery/shardOf.ts"
import type { RecordedResults } from "../../../src/server/delivery/Delivery/writeResults.ts"
import type {
  ClaimedShard,
  Heartbeat,
  HeartbeatResult
} from "../../../src/server/delivery/Delivery/ShardStore.ts"
import { type Statement, type Store, Table, type Transaction, type Wait } from "../core/Store.ts"

/** A row of `delivery_queue`. Times are milliseconds since the Unix epoch. */
export interface QueueEntry {
  readonly shard: number
  readonly seq: number
  readonly org_id: PreparedDelivery["org_id"]
  readonly destination_id: string
  readonly delivery_id: string
  readonly channel: string
  readonly event_id: PreparedDelivery["event_id"]
  readonly due_at: number
  readonly expires_at: number | null
  readonly attempt: number
  readonly first_attempt: number
}

/** A row of `deliveries`. */
export interface LogEntry {
  readonly org_id: PreparedDelivery["org_id"]
  readonly destination_id: string
  readonly delivery_id: string
  readonly channel: string
  readonly event_id: PreparedDelivery["event_id"]
  readonly status: "pending" | "delivered" | "partial" | "failed"
  readonly attempts: number
  readonly replays: number
  readonly status_code: number | null
  readonly last_error: string | null
}

/** A row of `delivery_attempts`. */
export interface AttemptEntry {
  readonly delivery_id: string
  readonly attempt: number
  readonly status: number | null
}

/** A row of `delivery_destinations`. */
export interface HealthEntry {
  readonly consecutive_failures: number
  readonly cooldown_round: number
  readonly cooldown_until: number | null
}

/** A row of `delivery_shards`. */
export interface ShardEntry {
  readonly shard: number
  readonly owner: string | null
  readonly epoch: number
}

/** A row of `delivery_leases` or `delivery_owners`. */
interface LeaseEntry {
  readonly lease_until: number
}

/** A result to record. */
export interface RecordedResult {
  readonly shard: number
  readonly seq: number
  readonly epoch: number
  readonly attempt: number
  /** Whether something was sent. */
  readonly sent: boolean
  readonly status_after: LogEntry["status"]
  readonly delayMillis: number
  readonly error: string | null
  readonly status: number | null
}

/** A result that was recorded. */
export interface RecordedAttempt extends Pick<RecordedResult, "seq" | "sent" | "status_after" | "status"> {
  readonly delivery_id: string
  /** The number of the attempt, from 1. */
  readonly attempt: number
}

/** Health to store. */
export interface StoredHealth {
  readonly shard: number
  readonly epoch: number
  readonly org_id: string
  readonly destination_id: string
  readonly failures: number
  readonly round: number
  /** Time until the cooldown ends, in milliseconds; null if there is none. */
  readonly cooldownMillis: number | null
}

/** As in QueueWrites.ts. */
const HIGH_WATER_MARGIN = 256
const UNSEEN_TRANSACTIONS = 8

/** As in ShardStore.ts. */
const CLOCK_STEP_MILLIS = 60_000

/** Identifies a destination in `delivery_destinations`. */
const keyOf = (row: { readonly org_id: string; readonly destination_id: string }): string =>
  `${row.org_id}/${row.destination_id}`

/** Code units, as the collation C for ASCII. */
const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

/** The tables of the delivery engine in the model of the store, and its statements, which do what the SQL does. */
export class DeliveryModel {
  readonly store: Store
  readonly queue = new Table<QueueEntry>("delivery_queue", (row) => String(row.shard))
  readonly log = new Table<LogEntry>("deliveries")
  readonly attempts = new Table<AttemptEntry>("delivery_attempts")
  readonly health = new Table<HealthEntry>("delivery_destinations")
  readonly shards = new Table<ShardEntry>("delivery_shards")
  readonly leases = new Table<LeaseEntry>("delivery_leases")
  readonly owners = new Table<LeaseEntry>("delivery_owners")
  /** What the hook of a channel writes, in the transaction that finishes a delivery. */
  readonly completions = new Table<{ readonly count: number }>("completions")
  /** Sees changes when they are committed. */
  observer = {
    queued: (_row: QueueEntry, _insertedAt: number): void => {},
    /** `snapshotAt`: when the statement took its snapshot, on the clock of the simulation. */
    recorded: (_list: ReadonlyArray<RecordedAttempt>, _snapshotAt: number): void => {},
    healthSaved: (_health: StoredHealth, _snapshotAt: number): void => {},
    claimed: (_before: ShardEntry, _after: ShardEntry): void => {},
    released: (_before: ShardEntry): void => {}
  }

  constructor(store: Store) {
    this.store = store
    const transaction = store.begin()
    for (let shard = 0; shard < SHARDS; shard++) {
      transaction.write(this.shards, String(shard), { shard, owner: null, epoch: 0 })
    }
    transaction.commit()
  }

  /** The committed fencing token of a shard. */
  epochOf(shard: number): number {
    return this.shards.committedRow(String(shard))?.epoch ?? 0
  }

  /** The fencing token of a shard, as of the statement's beginning. */
  #epoch(transaction: Transaction, shard: number): number {
    return transaction.get(this.shards, String(shard))?.epoch ?? 0
  }

  /** Inserts without a lock; deliveries for a destination near its limit are left out. */
  insertUnlocked(list: ReadonlyArray<PreparedDelivery>): Statement<ReadonlyArray<InsertedDelivery>> {
    const model = this
    return function* (transaction) {
      const counts = new Map<string, { readonly waiting: number; readonly given: number }>()
      for (const [key, given] of Map.groupBy(list, keyOf)) {
        const [first] = given
        if (first === undefined) continue
        counts.set(key, { waiting: model.#waiting(transaction, first), given: given.length })
      }
      yield PAUSE
      return list.map((one): InsertedDelivery => {
        const { given, waiting } = counts.get(keyOf(one)) ?? { given: 0, waiting: 0 }
        const highWater = Math.max(0, one.queueLimit - HIGH_WATER_MARGIN - UNSEEN_TRANSACTIONS * given)
        const isFull = waiting >= one.queueLimit
        const isNearLimit = !isFull && waiting >= highWater
        const health = transaction.get(model.health, keyOf(one))
        if (!isNearLimit) model.#insertLog(transaction, one, isFull)
        return {
          delivery_id: one.delivery_id,
          is_full: isFull,
          waiting,
          seq: isFull || isNearLimit ? null : model.#insertRow(transaction, one),
          consecutive_failures: health?.consecutive_failures ?? null,
          cooldown_round: health?.cooldown_round ?? null,
          cooldown_ms:
            health === undefined || health.cooldown_until === null
              ? null
              : health.cooldown_until - transaction.statementAt
        }
      })
    }
  }

  /** Inserts deliveries of one destination under its lock; those beyond its limit fail. */
  insertUnderLock(list: ReadonlyArray<PreparedDelivery>): Statement<number> {
    const model = this
    return function* (transaction) {
      const [first] = list
      if (first === undefined) return 0
      yield* transaction.advisoryLock(keyOf(first))
      transaction.beginStatement()
      const capacity = first.queueLimit - model.#waiting(transaction, first)
      yield PAUSE
      list.forEach((one, index) => {
        model.#insertLog(transaction, one, index >= capacity)
        if (index < capacity) model.#insertRow(transaction, one)
      })
      return Math.max(0, list.length - Math.max(0, capacity))
    }
  }

  tail(ranges: ReadonlyArray<TailRange>, limit: number): Statement<ReadonlyArray<QueueRow>> {
    const model = this
    return function* (transaction) {
      const rows = ranges.flatMap(({ reread, shard, watermark }) => {
        const after = model
          .#rows(transaction, shard)
          .filter(({ seq }) => seq > reread)
          .toSorted((a, b) => a.seq - b.seq)
        const again = after.filter(({ seq }) => seq <= watermark)
        return after.slice(0, again.length + limit).map((row) => model.#queueRow(transaction, row))
      })
      yield PAUSE
      return rows
    }
  }

  nonEmpty(shards: ReadonlyArray<number>): Statement<ReadonlyArray<{ readonly shard: number }>> {
    const model = this
    return function* (transaction) {
      const found = shards.filter((shard) => model.#rows(transaction, shard).length > 0)
      yield PAUSE
      return found.map((shard) => ({ shard }))
    }
  }

  heads(positions: ReadonlyArray<SweepPosition>, horizonMillis: number): Statement<ReadonlyArray<HeadRow>> {
    const model = this
    return function* (transaction) {
      const pages = positions
        .toSorted((a, b) => a.shard - b.shard)
        .map((after) =>
          [...Map.groupBy(model.#rows(transaction, after.shard), keyOf).values()]
            .map((rows) => rows.toSorted(byDueTime))
            .flatMap(([first]) => (first === undefined ? [] : [first]))
            .filter((row) => byLane(row, after) > 0)
            .toSorted(byLane)
            .slice(0, SWEEP_LANES)
        )
      const now = transaction.statementAt
      const untilOf = (row: QueueEntry) => transaction.get(model.health, keyOf(row))?.cooldown_until ?? null
      const rows = pages.flatMap((lanes) =>
        lanes.flatMap((row): ReadonlyArray<HeadRow> => {
          const isSoon = Math.max(row.due_at, untilOf(row) ?? -Infinity) <= now + horizonMillis
          const isEnd = lanes.length === SWEEP_LANES && lanes.at(-1) === row
          const ofChannel = pages.flat().filter((one) => one.channel === row.channel)
          if (!isSoon && !isEnd && ofChannel.at(-1) !== row) return []
          const coolingDown = ofChannel.filter((one) => (untilOf(one) ?? -Infinity) > now)
          return [
            {
              ...model.#queueRow(transaction, row),
              lanes: lanes.length,
              cooling_down: coolingDown.length
            }
          ]
        })
      )
      yield PAUSE
      return rows
    }
  }

  refill(
    lanes: ReadonlyArray<{
      readonly shard: number
      readonly org_id: string
      readonly destination_id: string
    }>,
    limit: number
  ): Statement<ReadonlyArray<QueueRow>> {
    const model = this
    return function* (transaction) {
      const rows = lanes.flatMap((lane) =>
        model
          .#rows(transaction, lane.shard)
          .filter((row) => keyOf(row) === keyOf(lane))
          .toSorted(byDueTime)
          .slice(0, limit)
          .map((row) => model.#queueRow(transaction, row))
      )
      yield PAUSE
      return rows
    }
  }

  /** Rows that another transaction has locked, or has changed since the snapshot, are left to another statement. */
  recordResults(batch: ReadonlyArray<RecordedResult>): Statement<RecordedResults> {
    const model = this
    return function* (transaction) {
      const candidates = batch.filter(({ attempt, epoch, seq, shard }) => {
        const row = transaction.get(model.queue, String(seq))
        return row?.attempt === attempt && model.#epoch(transaction, shard) === epoch
      })
      yield PAUSE
      const written = new Set<number>()
      const locked = new Set<number>()
      const recorded: Array<RecordedAttempt> = []
      // A hook's statement takes another one.
      const { snapshotAt } = transaction
      transaction.onCommit(() => model.observer.recorded(recorded, snapshotAt))
      for (const one of candidates) {
        const row = transaction.tryLock(model.queue, String(one.seq))
        if (row === "locked" || row?.attempt !== one.attempt) {
          locked.add(one.seq)
          continue
        }
        written.add(one.seq)
        const { sent, seq, status, status_after } = one
        recorded.push({
          seq,
          sent,
          status,
          status_after,
          delivery_id: row.delivery_id,
          attempt: row.attempt + 1
        })
        const isRetried = one.status_after === "pending"
        transaction.write(
          model.queue,
          String(one.seq),
          isRetried
            ? { ...row, attempt: row.attempt + 1, due_at: transaction.statementAt + one.delayMillis }
            : undefined
        )
        if (one.sent) {
          const attempt = row.attempt + 1
          const key = `${row.delivery_id}/${attempt}/${model.store.nextval("attempts")}`
          transaction.write(model.attempts, key, {
            delivery_id: row.delivery_id,
            attempt,
            status: one.status
          })
        }
        const entry = yield* transaction.lock(model.log, row.delivery_id)
        if (entry === undefined) continue
        transaction.write(model.log, row.delivery_id, {
          ...entry,
          status: one.status_after,
          attempts: entry.attempts + (one.sent ? 1 : 0),
          status_code: one.sent ? one.status : entry.status_code,
          last_error: one.error
        })
      }
      yield PAUSE
      return { written, locked }
    }
  }

  /** Counts deliveries that were finished. */
  complete(ids: ReadonlyArray<string>): Statement<void> {
    const model = this
    return function* (transaction) {
      for (const id of ids) {
        const row = yield* transaction.lock(model.completions, id)
        transaction.write(model.completions, id, { count: (row?.count ?? 0) + 1 })
      }
      yield PAUSE
    }
  }

  /** Returns the keys of the destinations whose row is locked and was not written. */
  saveHealth(list: ReadonlyArray<StoredHealth>): Statement<ReadonlySet<string>> {
    const model = this
    return function* (transaction) {
      const given = list.filter(({ epoch, shard }) => model.#epoch(transaction, shard) === epoch)
      const existing = new Set(
        given.map(keyOf).filter((key) => transaction.get(model.health, key) !== undefined)
      )
      yield PAUSE
      const locked = new Set<string>()
      for (const one of given) {
        const key = keyOf(one)
        const entry: HealthEntry = {
          consecutive_failures: one.failures,
          cooldown_round: one.round,
          cooldown_until: one.cooldownMillis === null ? null : transaction.statementAt + one.cooldownMillis
        }
        if (existing.has(key)) {
          const row = transaction.tryLock(model.health, key)
          if (row === undefined || row === "locked") locked.add(key)
          else {
            transaction.write(model.health, key, entry)
            transaction.onCommit(() => model.observer.healthSaved(one, transaction.snapshotAt))
          }
        } else {
          yield* transaction.lock(model.health, key)
          transaction.write(model.health, key, entry)
        }
      }
      yield PAUSE
      return locked
    }
  }

  heartbeat(
    owner: string,
    { draining, heartbeatTimeoutMillis, leaseMillis }: Heartbeat
  ): Statement<HeartbeatResult> {
    const model = this
    return function* (transaction) {
      transaction.isAsynchronous = true
      const now = transaction.startedAt
      const lease_until = now + leaseMillis
      const latest = lease_until + CLOCK_STEP_MILLIS
      const live = [...transaction.scan(model.owners)]
        .filter(
          ([name, row]) =>
            name !== owner &&
            row.lease_until > now + Math.max(0, leaseMillis - heartbeatTimeoutMillis) &&
            row.lease_until <= latest
        )
        .map(([name]) => name)
      const isExpired = (row: LeaseEntry) => row.lease_until < now || row.lease_until > latest
      const expired = [...transaction.scan(model.leases)].filter(
        ([name, row]) => name !== owner && isExpired(row)
      )
      const mine = [...transaction.scan(model.shards)].filter(([, row]) => row.owner === owner)
      const hadLease = transaction.get(model.leases, owner) !== undefined
      yield PAUSE
      if (!draining) {
        yield* transaction.lock(model.owners, owner)
        transaction.write(model.owners, owner, { lease_until })
      }
      const lease = yield* transaction.lock(model.leases, owner)
      const isRenewed = hadLease && lease !== undefined
      if (isRenewed) {
        // A heartbeat that began later may have been faster.
        const isLater = lease.lease_until >= lease_until && lease.lease_until <= lease_until + leaseMillis
        transaction.write(model.leases, owner, isLater ? lease : { lease_until })
      } else {
        if (!draining) {
          const begun = Math.max(lease?.lease_until ?? -Infinity, lease_until)
          transaction.write(model.leases, owner, { lease_until: begun })
        }
      }
      for (const [key] of isRenewed ? [] : mine) {
        const row = yield* transaction.lock(model.shards, key)
        if (row?.owner === owner) transaction.write(model.shards, key, { ...row, owner: null })
      }
      for (const [name] of expired) {
        const row = transaction.tryLock(model.leases, name)
        if (row !== undefined && row !== "locked" && isExpired(row)) {
          transaction.write(model.leases, name, undefined)
        }
      }
      yield PAUSE
      return {
        peers: live.length,
        rank: live.filter((name) => compare(name, owner) < 0).length,
        epochs: new Map(isRenewed ? mine.map(([, { epoch, shard }]) => [shard, epoch]) : [])
      }
    }
  }

  claim(owner: string, wanted: number): Statement<ReadonlyArray<ClaimedShard>> {
    const model = this
    return function* (transaction) {
      const candidates = [...transaction.scan(model.shards)]
        .filter(([, row]) => row.owner === null || transaction.get(model.leases, row.owner) === undefined)
        .toSorted(([, a], [, b]) => a.shard - b.shard)
      const watermarks = new Map(
        candidates.map(([, { shard }]) => [
          shard,
          Math.max(0, ...model.#rows(transaction, shard).map(({ seq }) => seq))
        ])
      )
      yield PAUSE
      const claimed: Array<ClaimedShard> = []
      for (const [key, before] of candidates) {
        if (claimed.length === wanted) break
        const row = transaction.tryLock(model.shards, key)
        // Claimed meanwhile, by an owner whose lease the statement may not see.
        if (row === "locked" || row === undefined || row.epoch !== before.epoch) continue
        const { shard } = row
        const epoch = row.epoch + 1
        const after = { ...row, owner, epoch }
        transaction.write(model.shards, key, after)
        transaction.onCommit(() => model.observer.claimed(row, after))
        claimed.push({ shard, epoch, watermark: watermarks.get(shard) ?? 0 })
      }
      yield PAUSE
      return claimed
    }
  }

  release(owner: string, shards: ReadonlyArray<number>): Statement<void> {
    const model = this
    return function* (transaction) {
      transaction.isAsynchronous = true
      const mine = shards.filter((one) => transaction.get(model.shards, String(one))?.owner === owner)
      yield PAUSE
      for (const one of mine) {
        const row = yield* transaction.lock(model.shards, String(one))
        if (row?.owner === owner) {
          transaction.write(model.shards, String(one), { ...row, owner: null })
          transaction.onCommit(() => model.observer.released(row))
        }
      }
      yield PAUSE
    }
  }

  endLease(owner: string): Statement<void> {
    const model = this
    return function* (transaction) {
      transaction.isAsynchronous = true
      yield* transaction.lock(model.leases, owner)
      transaction.write(model.leases, owner, undefined)
      yield PAUSE
    }
  }

  deregister(owner: string): Statement<void> {
    const model = this
    return function* (transaction) {
      transaction.isAsynchronous = true
      yield* transaction.lock(model.owners, owner)
      transaction.write(model.owners, owner, undefined)
      yield PAUSE
    }
  }

  /** Ends the stored cooldown of a destination. */
  endCooldown(org_id: string, destination_id: string): Statement<void> {
    const model = this
    return function* (transaction) {
      const key = keyOf({ org_id, destination_id })
      const isCooling = (row: HealthEntry | undefined): row is HealthEntry =>
        row !== undefined && (row.cooldown_until ?? -Infinity) > transaction.statementAt
      if (!isCooling(transaction.get(model.health, key))) return
      const row = yield* transaction.lock(model.health, key)
      if (isCooling(row))
        transaction.write(model.health, key, { ...row, cooldown_until: transaction.statementAt })
      yield PAUSE
    }
  }

  /** Queues a failed delivery again. */
  replay(
    org_id: string,
    destination_id: string,
    delivery_id: string,
    limits: { readonly queueLimit: number; readonly maxElapsedMillis: number | null }
  ): Statement<"queued" | "not found" | "not replayable" | "queue full"> {
    const model = this
    return function* (transaction) {
      yield* transaction.advisoryLock(keyOf({ org_id, destination_id }))
      transaction.beginStatement()
      if (transaction.get(model.log, delivery_id) === undefined) return "not found"
      const row = yield* transaction.lock(model.log, delivery_id)
      if (row === undefined) return "not found"
      if (row.status !== "failed") return "not replayable"
      transaction.beginStatement()
      const shard = shardOf(destination_id)
      if (
        model.#waiting(transaction, { ...row, shard, queueLimit: limits.queueLimit }) >= limits.queueLimit
      ) {
        return "queue full"
      }
      yield PAUSE
      const pending: LogEntry = { ...row, status: "pending", replays: row.replays + 1 }
      transaction.write(model.log, delivery_id, pending)
      model.#write(transaction, {
        shard,
        org_id: row.org_id,
        destination_id,
        delivery_id,
        channel: row.channel,
        event_id: row.event_id,
        due_at: transaction.statementAt,
        expires_at:
          limits.maxElapsedMillis === null ? null : transaction.statementAt + limits.maxElapsedMillis,
        attempt: row.attempts,
        first_attempt: row.attempts
      })
      return "queued"
    }
  }

  /** Cancels the queued deliveries of a destination that is removed. */
  discard(org_id: string, destination_id: string): Statement<void> {
    const model = this
    return function* (transaction) {
      const key = keyOf({ org_id, destination_id })
      const found = model
        .#rows(transaction, shardOf(destination_id))
        .filter((row) => keyOf(row) === key)
        .toSorted((a, b) => a.seq - b.seq)
      yield PAUSE
      for (const { seq } of found) {
        const row = yield* transaction.lock(model.queue, String(seq))
        if (row === undefined) continue
        transaction.write(model.queue, String(seq), undefined)
        const entry = yield* transaction.lock(model.log, row.delivery_id)
        if (entry === undefined) continue
        const failed: LogEntry = { ...entry, status: "failed", last_error: "the destination was removed" }
        transaction.write(model.log, row.delivery_id, failed)
      }
      yield* transaction.lock(model.health, key)
      transaction.write(model.health, key, undefined)
    }
  }

  #rows(transaction: Transaction, shard: number): Array<QueueEntry> {
    return Array.from(transaction.scan(this.queue, String(shard)), ([, row]) => row)
  }

  /** Deliveries in the queue of a destination, counted up to its limit. */
  #waiting(
    transaction: Transaction,
    of: Pick<PreparedDelivery, "shard" | "org_id" | "destination_id" | "queueLimit">
  ): number {
    const key = keyOf(of)
    const rows = this.#rows(transaction, of.shard).filter((row) => keyOf(row) === key)
    return Math.min(rows.length, of.queueLimit)
  }

  #insertLog(transaction: Transaction, one: PreparedDelivery, isFull: boolean): void {
    transaction.write(this.log, one.delivery_id, {
      org_id: one.org_id,
      destination_id: one.destination_id,
      delivery_id: one.delivery_id,
      channel: one.channel,
      event_id: one.event_id,
      status: isFull ? "failed" : "pending",
      attempts: 0,
      replays: 0,
      status_code: null,
      last_error: isFull ? "queue full" : null
    })
  }

  #insertRow(transaction: Transaction, one: PreparedDelivery): number {
    return this.#write(transaction, {
      shard: one.shard,
      org_id: one.org_id,
      destination_id: one.destination_id,
      delivery_id: one.delivery_id,
      channel: one.channel,
      event_id: one.event_id,
      due_at: transaction.statementAt + one.delayMillis,
      expires_at: one.maxElapsedMillis === null ? null : transaction.statementAt + one.maxElapsedMillis,
      attempt: 0,
      first_attempt: 0
    })
  }

  /** The number comes from a sequence: it is assigned now, whenever the transaction commits. */
  #write(transaction: Transaction, row: Omit<QueueEntry, "seq">): number {
    const seq = this.store.nextval("delivery_queue")
    const entry = { ...row, seq }
    transaction.write(this.queue, String(seq), entry)
    const insertedAt = this.store.simulation.now
    transaction.onCommit(() => this.observer.queued(entry, insertedAt))
    return seq
  }

  #queueRow(transaction: Transaction, row: QueueEntry): QueueRow {
    const health = transaction.get(this.health, keyOf(row))
    const now = transaction.statementAt
    return {
      shard: row.shard,
      seq: row.seq,
      org_id: row.org_id,
      destination_id: row.destination_id,
      delivery_id: row.delivery_id,
      channel: row.channel,
      event_id: row.event_id,
      attempt: row.attempt,
      first_attempt: row.first_attempt,
      wait_ms: row.due_at - now,
      left_ms: row.expires_at === null ? null : row.expires_at - now,
      consecutive_failures: health?.consecutive_failures ?? null,
      cooldown_round: health?.cooldown_round ?? null,
      cooldown_ms: health === undefined || health.cooldown_until === null ? null : health.cooldown_until - now
    }
  }
}

const byLane = (a: Pick<QueueEntry, "org_id" | "destination_id">, b: Omit<SweepPosition, "shard">): number =>
  compare(a.org_id, b.org_id) || compare(a.destination_id, b.destination_id)

const byDueTime = (a: QueueEntry, b: QueueEntry): number => a.due_at - b.due_at || a.seq - b.seq

const PAUSE: Wait = { _tag: "Pause" }
