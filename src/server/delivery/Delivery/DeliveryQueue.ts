import { Array as Arr, Clock, Context, Effect, Exit, Random } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import type { OrgId } from "../../../domain/Ids.ts"
import { nextDelay } from "../../../domain/delivery/RetryPolicy.ts"
import { toDate } from "../../../domain/Time.ts"
import { isCluster } from "../../store/Cluster.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import { onCompletion, requireTransaction } from "../../store/transaction.ts"
import { LruCache } from "../../concurrency/LruCache.ts"
import { monotonicMillis } from "../../concurrency/monotonicMillis.ts"
import type { Channel } from "../Channel.ts"
import type { NewDelivery, QueueRow } from "./QueuedDelivery.ts"
import { countedDeliveryColumns, deliveryCounts } from "./deliveryCounts.ts"
import { insertOnCluster } from "./ClusterQueueWrites.ts"
import { type PreparedDelivery, makeQueueWrites, type InsertedDelivery, QUEUE_FULL } from "./QueueWrites.ts"
import { type Completed, countCompleted, logFailed } from "./completedDeliveries.ts"
import { shardOf } from "./shardOf.ts"

/** The `last_error` of a delivery whose destination was removed before it was sent. */
const REMOVED = "the destination was removed"

/** Pause between two log lines about the full queue of one destination, in milliseconds, and how many destinations it is kept for. */
const LOG_AGAIN_MILLIS = 60_000
const MAX_LOGGED_DESTINATIONS = 1_000

/** The deliveries that a transaction has queued. */
interface EnqueueResult {
  /** The rows as a read within the transaction would return them. */
  readonly rows: ReadonlyArray<QueueRow>
  /** Whether these are all the rows that the transaction queued. */
  readonly complete: boolean
}

/** The parts of a statement that queues deliveries beside other writes. */
export interface EnqueueParts {
  /**
   * CTEs `given` (the prepared deliveries) and `destinations` (`org_id`, `destination_id`, `near_limit`, `is_full`, and the columns of
   * `InsertedDelivery`). The statement must not insert a delivery whose destination is `near_limit`.
   */
  readonly given: Statement.Fragment
  /**
   * CTEs that insert the rows of `given` which the query `accepted` returns; `queued` has their `delivery_id` and `seq`. Those whose
   * destination `is_full` are recorded as failed instead.
   */
  readonly insert: (accepted: Statement.Fragment) => Statement.Fragment
}

/** The result of such a statement, and the deliveries that it inserted. */
export interface EnqueuedWith<A> {
  readonly inserted: ReadonlyArray<InsertedDelivery>
  readonly result: A
}

/**
 * Called before a transaction queues anything. The function it returns is called when the transaction ends: with its
 * rows if the transaction committed, with undefined if it rolled back or the outcome is unknown.
 */
export type BeginEnqueue = () => (committed: EnqueueResult | undefined) => Effect.Effect<void>

/** Returns the channel with this name. A row names only channels of the engine, so an unknown name is a defect. */
export const channelByName = (
  channels: ReadonlyMap<string, Channel>,
  name: string
): Effect.Effect<Channel> => {
  const channel = channels.get(name)
  return channel === undefined
    ? Effect.die(new Error(`Unknown delivery channel ${name}`))
    : Effect.succeed(channel)
}

