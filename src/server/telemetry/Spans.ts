import {
  Cause,
  Clock,
  Context,
  Duration,
  Effect,
  Latch,
  Layer,
  Schedule,
  type Schema,
  Semaphore
} from "effect"
import { SqlClient, SqlError } from "effect/sql"
import type { OrgId } from "../../domain/Ids.ts"
import { makeSampling } from "../../domain/telemetry/SpanSampling.ts"
import { isCluster } from "../store/Cluster.ts"
import { isDatabaseUnavailable } from "../store/databaseErrors.ts"
import { Delivery } from "../delivery/Delivery.ts"
import { logFailure } from "../observability/DatabaseOutage.ts"
import { monotonicMillis } from "../concurrency/monotonicMillis.ts"
import { KnownSecrets } from "../secrets/KnownSecrets.ts"
import { SecretBox } from "../secrets/SecretBox.ts"
import { onShutdown, runWorker, startWorkers } from "../concurrency/Worker.ts"
import { makeSpanBuffer, type SpanBuffer } from "./Spans/SpanBuffer.ts"
import { makeSpanEncoder } from "./Spans/SpanEncoder.ts"
import { makeDestinationCache } from "./Spans/DestinationCache.ts"
import type { RecordedTrace } from "./Spans/OrgBuffer.ts"
import { findDestinations, storeBatches } from "./Spans/storeBatches.ts"
import { RecentPayloads } from "./Spans/RecentPayloads.ts"
import { StoreClock } from "../store/StoreClock.ts"

export type { Content } from "./Spans/Content.ts"
export type { RecordedTrace } from "./Spans/OrgBuffer.ts"
export { OTLP } from "./Spans/storeBatches.ts"

/** The default of `queueLimit`, in spans. */
export const SPAN_QUEUE_LIMIT = 10_000

/** Options of span export; omitted ones use the contract's defaults. */
export interface SpansOptions {
  /** Share of traces that are exported, 0 to 1. Default 1. */
  readonly sampleRatio?: number
  /** Pending spans per organization, in memory and in the database. Default 10,000. */
  readonly queueLimit?: number
  /** Spans per second and organization accepted by each replica. Default 1,000. */
  readonly spansPerSecond?: number
  /** How long a span waits to be batched with others. Default 2 s. */
  readonly flush?: Duration.Duration
}

/** How long shutdown waits for the database to store the remaining spans, in milliseconds. */
const SHUTDOWN_MILLIS = 3_000

/** The pause between attempts while the database is unavailable, in milliseconds. */
const RETRY_MILLIS = 500

/** Organizations whose spans are stored concurrently on a cluster, each on its node, and how often each is tried again. */
const CLUSTER_CONCURRENCY = 4
const CLUSTER_RETRIES = 10

/** Shortest pause between two checks for spans that are due, in milliseconds. */
const PACE_MILLIS = 20

/**
 * How long the first trace waits for others before encoding, in milliseconds, so that under load not every trace wakes
 * a fiber.
 */
const GATHER_MILLIS = 10

/** Waiting traces that start encoding immediately. */
const GATHER_TRACES = 128

/** Organizations looked up by one statement. */
const LOOKUPS = 256

/**
 * Records runs, steps, approvals and feedback as spans and exports them to each organization's collector. Recording is
 * cheap for its caller: a map lookup if the organization has no destination, otherwise some arithmetic and an entry in a
 * list. Everything else runs later, in background workers.
 *
 * ```
 *   record ──> DestinationCache ──> SpanBuffer ── encode ──> BatchWriter ── closeDue ──> storeBatches ──> Delivery
 *              which collector?     limits, sampling         JSON, gzip                  sealed rows      (OtlpChannel)
 * ```
 */
export class Spans extends Context.Service<
  Spans,
  {
    /**
     * Accepts traces, each with the spans it has so far, once the current transaction has committed. Returns
     * immediately whatever the state of collector or database; spans beyond a limit are dropped and counted.
     */
    readonly record: (org_id: OrgId, ...recorded: ReadonlyArray<RecordedTrace>) => Effect.Effect<void>
    /** Invalidates the cached destination of an organization; call it after the commit that created or removed it. */
    readonly invalidateDestination: (org_id: OrgId) => Effect.Effect<void>
    /** Spans of this replica that the database does not count yet: pending ones in memory, and dropped ones. */
    readonly localCounts: (org_id: OrgId) => { readonly waiting: number; readonly dropped: number }
    /** Stores everything that this replica has buffered, now. */
    readonly flush: Effect.Effect<void, SqlError.SqlError | Schema.SchemaError>
  }
