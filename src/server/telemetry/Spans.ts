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
import { isDatabaseUnavailable } from "../store/Database/databaseErrors.ts"
import { Delivery } from "../delivery/Delivery.ts"
import { monotonicMillis } from "../concurrency/monotonicMillis.ts"
import { KnownSecrets } from "../secrets/KnownSecrets.ts"
import { SecretBox } from "../secrets/SecretBox.ts"
import { onShutdown, runForever, runWorkers } from "../concurrency/Worker.ts"
import { makeSpanBuffer } from "./Spans/SpanBuffer.ts"
import { makeSpanEncoder } from "./Spans/SpanEncoder.ts"
import { makeDestinationCache } from "./Spans/DestinationCache.ts"
import type { RecordedTrace } from "./Spans/OrgBuffer.ts"
import { findDestinations, storeBatches } from "./Spans/storeBatches.ts"
import { RecentPayloads } from "./Spans/RecentPayloads.ts"
import { StoreClock } from "../store/StoreClock.ts"

export type { Content } from "./Spans/Content.ts"
export type { RecordedTrace } from "./Spans/OrgBuffer.ts"

/** How much is exported; what is left out has the contract's default. */
export interface SpansOptions {
  /** Share of the traces, 0 to 1. Default 1. */
  readonly sampleRatio?: number
  /** Spans of an organization that may wait. Default 10,000. */
  readonly queueLimit?: number
  /** Spans of an organization that are taken in a second, in each process. Default 1,000. */
  readonly spansPerSecond?: number
  /** The longest that a span waits for others to be sent with. Default 2 s. */
  readonly flush?: Duration.Duration
}

/** The longest that the stop waits for the store to take what is left. */
const STOP_MILLIS = 3_000

/** Between two tries while the store is away. */
const AGAIN_MILLIS = 500

/** The shortest pause between two looks at what has waited long enough. */
const PACE_MILLIS = 20

/** How long the first trace waits for others to be encoded with, so that under load not each wakes a fiber. */
const GATHER_MILLIS = 10

/** Traces that wait until they are encoded at once. */
const GATHER_TRACES = 128

/** Organizations that are looked up in one statement. */
const LOOKUPS = 256

/**
 * What was done, on its way to the collectors of those who did it. Recording costs its caller nothing that could be felt: where an
 * organization has no destination, a look into a map; where it has one, some arithmetic and a place in a list. All else happens after.
 */
