/**
 * The writes of a Citus cluster to the queue and the log, of one organization each: small statements of a transaction, which Citus sends to
 * the organization's node almost without planning. The statements of PostgreSQL (`QueueWrites`, `writeResults`) would take several times the
 * processor time there.
 */
import { Array as Arr, DateTime, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { OrgId } from "../../../domain/Ids.ts"
import type { Timestamp } from "../../../domain/Time.ts"
import { lockOnNode } from "../../store/Cluster.ts"
import { currentTime } from "../../store/currentTime.ts"
import {
  bools,
  float8s,
  type GivenRows,
  insertGiven,
  int4s,
  int8s,
  texts,
  timestamps,
  unnestRows
} from "../../store/givenRows.ts"
import { int4Array, int8Array } from "../../store/pgArrays.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import { countDeliveries, type CountedDelivery, countedDeliveryColumns } from "./deliveryCounts.ts"
import { highWaterMark, type InsertedDelivery, type PreparedDelivery, QUEUE_FULL } from "./QueueWrites.ts"
import { ATTEMPTED, type ConcludedAttempt, type RecordedResults, statusAfter } from "./writeResults.ts"

type StoredHealth = Pick<InsertedDelivery, "consecutive_failures" | "cooldown_round" | "cooldown_ms">

/** `QueueWrites.insertUnlocked` for deliveries of one organization. */
export const insertOnCluster = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  clock: StoreClock["Service"],
  list: Arr.NonEmptyReadonlyArray<PreparedDelivery>,
  now: Timestamp
) {
  const { org_id } = list[0]
  const results: Array<InsertedDelivery> = []
  const accepted: Array<{ readonly one: PreparedDelivery; readonly isFull: boolean }> = []
  for (const group of Object.values(Arr.groupBy(list, ({ destination_id }) => destination_id))) {
    const { destination_id, queueLimit, shard } = group[0]
    const [queue] = yield* sql<{ readonly waiting: number }>`
      SELECT count(*)::int AS waiting
      FROM delivery_queue
      WHERE shard = ${shard}::smallint
        AND org_id = ${org_id}
        AND destination_id = ${destination_id}
    `
    const [health] = yield* sql<StoredHealth>`
      SELECT
        consecutive_failures, cooldown_round,
        (extract(epoch FROM cooldown_until - ${currentTime(sql, clock)}) * 1000)::float8 AS cooldown_ms
      FROM delivery_destinations
      WHERE org_id = ${org_id}
        AND destination_id = ${destination_id}
    `
    const waiting = Math.min(queue?.waiting ?? 0, queueLimit)
    const isFull = waiting >= queueLimit
    for (const one of group) {
      if (isFull || waiting < highWaterMark(queueLimit, group.length)) accepted.push({ one, isFull })
      results.push({
        delivery_id: one.delivery_id,
        is_full: isFull,
        waiting,
        seq: null,
        consecutive_failures: health?.consecutive_failures ?? null,
        cooldown_round: health?.cooldown_round ?? null,
        cooldown_ms: health?.cooldown_ms ?? null
      })
    }
  }
  const { simulated } = clock
  // The time of the database, unless a test simulates it.
  const time = simulated === undefined ? "statement_timestamp()" : "g.simulated"
  const rows: GivenRows = {
    ops: accepted.map((_, index) => index),
    columns: {
      shard: int4s(accepted.map(({ one }) => one.shard)),
      org_id: texts(accepted.map(({ one }) => one.org_id)),
      destination_id: texts(accepted.map(({ one }) => one.destination_id)),
      delivery_id: texts(accepted.map(({ one }) => one.delivery_id)),
      channel: texts(accepted.map(({ one }) => one.channel)),
      event_id: texts(accepted.map(({ one }) => one.event_id)),
      label: texts(accepted.map(({ one }) => one.label)),
      size: int4s(accepted.map(({ one }) => one.size)),
      delay: float8s(accepted.map(({ one }) => one.delayMillis)),
      within: float8s(accepted.map(({ one }) => one.maxElapsedMillis)),
      status: texts(accepted.map(({ isFull }) => (isFull ? "failed" : "pending"))),
      error: texts(accepted.map(({ isFull }) => (isFull ? QUEUE_FULL : null))),
      now: timestamps(accepted.map(() => now)),
      finished_at: timestamps(accepted.map(({ isFull }) => (isFull ? now : null))),
      ...(simulated === undefined
        ? {}
        : { simulated: timestamps(accepted.map(() => DateTime.makeUnsafe(simulated()))) })
    }
  }
  const logged = yield* insertGiven<CountedDelivery>(
    sql,
    {
      into: "deliveries AS d",
      columns: {
        org_id: "g.org_id",
        destination_id: "g.destination_id",
        delivery_id: "g.delivery_id",
        channel: "g.channel",
        event_id: "g.event_id",
        label: "g.label",
        size: "g.size",
        status: "g.status",
        last_error: "g.error",
        created_at: "g.now",
        finished_at: "g.finished_at"
      },
      rows: { g: rows },
      ending: `RETURNING ${countedDeliveryColumns("d")}`
    },
    rows
  )
  yield* countDeliveries(sql, org_id, logged)
  const queued = yield* insertGiven<{ readonly delivery_id: string; readonly seq: number }>(
    sql,
    {
      into: "delivery_queue",
      columns: {
        shard: "g.shard",
        org_id: "g.org_id",
        destination_id: "g.destination_id",
        delivery_id: "g.delivery_id",
        channel: "g.channel",
        event_id: "g.event_id",
        due_at: `${time} + g.delay * interval '1 millisecond'`,
        expires_at: `${time} + g.within * interval '1 millisecond'`,
        attempt: "0",
        first_attempt: "0"
      },
      rows: { g: rows },
      ending: "RETURNING delivery_id, seq::float8 AS seq"
    },
    { ops: rows.ops.filter((index) => accepted[index]?.isFull === false), columns: {} }
  )
  const numbers = new Map(queued.map(({ delivery_id, seq }) => [delivery_id, seq]))
  return results.map((one): InsertedDelivery => ({ ...one, seq: numbers.get(one.delivery_id) ?? null }))
})