>()("countersign/server/telemetry/Spans") {
  static readonly layer = (
    options: SpansOptions = {}
  ): Layer.Layer<
    Spans,
    never,
    SqlClient.SqlClient | SecretBox | Delivery | KnownSecrets | StoreClock | RecentPayloads
  > => Layer.effect(Spans, make(options))
}

/** Batches that are stored in one transaction, and the spans that each buffer has dropped before. */
type ReadyBatches = ReturnType<SpanBuffer["takeReady"]>

const byOrganization = ({ batches, drops }: ReadyBatches): ReadonlyArray<ReadyBatches> => {
  const organizations = new Set([
    ...batches.map(({ buffer }) => buffer.org_id),
    ...[...drops.keys()].map((one) => one.org_id)
  ])
  return [...organizations].map((org_id) => ({
    batches: batches.filter(({ buffer }) => buffer.org_id === org_id),
    drops: new Map([...drops].filter(([buffer]) => buffer.org_id === org_id))
  }))
}

const make = Effect.fnUntraced(function* (options: SpansOptions) {
  const sql = yield* SqlClient.SqlClient
  const clustered = yield* isCluster(sql)
  const box = yield* SecretBox
  const delivery = yield* Delivery
  const secrets = yield* KnownSecrets
  const recentPayloads = yield* RecentPayloads
  const clock = yield* Clock.Clock
  const { millisUnsafe } = yield* StoreClock
  const queueLimit = options.queueLimit ?? SPAN_QUEUE_LIMIT
  const buffer = makeSpanBuffer({
    sampling: makeSampling(options.sampleRatio ?? 1),
    queueLimit,
    spansPerSecond: options.spansPerSecond ?? 1_000,
    flushMillis: options.flush === undefined ? 2_000 : Duration.toMillis(options.flush)
  })
  const lookupDue = Latch.makeUnsafe(false)
  const encodeDue = Latch.makeUnsafe(false)
  const crowded = Latch.makeUnsafe(false)
  const flushDue = Latch.makeUnsafe(false)
  /** Whether nothing is waiting to be flushed at a set time; the next recorded span then wakes the flush worker. */
  let idle = true
  const destinations = makeDestinationCache(buffer, () => void lookupDue.openUnsafe())
  const lookingUp = yield* Semaphore.make(1)
  const encoding = yield* Semaphore.make(1)
  const storing = yield* Semaphore.make(1)
  const now = () => monotonicMillis(clock)

  const lookUp = Effect.gen(function* () {
    lookupDue.closeUnsafe()
    while (destinations.hasLookups()) {
      const org_ids = destinations.takeLookups(LOOKUPS)
      const found = yield* findDestinations(sql, org_ids).pipe(
        Effect.tapCause(() => Effect.sync(() => destinations.retryLookups(org_ids)))
      )
      const byOrganization = new Map(found.map((row) => [row.org_id, row]))
      for (const org_id of org_ids) {
        destinations.resolve(org_id, byOrganization.get(org_id), now(), (orgBuffer, waited, missed) => {
          for (const { at, recorded } of waited) buffer.admit(orgBuffer, recorded, at, now())
          if (missed > 0) buffer.drop(orgBuffer, missed, now())
          wake()
        })
      }
    }
  }).pipe(lookingUp.withPermits(1))

  /** Starts encoding of new traces soon, and reports new drops in time. */
  const wake = (): void => {
    const traces = buffer.unencodedCount()
    if (traces > 0) encodeDue.openUnsafe()
    if (traces >= GATHER_TRACES) crowded.openUnsafe()
    if (idle) flushDue.openUnsafe()
  }

  const { encode: encodeAll, closeDue } = makeSpanEncoder(buffer, secrets, now, (sooner) => {
    if (idle || sooner) flushDue.openUnsafe()
  })
  const encode = encoding.withPermits(1)(encodeAll)

  const runEncoding = Effect.suspend(() => {
    encodeDue.closeUnsafe()
    crowded.closeUnsafe()
    return Effect.tapCause(encode, () => Effect.sync(() => encodeDue.openUnsafe()))
  })

  /** Stores one group of batches; retries while the database is unavailable. */
  const storeGroup = ({ batches, drops }: ReadyBatches) =>
    storeBatches({ sql, box, delivery, recentPayloads, queueLimit }, batches, drops).pipe(
      Effect.provideService(SqlClient.SqlClient, sql),
      Effect.tapCause((cause) =>
        logFailure("Could not store spans; retrying while the database is unavailable", cause)
      ),
      Effect.retry({
        while: (error) => SqlError.isSqlError(error) && isDatabaseUnavailable(error),
        schedule: Schedule.spaced(RETRY_MILLIS),
        // On a cluster one node may be unavailable, behind which the spans of others must not wait.
        ...(clustered ? { times: CLUSTER_RETRIES } : {})
      }),
      Effect.matchCauseEffect({
        // A group that the database rejects must not block those behind it.
        onFailure: (cause) =>
          Effect.suspend(() => {
            if (Cause.hasInterruptsOnly(cause)) return Effect.interrupt
            for (const batch of batches) {
              buffer.release(batch)
              buffer.drop(batch.buffer, batch.spans, now())
            }
            buffer.restoreDrops(drops, now())
            return Effect.logError("Dropped spans that could not be stored", cause)
          }),
        onSuccess: ({ gone, waiting }) =>
          Effect.gen(function* () {
            for (const [orgBuffer, spans] of waiting) buffer.updateCount(orgBuffer, spans, now(), false)
            for (const batch of batches) buffer.release(batch)
            for (const { destination_id, org_id } of gone) {
              destinations.invalidate(org_id)
              yield* Effect.logInfo("Dropped spans: telemetry destination was deleted", {
                org_id,
                destination_id
              })
            }
          })
      })
    )

  const store = Effect.suspend(() => {
    const ready = buffer.takeReady()
    if (ready.batches.length === 0 && ready.drops.size === 0) return Effect.void
    return clustered
      ? Effect.forEach(byOrganization(ready), storeGroup, { concurrency: CLUSTER_CONCURRENCY, discard: true })
      : storeGroup(ready)
  })

  const flush = Effect.gen(function* () {
    yield* lookUp
    yield* encode
    yield* closeDue(true)
    while (buffer.hasReady()) yield* storing.withPermits(1)(store)
    // A group that was being stored when the flush began is finished once the permit is free.
    yield* storing.withPermits(1)(Effect.void)
  })

  const runFlush = Effect.gen(function* () {
    idle = false
    flushDue.closeUnsafe()
    yield* closeDue(false)
    if (buffer.writeAt() <= now()) yield* storing.withPermits(1)(store)
    const due = buffer.dueIn(now())
    idle = due === null
    return due === null ? {} : { next: due > 0 ? Math.max(PACE_MILLIS, due) : 0 }
  })

  yield* startWorkers([
    runWorker({ name: "spans_lookup", runOnce: lookUp, wakeUp: lookupDue.await }),
    runWorker({
      name: "spans_encoding",
      runOnce: runEncoding,
      wakeUp: Effect.andThen(encodeDue.await, Effect.timeoutOption(crowded.await, GATHER_MILLIS))
    }),
    runWorker({ name: "spans_flush", runOnce: runFlush, wakeUp: flushDue.await })
  ])

  const storeRemaining = Effect.timeoutOption(flush, SHUTDOWN_MILLIS).pipe(
    Effect.catchCause((cause) => Effect.logWarning("Could not store the remaining spans at shutdown", cause)),
    Effect.andThen(
      Effect.suspend(() =>
        buffer.spanCount() === 0
          ? Effect.void
          : Effect.logWarning("Lost spans at shutdown: the database did not store them", {
              spans: buffer.spanCount()
            })
      )
    )
  )
  yield* onShutdown(storeRemaining)

  const admit = (org_id: OrgId, recorded: RecordedTrace, at: number, time: number): void => {
    const orgBuffer = destinations.bufferFor(org_id, time, recorded, at)
    if (orgBuffer === undefined) return
    if (buffer.needsRecount(orgBuffer, recorded, time)) destinations.recount(orgBuffer, recorded, at)
    else buffer.admit(orgBuffer, recorded, at, time)
  }

  const accept = (org_id: OrgId, recorded: ReadonlyArray<RecordedTrace>): void => {
    const at = millisUnsafe()
    const time = now()
    for (const one of recorded) admit(org_id, one, at, time)
    wake()
  }

  return Spans.of({
    record: (org_id, ...recorded) =>
      Effect.withFiber((fiber) => {
        if (Context.getOrUndefined(fiber.context, sql.transactionService) !== undefined) {
          return sql.afterCommit(Effect.sync(() => accept(org_id, recorded)))
        }
        // Accepted here: outside a transaction `afterCommit` does the same at ten times the cost. It logs defects too:
        // the work that the spans describe has been committed and must not fail.
        try {
          accept(org_id, recorded)
          return Effect.void
        } catch (defect) {
          return Effect.logError("Could not record spans", defect)
        }
      }),
    invalidateDestination: (org_id) => Effect.sync(() => destinations.invalidate(org_id)),
    localCounts: (org_id) => {
      const orgBuffer = destinations.peek(org_id)
      return { waiting: orgBuffer?.inMemory ?? 0, dropped: orgBuffer?.dropped ?? 0 }
    },
    flush
  })
})
