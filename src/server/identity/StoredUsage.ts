import { Clock, Context, Effect, Layer, Semaphore } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { LimitReached } from "../../api/Problems.ts"
import type { OrgId } from "../../domain/Ids.ts"
import { LruCache } from "../concurrency/LruCache.ts"
import { monotonicMillis } from "../concurrency/monotonicMillis.ts"
import { onShutdown, runWorker, startWorkers } from "../concurrency/Worker.ts"
import { type LimitName, LimitUse } from "../observability/LimitUse.ts"
import { isNearLimit, reportQuota } from "../observability/reportQuota.ts"
import { OrganizationLimits } from "../admission/OrganizationLimits.ts"
import { addUsage, readUsage, type StoredAmounts } from "./StoredUsage/rows.ts"

export type { StoredAmounts } from "./StoredUsage/rows.ts"

/** How often a replica writes its added amounts. */
const FLUSH_EVERY = "2 seconds"

/** Maximum time that the last write may delay the shutdown. */
const SHUTDOWN_MILLIS = 1_000

/**
 * How long a replica uses the amounts that it has read. Until then it does not see additions of other replicas, unless
 * it writes too.
 */
const FRESH_MILLIS = 30_000

/** Maximum number of organizations whose amounts one replica caches. */
const MAX_ORGANIZATIONS = 10_000

/** Maximum number of organizations per statement. */
const FLUSH_ORGANIZATIONS = 1_000

/** Overhead of a row of each kind besides its JSON, index entries included: estimates from full tables. */
export const rowBytes = {
  run: 1_000,
  feedback: 700,
  example: 500,
  /** A dataset version: mostly the state of its digest. */
  version: 3_000,
  posting_list: 250,
  result: 200,
  session: 500,
  step: 2_500,
  outcome: 600,
  grant: 1_000,
  /** A message about an approval, with its event. */
  message: 600,
  /** An answer of a reviewer model. */
  reviewer_answer: 900
} as const

interface CachedAmounts {
  readonly amounts: StoredAmounts
  readonly readAt: number
}

/** The counted kinds beside the total size. */
type StoredKind = "runs" | "feedback"

/** A limit of stored amounts. */
interface StoredLimit {
  readonly of: keyof StoredAmounts
  readonly limit: number
  readonly name: LimitName
  readonly detail: string
}

/**
 * The amounts that organizations store, and their limits: the number of runs and of feedback records, and the total
 * size (runs, feedback, datasets, comparison results, sessions, steps and approvals).
 *
 * The amounts are estimates that cost a request nothing: each replica adds up its committed amounts in memory, and
 * writes the sums every two seconds, one statement for all organizations. So the writes of an organization do not
 * contend for a common row. A killed replica loses up to two seconds of its sums. Several replicas together can exceed
 * a limit by their writes of two seconds, or of 30 seconds if a replica has not written for the organization before. A
 * size is the length of the JSON text in bytes, before compression, plus {@link rowBytes}.
 */
export class StoredUsage extends Context.Service<
  StoredUsage,
  {
    /** Fails if the organization has reached its total size, or its number of this kind. */
    readonly requireCapacity: (org_id: OrgId, kind?: StoredKind) => Effect.Effect<void, LimitReached>
    /** Whether `requireCapacity` would succeed, for a caller that refuses nothing yet. */
    readonly hasCapacity: (org_id: OrgId, kind?: StoredKind) => Effect.Effect<boolean>
    /** Adds committed amounts. */
    readonly add: (org_id: OrgId, added: Partial<StoredAmounts>) => void
    /** The current amounts; additions of other replicas may be missing for 30 seconds. */
    readonly read: (org_id: OrgId) => Effect.Effect<StoredAmounts>
    /** The used share of each limit of the organization, 1 and above if it is reached. */
    readonly shares: (
      org_id: OrgId
    ) => Effect.Effect<ReadonlyArray<{ readonly of: keyof StoredAmounts; readonly use: number }>>
    /** Writes the added amounts; a worker calls it every two seconds. Concurrent calls wait for each other. */
    readonly flush: Effect.Effect<void, SqlError.SqlError>
  }