/** Writes to the queue, always within the caller's transaction. `beginEnqueue` is notified of everything it inserts. */
export const makeDeliveryQueue = (
  sql: SqlClient.SqlClient,
  clock: StoreClock["Service"],
  channels: ReadonlyMap<string, Channel>,
  beginEnqueue: BeginEnqueue
) => {
  const {
    givenDeliveries,
    insertAccepted,
    insertUnlocked,
    insertUnderLock,
    lockDestination,
    remainingCapacity
  } = makeQueueWrites(sql, clock)
  const { now } = clock

  /** Gives each delivery its id, shard and schedule. */
  const prepare = Effect.fnUntraced(function* (list: ReadonlyArray<NewDelivery>) {
    const prepared: Array<PreparedDelivery> = []
    for (const one of list) {
      const { ids, policy } = yield* channelByName(channels, one.channel)
      const { queueLimit, retry } = policy
      prepared.push({
        size: 1,
        ...one,
        shard: shardOf(one.destination_id),
        delivery_id: yield* ids.generate,
        queueLimit,
        delayMillis: nextDelay(retry, 0, yield* Random.next, null, Infinity) ?? 0,
        maxElapsedMillis: retry.maxElapsedMillis
      })
    }
    return prepared
  })

  /** When each destination's full queue was logged last. */
  const loggedFull = new LruCache<number>({
    entries: MAX_LOGGED_DESTINATIONS,
    weight: MAX_LOGGED_DESTINATIONS
  })

  /** Counts deliveries that were recorded as failed because their destination's queue is full, and logs the first of a minute. */
  const reportRejected = (rejected: ReadonlyArray<PreparedDelivery>): Effect.Effect<void> =>
    Effect.contextWith((context: Context.Context<never>) => {
      const completed = rejected.map(({ channel, delivery_id, destination_id, org_id }): Completed => ({
        channel,
        org_id,
        destination_id,
        delivery_id,
        verdict: "queue_full",
        error: QUEUE_FULL
      }))
      countCompleted(completed, context)
      const now = monotonicMillis(Context.get(context, Clock.Clock))
      const unlogged = completed.filter(({ destination_id, org_id }) => {
        const loggedAt = loggedFull.get(`${org_id}/${destination_id}`)
        return loggedAt === undefined || now - loggedAt >= LOG_AGAIN_MILLIS
      })
      for (const { destination_id, org_id } of unlogged) loggedFull.set(`${org_id}/${destination_id}`, now, 1)
      return logFailed(unlogged)
    })

  const rejectedOf = (
    prepared: ReadonlyArray<PreparedDelivery>,
    inserted: ReadonlyArray<InsertedDelivery>
  ): ReadonlyArray<PreparedDelivery> => {
    const rejected = new Set(inserted.filter((row) => row.is_full).map((row) => row.delivery_id))
    return rejected.size === 0 ? [] : prepared.filter((one) => rejected.has(one.delivery_id))
  }

  /** Documented at `Delivery.enqueueWith`. */
  const enqueueWith = <A, E, R>(
    prepared: ReadonlyArray<PreparedDelivery>,
    statement: (parts: EnqueueParts) => Effect.Effect<EnqueuedWith<A>, E, R>
  ): Effect.Effect<A, E, R> =>
    Effect.flatMap(now, (at) => {
      const parts: EnqueueParts = {
        given: givenDeliveries(prepared),
        insert: (accepted) => insertAccepted(accepted, at)
      }
      // The tracked read must end also if the caller is interrupted, however early.
      const run = Effect.acquireUseRelease(
        Effect.sync(beginEnqueue),
        () => statement(parts),
        (endEnqueue, exit) =>
          endEnqueue(
            Exit.isSuccess(exit)
              ? {
                  rows: toQueueRows(
                    prepared,
                    new Map(exit.value.inserted.map((row) => [row.delivery_id, row]))
                  ),
                  complete: true
                }
              : undefined
          )
      )
      return Effect.map(
        Effect.tap(run, ({ inserted }) => reportRejected(rejectedOf(prepared, inserted))),
        ({ result }) => result
      )
    })

  const enqueue = Effect.fnUntraced(function* (list: ReadonlyArray<NewDelivery>) {
    if (list.length === 0) return []
    yield* requireTransaction
    const at = yield* now
    const prepared = yield* prepare(list)
    const ids = prepared.map((one) => one.delivery_id)
    const endEnqueue = beginEnqueue()
    let result: EnqueueResult | undefined = undefined
    // Not `afterCommit`: the tracked read must end after a rollback too. Otherwise it would stay in flight forever, and
    // the read tracker would never forget a recorded attempt again.
    yield* onCompletion((committed) => endEnqueue(committed ? result : undefined))
    const insertedRows = (yield* isCluster(sql))
      ? (yield* Effect.forEach(Object.values(Arr.groupBy(prepared, ({ org_id }) => org_id)), (group) =>
          insertOnCluster(sql, clock, group, at)
        )).flat()
      : yield* insertUnlocked(prepared, at)
    const rows = toQueueRows(prepared, new Map(insertedRows.map((row) => [row.delivery_id, row])))
    const recorded = new Set(
      insertedRows.filter((row) => row.seq !== null || row.is_full).map((row) => row.delivery_id)
    )
    result = { rows, complete: recorded.size === prepared.length }
    if (rows.length < recorded.size)
      yield* sql.afterCommit(reportRejected(rejectedOf(prepared, insertedRows)))
    if (result.complete) return ids
    const byDestination = Object.values(
      Arr.groupBy(
        prepared.filter((one) => !recorded.has(one.delivery_id)),
        (one) => one.destination_id
      )
    )
    // All transactions lock destinations in the same order, or two of them could deadlock.
    byDestination.sort((a, b) => (a[0].destination_id < b[0].destination_id ? -1 : 1))
    for (const destination of byDestination) {
      const failed = yield* insertUnderLock(destination, at)
      // The last ones are beyond the limit.
      if (failed > 0) yield* sql.afterCommit(reportRejected(destination.slice(-failed)))
    }
    return ids
  })

  const discard = Effect.fnUntraced(function* (org_id: OrgId, destination_id: string) {
    const at = yield* now
    yield* sql`
      WITH locked AS MATERIALIZED (
        ${queuedRowsLocked(sql, org_id, destination_id)}
      ), deleted AS (
        DELETE FROM delivery_queue q
        USING locked l
        WHERE q.shard = l.shard
          AND q.seq = l.seq
        RETURNING q.delivery_id
      ), failed AS (
        UPDATE deliveries d
        SET status = 'failed', last_error = ${REMOVED}, finished_at = ${toDate(at)}::timestamptz
        FROM deleted
        WHERE d.org_id = ${org_id}
          AND d.destination_id = ${destination_id}
          AND d.delivery_id = deleted.delivery_id
        RETURNING ${sql.literal(countedDeliveryColumns("d"))}
      ), ${deliveryCounts(sql, "failed", 1)}
      SELECT count(*)::int AS failed
      FROM failed
    `
    yield* sql`
      DELETE FROM delivery_destinations
      WHERE org_id = ${org_id}
        AND destination_id = ${destination_id}
    `
  })

  return { enqueue, enqueueWith, prepare, discard, lockDestination, remainingCapacity }
}