/** A queued row that the transaction has locked. */
interface LockedRow {
  readonly shard: number
  readonly seq: number
  readonly attempt: number
}

/** `writeResults` for attempts of one organization. */
export const writeResultsOnCluster = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  clock: StoreClock["Service"],
  batch: ReadonlyArray<ConcludedAttempt>,
  org_id: OrgId
) {
  const shards = int4Array([...new Set(batch.map(({ result }) => result.delivery.shard))])
  const queuedRows = (attempts: ReadonlyArray<ConcludedAttempt>) => sql`
    SELECT shard, seq::float8 AS seq, attempt
    FROM delivery_queue
    WHERE org_id = ${org_id}
      AND shard = ANY(${shards}::smallint[])
      AND seq = ANY(${int8Array(attempts.map(({ result }) => result.delivery.seq))}::bigint[])
  `
  const lockedRows = yield* lockOnNode(
    sql,
    org_id,
    sql<LockedRow>`${queuedRows(batch)} FOR UPDATE SKIP LOCKED`
  )
  const owned = yield* sql<{ readonly shard: number; readonly epoch: number; readonly now: Date }>`
    SELECT shard, epoch::float8 AS epoch, ${currentTime(sql, clock)} AS now
    FROM delivery_shards
    WHERE shard = ANY(${shards}::smallint[])
  `
  const epochs = new Map(owned.map(({ epoch, shard }) => [shard, epoch]))
  const ours = batch.filter(({ result }) => epochs.get(result.delivery.shard) === result.lane.owned.epoch)
  const attempts = new Map(lockedRows.map(({ attempt, seq, shard }) => [`${shard} ${seq}`, attempt]))
  const isLocked = ({ result: { delivery } }: ConcludedAttempt) =>
    attempts.get(`${delivery.shard} ${delivery.seq}`) === delivery.attempt
  const locked = ours.filter(isLocked)
  const others = ours.filter((attempt) => !isLocked(attempt))
  const now = owned[0]?.now
  if (now !== undefined) yield* writeLockedResults(sql, locked, org_id, now)
  const waiting = others.length === 0 ? [] : yield* sql<LockedRow>`${queuedRows(others)}`
  const stillQueued = new Set(waiting.map(({ attempt, seq, shard }) => `${shard} ${seq} ${attempt}`))
  const seqOf = ({ result }: ConcludedAttempt) => result.delivery.seq
  return {
    written: new Set(locked.map(seqOf)),
    locked: new Set(
      others
        .filter(({ result: { delivery } }) =>
          stillQueued.has(`${delivery.shard} ${delivery.seq} ${delivery.attempt}`)
        )
        .map(seqOf)
    )
  } satisfies RecordedResults
})