>()("countersign/server/identity/StoredUsage") {
  static readonly layer = Layer.effect(
    StoredUsage,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* Clock.Clock
      const use = yield* LimitUse
      const limits = limitsOf(yield* OrganizationLimits)
      const cache = new LruCache<CachedAmounts>({ entries: MAX_ORGANIZATIONS, weight: MAX_ORGANIZATIONS })
      const pending = new Map<OrgId, StoredAmounts>()
      /** Sums that the current statement is writing. */
      let flushing: ReadonlyMap<OrgId, StoredAmounts> = new Map()

      const withUnwritten = (org_id: OrgId, { amounts }: CachedAmounts): StoredAmounts =>
        sum(sum(amounts, flushing.get(org_id)), pending.get(org_id))

      const read = (org_id: OrgId): Effect.Effect<StoredAmounts> =>
        Effect.suspend(() => {
          const readAt = monotonicMillis(clock)
          const cached = cache.get(org_id)
          if (cached !== undefined && readAt - cached.readAt < FRESH_MILLIS)
            return Effect.succeed(withUnwritten(org_id, cached))
          return Effect.map(Effect.orDie(readUsage(sql, org_id)), (stored) => {
            const amounts: StoredAmounts = stored ?? nothing
            // A flush may have written newer amounts meanwhile.
            const current = cache.get(org_id)
            const fresh = current === cached || current === undefined ? { amounts, readAt } : current
            cache.set(org_id, fresh, 1)
            return withUnwritten(org_id, fresh)
          })
        })

      const applies = ({ of }: StoredLimit, kind: StoredKind | undefined): boolean =>
        of === "bytes" || of === kind

      /** The first limit that is reached. Notes how much of the others is used. */
      const findReached = (amounts: StoredAmounts, kind: StoredKind | undefined): StoredLimit | undefined =>
        limits.find((one) => {
          if (!applies(one, kind)) return false
          const ratio = amounts[one.of] / one.limit
          if (ratio < 1) use.used(one.name, ratio)
          return ratio >= 1
        })

      const check = (
        amounts: StoredAmounts,
        kind: StoredKind | undefined
      ): Effect.Effect<void, LimitReached> => {
        const reached = findReached(amounts, kind)
        const near = limits.filter(
          (one) =>
            applies(one, kind) && isNearLimit({ limit: one.limit, remaining: one.limit - amounts[one.of] })
        )
        // A reached limit is near as well.
        if (near.length === 0) return Effect.void
        const reported = Effect.forEach(
          near,
          ({ limit, name, of }) =>
            reportQuota({
              name,
              limit,
              remaining: limit - amounts[of],
              ...(of === "bytes" ? ({ unit: "content-bytes" } as const) : {})
            }),
          { discard: true }
        )
        if (reached === undefined) return reported
        use.refused(reached.name)
        return Effect.andThen(reported, Effect.fail(new LimitReached({ detail: reached.detail })))
      }

      // One at a time: `flushing` holds the sums of one statement, and a caller returns when earlier ones are written too.
      const flushPermit = yield* Semaphore.make(1)
      const flush = Effect.gen(function* () {
        while (pending.size > 0) {
          const batch = [...pending].slice(0, FLUSH_ORGANIZATIONS)
          flushing = new Map(batch)
          for (const [org_id] of batch) pending.delete(org_id)
          const written = yield* Effect.onError(addUsage(sql, batch), () =>
            Effect.sync(() => {
              for (const [org_id, amounts] of flushing) pending.set(org_id, sum(amounts, pending.get(org_id)))
              flushing = new Map()
            })
          )
          flushing = new Map()
          const readAt = monotonicMillis(clock)
          for (const { org_id, ...amounts } of written) cache.set(org_id, { amounts, readAt }, 1)
        }
      }).pipe(flushPermit.withPermits(1))

      yield* onShutdown(
        Effect.ignore(Effect.timeout(flush, SHUTDOWN_MILLIS), {
          log: "Warn",
          message: "Could not store what organizations have added last"
        })
      )
      yield* startWorkers([
        runWorker({ name: "stored_usage", runOnce: flush, every: FLUSH_EVERY, firstRun: "after_pause" })
      ])

      return StoredUsage.of({
        requireCapacity: (org_id, kind) =>
          limits.length === 0 ? Effect.void : Effect.flatMap(read(org_id), (amounts) => check(amounts, kind)),
        hasCapacity: (org_id, kind) =>
          limits.length === 0
            ? Effect.succeed(true)
            : Effect.map(read(org_id), (amounts) => findReached(amounts, kind) === undefined),
        add: (org_id, added) => void pending.set(org_id, sum({ ...nothing, ...added }, pending.get(org_id))),
        read,
        shares: (org_id) =>
          limits.length === 0
            ? Effect.succeed([])
            : Effect.map(read(org_id), (amounts) =>
                limits.map(({ limit, of }) => ({ of, use: amounts[of] / limit }))
              ),
        flush
      })
    })
  )
}

const nothing: StoredAmounts = { runs: 0, feedback: 0, bytes: 0 }

const sum = (a: StoredAmounts, b: StoredAmounts | undefined): StoredAmounts =>
  b === undefined ? a : { runs: a.runs + b.runs, feedback: a.feedback + b.feedback, bytes: a.bytes + b.bytes }

const MEBIBYTE = 1024 ** 2

const limitsOf = ({
  storedBytes,
  storedFeedback,
  storedRuns
}: {
  readonly storedRuns: number
  readonly storedFeedback: number
  readonly storedBytes: number
}): ReadonlyArray<StoredLimit> => {
  const limits: ReadonlyArray<StoredLimit> = [
    {
      of: "runs",
      limit: storedRuns,
      name: "stored_runs",
      detail: `Too many logged runs (limit ${storedRuns} for each organization). Ask the operator of this service to raise the limit.`
    },
    {
      of: "feedback",
      limit: storedFeedback,
      name: "stored_feedback",
      detail: `Too many feedback records (limit ${storedFeedback} for each organization). Ask the operator of this service to raise the limit.`
    },
    {
      of: "bytes",
      limit: storedBytes,
      name: "stored_bytes",
      detail: `Storage is full (limit ${storedBytes / MEBIBYTE} MiB for each organization). Ask the operator of this service to raise the limit.`
    }
  ]
  return limits.filter(({ limit }) => limit > 0)
}