/** A query of the queued rows of a destination, with row locks, in the order in which results are recorded: the two could deadlock otherwise. */
export const queuedRowsLocked = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  destination_id: string,
  condition: Statement.Fragment = sql.literal("")
) => sql`
  SELECT shard, seq
  FROM delivery_queue
  WHERE shard = ${shardOf(destination_id)}::smallint
    AND org_id = ${org_id}
    AND destination_id = ${destination_id}
    ${condition}
  ORDER BY shard, seq
  FOR UPDATE
`

/** Builds the inserted rows as a read at this moment would return them. */
export const toQueueRows = (
  prepared: ReadonlyArray<PreparedDelivery>,
  inserted: ReadonlyMap<string, InsertedDelivery>
): ReadonlyArray<QueueRow> => {
  const rows: Array<QueueRow> = []
  for (const one of prepared) {
    const row = inserted.get(one.delivery_id)
    if (row === undefined || row.seq === null) continue
    rows.push({
      shard: one.shard,
      seq: row.seq,
      org_id: one.org_id,
      destination_id: one.destination_id,
      delivery_id: one.delivery_id,
      channel: one.channel,
      event_id: one.event_id,
      attempt: 0,
      first_attempt: 0,
      wait_ms: one.delayMillis,
      left_ms: one.maxElapsedMillis,
      consecutive_failures: row.consecutive_failures,
      cooldown_round: row.cooldown_round,
      cooldown_ms: row.cooldown_ms
    })
  }
  return rows
}

export type DeliveryQueue = ReturnType<typeof makeDeliveryQueue>