/** Writes the results whose rows the transaction has locked. */
const writeLockedResults = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  locked: ReadonlyArray<ConcludedAttempt>,
  org_id: OrgId,
  now: Date
) {
  if (locked.length === 0) return
  const column = <A>(of: (attempt: ConcludedAttempt) => A): ReadonlyArray<A> => locked.map(of)
  const rows: GivenRows = {
    ops: locked.map((_, index) => index),
    columns: {
      org_id: texts(column(() => org_id)),
      shard: int4s(column(({ result }) => result.delivery.shard)),
      seq: int8s(column(({ result }) => result.delivery.seq)),
      destination_id: texts(column(({ result }) => result.delivery.destination_id)),
      delivery_id: texts(column(({ result }) => result.delivery.delivery_id)),
      attempt: int4s(column(({ result }) => result.delivery.attempt)),
      sent: bools(column(isSent)),
      status_after: texts(column(({ verdict }) => statusAfter[verdict._tag])),
      due_at: timestamps(
        column(({ verdict }) =>
          DateTime.makeUnsafe(now.getTime() + (verdict._tag === "RetryLater" ? verdict.delay : 0))
        )
      ),
      error: texts(column(({ verdict }) => (verdict._tag === "Delivered" ? null : verdict.error))),
      rejected: int4s(column(({ verdict }) => (verdict._tag === "Partial" ? verdict.rejected : 0))),
      status: int4s(
        column(({ result }) => (result.outcome._tag === "Refused" ? null : result.outcome.status))
      ),
      started: float8s(column(({ result }) => result.startedAt / 1000)),
      duration: int4s(column(({ result }) => result.durationMillis))
    }
  }
  const isDone = ({ verdict }: ConcludedAttempt) => statusAfter[verdict._tag] !== "pending"
  const noted = yield* sql<CountedDelivery>`
    UPDATE deliveries d
    SET ${sql.literal(ATTEMPTED)}
    FROM ${unnestRows(rows, "h")}
    WHERE d.org_id = ${org_id}
      AND d.destination_id = h.destination_id
      AND d.delivery_id = h.delivery_id
    RETURNING ${sql.literal(countedDeliveryColumns("d"))}
  `
  yield* countDeliveries(sql, org_id, noted)
  const done = locked.filter(isDone)
  if (done.length > 0)
    yield* sql`
      DELETE FROM delivery_queue
      WHERE org_id = ${org_id}
        AND shard = ANY(${int4Array(done.map(({ result }) => result.delivery.shard))}::smallint[])
        AND seq = ANY(${int8Array(done.map(({ result }) => result.delivery.seq))}::bigint[])
    `
  if (done.length < locked.length)
    yield* sql`
      UPDATE delivery_queue q
      SET due_at = h.due_at, attempt = q.attempt + 1
      FROM ${unnestRows(rows, "h")}
      WHERE q.org_id = ${org_id}
        AND q.shard = h.shard
        AND q.seq = h.seq
        AND h.status_after = 'pending'
    `
  yield* insertGiven(
    sql,
    {
      into: "delivery_attempts",
      columns: {
        org_id: "h.org_id",
        destination_id: "h.destination_id",
        delivery_id: "h.delivery_id",
        attempt: "h.attempt + 1",
        started_at: "to_timestamp(h.started)",
        duration_ms: "h.duration",
        status: "h.status",
        error: "h.error"
      },
      rows: { h: rows }
    },
    { ops: rows.ops.filter((index) => locked[index] !== undefined && isSent(locked[index])), columns: {} }
  )
})

const isSent = ({ result }: ConcludedAttempt): boolean => result.outcome._tag !== "Refused"