export class Spans extends Context.Service<
  Spans,
  {
    /**
     * Takes traces in, each with the spans it has by now, once the transaction at hand has committed. Answers at once, whatever the
     * state of collector or store; what finds no room is dropped, and counted.
     */
    readonly record: (org_id: OrgId, ...recorded: ReadonlyArray<RecordedTrace>) => Effect.Effect<void>
    /** After the commit that made or removed an organization's destination: what was known of it is looked up anew. */
    readonly invalidateDestination: (org_id: OrgId) => Effect.Effect<void>
    /** Spans in this process that the store does not count yet: those that wait here, and those that were dropped. */
    readonly localCounts: (org_id: OrgId) => { readonly waiting: number; readonly dropped: number }
    /** Writes all there is in this process to the store, now. */
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

const make = Effect.fnUntraced(function* (options: SpansOptions) {
  const sql = yield* SqlClient.SqlClient
  const box = yield* SecretBox
  const delivery = yield* Delivery
  const secrets = yield* KnownSecrets
  const written = yield* RecentPayloads
  const clock = yield* Clock.Clock
  const { millisUnsafe } = yield* StoreClock
  const queueLimit = options.queueLimit ?? 10_000
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
  /** Whether nothing waits for its time to be flushed: the next that comes sets it. */
  let idle = false
  const known = makeDestinationCache(buffer, () => void lookupDue.openUnsafe())
  const asking = yield* Semaphore.make(1)
  const encoding = yield* Semaphore.make(1)
  const storing = yield* Semaphore.make(1)
  const now = () => monotonicMillis(clock)

  const lookUp = Effect.gen(function* () {
    lookupDue.closeUnsafe()
    while (known.hasLookups()) {
      const asked = known.takeLookups(LOOKUPS)
      const found = yield* findDestinations(sql, asked).pipe(
        Effect.tapCause(() => Effect.sync(() => known.retryLookups(asked)))
      )
      const byOrganization = new Map(found.map((row) => [row.org_id, row]))
      for (const org_id of asked) {
        known.resolve(org_id, byOrganization.get(org_id), now(), (orgBuffer, waited, missed) => {
          for (const { at, recorded } of waited) buffer.admit(orgBuffer, recorded, at, now())
          if (missed > 0) buffer.drop(orgBuffer, missed, now())
          wake()
        })
      }
    }
  }).pipe(asking.withPermits(1))

  /** What was taken in is encoded soon, and what was dropped is told in its time. */
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

  const encodingTurn = Effect.gen(function* () {
    yield* encodeDue.await
    yield* Effect.timeoutOption(crowded.await, GATHER_MILLIS)
    encodeDue.closeUnsafe()
    crowded.closeUnsafe()
    yield* Effect.tapCause(encode, () => Effect.sync(() => encodeDue.openUnsafe()))
  })

  /** Writes one group; tried until the store takes it. */
  const store = Effect.suspend(() => {
    const { batches, drops } = buffer.takeReady()
    if (batches.length === 0 && drops.size === 0) return Effect.void
    return storeBatches({ sql, box, delivery, written, queueLimit }, batches, drops).pipe(
      Effect.provideService(SqlClient.SqlClient, sql),
      Effect.tapError((error) => Effect.logWarning("Spans wait for the store", error)),
      Effect.retry({
        while: (error) => SqlError.isSqlError(error) && isDatabaseUnavailable(error),
        schedule: Schedule.spaced(AGAIN_MILLIS)
      }),
      Effect.matchCauseEffect({
        // What the store will never take must not hold up what comes behind it.
        onFailure: (cause) =>
          Effect.suspend(() => {
            if (Cause.hasInterruptsOnly(cause)) return Effect.interrupt
            for (const batch of batches) {
              buffer.release(batch)
              buffer.drop(batch.buffer, batch.spans, now())
            }
            buffer.restoreDrops(drops, now())
            return Effect.logError("Spans cannot be stored and are dropped", cause)
          }),
        onSuccess: ({ gone, waiting }) =>
          Effect.gen(function* () {
            for (const [orgBuffer, spans] of waiting) buffer.updateCount(orgBuffer, spans, now(), false)
            for (const batch of batches) buffer.release(batch)
            for (const { destination_id, org_id } of gone) {
              known.invalidate(org_id)
              yield* Effect.logInfo("Spans were let go: their destination was removed", {
                org_id,
                destination_id
              })
            }
          })
      })
    )
  })

  const flush = Effect.gen(function* () {
    yield* lookUp
    yield* encode
    yield* closeDue(true)
    while (buffer.hasReady()) yield* storing.withPermits(1)(store)
    // A group that was under way when this began is over when the permit is free.
    yield* storing.withPermits(1)(Effect.void)
  })

  const flushingTurn = Effect.gen(function* () {
    const due = buffer.dueIn(now())
    idle = due === null
    if (due === null) yield* flushDue.await
    else if (due > 0) yield* Effect.timeoutOption(flushDue.await, Math.max(PACE_MILLIS, due))
    idle = false
    flushDue.closeUnsafe()
    yield* closeDue(false)
    if (buffer.writeAt() <= now()) yield* storing.withPermits(1)(store)
  })

  yield* runWorkers([
    runForever("Looking up who gets spans", Effect.andThen(lookupDue.await, lookUp)),
    runForever("Encoding spans", encodingTurn),
    runForever("Storing spans", flushingTurn)
  ])

  const stop = Effect.timeoutOption(flush, STOP_MILLIS).pipe(
    Effect.catchCause((cause) => Effect.logWarning("Spans could not be stored at the stop", cause)),
    Effect.andThen(
      Effect.suspend(() =>
        buffer.spanCount() === 0
          ? Effect.void
          : Effect.logWarning("Spans are lost: the store did not take them", { spans: buffer.spanCount() })
      )
    )
  )
  yield* onShutdown(stop)

  const take = (org_id: OrgId, recorded: RecordedTrace, at: number, time: number): void => {
    const orgBuffer = known.bufferFor(org_id, time, recorded, at)
    if (orgBuffer === undefined) return
    if (buffer.needsRecount(orgBuffer, recorded, time)) known.recount(orgBuffer, recorded, at)
    else buffer.admit(orgBuffer, recorded, at, time)
  }

  return Spans.of({
    record: (org_id, ...recorded) =>
      sql.afterCommit(
        Effect.sync(() => {
          const at = millisUnsafe(clock)
          const time = now()
          for (const one of recorded) take(org_id, one, at, time)
          wake()
        })
      ),
    invalidateDestination: (org_id) => Effect.sync(() => known.invalidate(org_id)),
    localCounts: (org_id) => {
      const orgBuffer = known.peek(org_id)
      return { waiting: orgBuffer?.inMemory ?? 0, dropped: orgBuffer?.dropped ?? 0 }
    },
    flush
  })
})
