import { Array as Arr, Cause, Context, Deferred, Duration, Effect, Exit, Layer, Option, Queue } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import type { ComparisonDetail, NewComparison } from "../../api/Comparisons.ts"
import { notFound } from "../../api/notFound.ts"
import type { PageRequest } from "../../api/Pagination.ts"
import {
  InvalidComparison,
  type InvalidHeaders,
  type InvalidInstructions,
  type InvalidUrl,
  LimitReached,
  NotFound,
  type ProviderKeyExists
} from "../../api/Problems.ts"
import { nothingSpent, withBudgetDefaults } from "../../domain/tasks/Budget.ts"
import type { Comparison } from "../../domain/tasks/Comparison.ts"
import { newTally } from "../../domain/tasks/ComparisonTally.ts"
import { withEvaluatorDefaults } from "../../domain/tasks/Evaluator.ts"
import { evaluatorFaults } from "../../domain/tasks/evaluatorFaults.ts"
import { type HoldOut, MAX_BENCHMARK, withHoldOutDefaults } from "../../domain/tasks/HoldOut.ts"
import { ComparisonId, type DatasetId, type OrgId, type TaskId } from "../../domain/Ids.ts"
import { type Judge, judgeInstructions, type NewJudge } from "../../domain/tasks/Judge.ts"
import { withProviderDefaults } from "../../domain/tasks/Provider.ts"
import type { JsonSchema } from "../../domain/tasks/Task.ts"
import { monotonicNow } from "../concurrency/monotonicMillis.ts"
import { runWorker, startWorkers } from "../concurrency/Worker.ts"
import { Audit } from "../identity/Audit.ts"
import { Organizations } from "../identity/Organizations.ts"
import { StoredUsage } from "../identity/StoredUsage.ts"
import { dieOnDatabaseError, isDatabaseUnavailable } from "../store/databaseErrors.ts"
import { atomic } from "../store/transaction.ts"
import { type Page, toPage } from "../store/Pagination.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { budgetFaults, repeated } from "./Comparisons/budgetFaults.ts"
import { type BatchContext, compareBatch, loadJob } from "./Comparisons/compareBatch.ts"
import { ExampleCompared } from "./Comparisons/ExampleCalls.ts"
import {
  claimComparison,
  countClaimable,
  failComparison,
  releaseLease,
  renewLease
} from "./Comparisons/lease.ts"
import { recordBatch } from "./Comparisons/recordBatch.ts"
import {
  cancelComparison,
  type ComparisonRow,
  countRunning,
  findComparison,
  fromSpent,
  insertComparison,
  isCancelled,
  listComparisons,
  listResults,
  type ResultsRequest,
  toComparison
} from "./Comparisons/rows.ts"
import { checkInstructions } from "./checkInstructions.ts"
import { CompiledSchemas } from "./CompiledSchemas.ts"
import { countOverlap } from "./Datasets/countOverlap.ts"
import { countCompared } from "./Datasets/heldOut.ts"
import { findVersion, getVersion, type VersionRow } from "./Datasets/versionRows.ts"
import { Providers } from "./Providers.ts"
import { getRelease } from "./Releases/rows.ts"
import { Tasks } from "./Tasks.ts"
import { findTask } from "./Tasks/rows.ts"
import { requireTask } from "./requireTask.ts"

/** Faults that a refusal names at most, as for other requests. */
const MAX_FAULTS = 20

/** The running comparisons of one organization. */
const MAX_RUNNING = 20

/** Comparisons that one replica works on concurrently. */
const MAX_CONCURRENT = 4

/** How long a worker works on one comparison before it releases the lease, so that waiting comparisons get their share. */
const TIME_SLICE = Duration.seconds(30)

/**
 * How often a replica polls for comparisons that its workers were not woken for: comparisons that another replica
 * created, or was running when it crashed. One poll serves all workers.
 */
const POLL_INTERVAL = Duration.seconds(2)

/** How often the owner of a comparison checks whether it was cancelled, on any replica. */
const CANCELLATION_INTERVAL = Duration.seconds(1)

/** Pause of a worker after a failed run. */
const RETRY_DELAY = Duration.seconds(5)

/**
 * Consecutive attempts without a recorded batch after which a comparison fails: each may call a model for a batch of
 * examples. A crash of the replica counts as an attempt, so that an example cannot crash replicas endlessly.
 */
const MAX_ATTEMPTS = 8

/** Pause before the second attempt; each further one is twice as long, so that the attempts take some 20 minutes in all. */
const FIRST_BACKOFF = Duration.seconds(5)

/** Options of the comparison workers. */
export interface ComparisonsOptions {
  /** Lease duration: after a crash, another replica takes over when the lease expires. Renewed at a third of it. Default 15 s. */
  readonly lease?: Duration.Input
}

/** The result of one worker run. */
export interface ComparisonRun {
  readonly comparison_id: ComparisonId
  /** Examples compared in this run. */
  readonly compared: number
  readonly completed: boolean
}

/**
 * Compares candidates with the live release. Progress and ownership are stored in the database, so any replica can continue a comparison;
 * after a crash at most one batch of examples is answered a second time.
 */
export class Comparisons extends Context.Service<
  Comparisons,
  {
    /** Lists a task's comparisons, newest first. */
    readonly list: (
      task_id: TaskId,
      request: PageRequest<ComparisonId>
    ) => Effect.Effect<Page<Comparison, ComparisonId>, NotFound, Authorized<"tasks.read">>
    /** Returns the comparison and a page of its results. */
    readonly get: (
      id: ComparisonId,
      request: ResultsRequest
    ) => Effect.Effect<ComparisonDetail, NotFound, Authorized<"tasks.read">>
    /** Stores a new comparison. A worker of this or another replica (`layerWorkers`) runs it. */
    readonly create: (
      task_id: TaskId,
      input: NewComparison
    ) => Effect.Effect<
      Comparison,
      | NotFound
      | InvalidInstructions
      | InvalidUrl
      | InvalidHeaders
      | LimitReached
      | ProviderKeyExists
      | InvalidComparison,
      Authorized<"tasks.write">
    >
    /** Ends a running comparison. One that has ended is returned unchanged. */
    readonly cancel: (id: ComparisonId) => Effect.Effect<Comparison, NotFound, Authorized<"tasks.write">>
    /** Claims one comparison and works on it until it is finished or the time slice is over. None if no comparison is claimable. */
    readonly runOnce: Effect.Effect<Option.Option<ComparisonRun>>
    /** Finds claimable comparisons and wakes a worker for each, up to the number of workers. Returns how many. */
    readonly poll: Effect.Effect<number>
    /** Completes when this replica has created a comparison, or found a claimable one. */
    readonly awaitClaimable: Effect.Effect<void>
  }
>()("countersign/server/tasks/Comparisons") {
  static readonly layer = (options: ComparisonsOptions = {}) =>
    Layer.effect(
      Comparisons,
      Effect.gen(function* () {
        const lease = Duration.fromInputUnsafe(options.lease ?? "15 seconds")
        const sql = yield* SqlClient.SqlClient
        const atomically = atomic(sql)
        const audit = yield* Audit
        const usage = yield* StoredUsage
        const clock = yield* StoreClock
        const organizations = yield* Organizations
        const providers = yield* Providers
        const schemas = yield* CompiledSchemas
        const tasks = yield* Tasks
        const batchContext: BatchContext = { sql, providers, onCompared: yield* ExampleCompared }
        const wakeUps = yield* Queue.sliding<void>(MAX_CONCURRENT)

        const compile = (schema: JsonSchema) => Effect.orDie(schemas.compile(schema))

        /** Renews the lease at a third of its duration. Ends when another replica has claimed the comparison. */
        const heartbeat = (row: ComparisonRow) =>
          Effect.gen(function* () {
            let isOwner = true
            while (isOwner) {
              yield* Effect.sleep(Duration.times(lease, 1 / 3))
              isOwner = yield* renewLease(sql, clock, row, lease)
            }
          })

        /** The benchmark to store. Its dataset belongs to another task with the same schemas. */
        const toBenchmark = Effect.fnUntraced(function* (org_id: OrgId, task_id: TaskId, id: DatasetId) {
          const benchmark = yield* Effect.orDie(findVersion(sql, org_id, id))
          if (benchmark === undefined) return yield* noBenchmark
          const task = yield* findTask(sql, org_id, task_id)
          const other = yield* findTask(sql, org_id, benchmark.task_id)
          const isAlike =
            task.input_schema_digest === other.input_schema_digest &&
            task.answer_schema_digest === other.answer_schema_digest
          if (benchmark.task_id === task_id || !isAlike) {
            return yield* benchmarkFault(
              benchmark.task_id === task_id
                ? "is a version of the task's own dataset, which prompts use; name a dataset of another task"
                : "is of a task with other schemas"
            )
          }
          if (benchmark.example_count > MAX_BENCHMARK) {
            return yield* benchmarkFault(`has more than ${MAX_BENCHMARK.toLocaleString("en-US")} examples`)
          }
          const hold_out: HoldOut = { kind: "benchmark", dataset_id: id, task_id: benchmark.task_id }
          return hold_out
        })

        /** Refuses a benchmark that has inputs of these versions, which the sides see. Returns the key of the versions. */
        const requireApart = Effect.fnUntraced(function* (
          org_id: OrgId,
          benchmark: VersionRow,
          versions: Arr.NonEmptyReadonlyArray<VersionRow>
        ) {
          const overlap = yield* Effect.orDie(countOverlap(sql, org_id, benchmark, versions))
          if (overlap > 0) {
            return yield* benchmarkFault(
              `has ${overlap} inputs that the dataset of the candidate or of the live release has too; remove them from one of both`
            )
          }
          return versionsKey(versions)
        })

        /** Checks a benchmark before the task is locked, because that reads all of its examples. */
        const checkAhead = Effect.fnUntraced(function* (
          org_id: OrgId,
          task_id: TaskId,
          hold_out: HoldOut,
          candidate_id: DatasetId | undefined
        ) {
          if (hold_out.kind !== "benchmark") return undefined
          const { dataset_id, live_release_id } = yield* findTask(sql, org_id, task_id)
          const live = yield* Effect.orDie(getRelease(sql, org_id, live_release_id))
          const ids = [candidate_id ?? dataset_id, live.dataset_id].filter((id) => id !== null)
          const benchmark = yield* Effect.orDie(findVersion(sql, org_id, hold_out.dataset_id))
          const found = yield* Effect.orDie(Effect.forEach(ids, (id) => findVersion(sql, org_id, id)))
          const versions = found.filter((version) => version !== undefined)
          if (benchmark === undefined || !Arr.isReadonlyArrayNonEmpty(versions)) return undefined
          return yield* requireApart(org_id, benchmark, versions)
        })

        /** Counts the examples of a split before the task is locked, because that reads the whole version. */
        const countAhead = Effect.fnUntraced(function* (org_id: OrgId, task_id: TaskId, hold_out: HoldOut) {
          if (hold_out.kind !== "split") return undefined
          const { dataset_id } = yield* findTask(sql, org_id, task_id)
          if (dataset_id === null) return undefined
          const version = yield* Effect.orDie(findVersion(sql, org_id, dataset_id))
          // The task was deleted meanwhile, or the version was, after a newer one.
          if (version === undefined) return undefined
          return { dataset_id, count: yield* Effect.orDie(countCompared(sql, org_id, version, hold_out)) }
        })

        /** Completes `cancelled` when the comparison is cancelled. Does not end. */
        const watchCancellation = (row: ComparisonRow, cancelled: Deferred.Deferred<void>) =>
          Effect.gen(function* () {
            while (!(yield* isCancelled(sql, row))) yield* Effect.sleep(CANCELLATION_INTERVAL)
            yield* Deferred.succeed(cancelled, undefined)
            return yield* Effect.never
          })

        const work = Effect.fnUntraced(function* (claimed: ComparisonRow, cancelled: Effect.Effect<void>) {
          const job = yield* loadJob(sql, claimed, compile)
          const sliceEnd = (yield* monotonicNow) + Duration.toMillis(TIME_SLICE)
          const isTimeSliceOver = Effect.map(monotonicNow, (now) => now >= sliceEnd)
          let row = claimed
          while (row.status === "running" && !(yield* isTimeSliceOver)) {
            const batch = yield* compareBatch(batchContext, job, row, { isTimeSliceOver, cancelled })
            const recorded = yield* atomically(recordBatch(sql, clock, batch, lease))
            if (recorded === undefined) break
            usage.add(row.org_id, { bytes: recorded.bytes })
            row = { ...batch.row, status: recorded.status }
          }
          return row
        })

        const runOnce = Effect.gen(function* () {
          const claimed = yield* Effect.orDie(claimComparison(sql, clock, lease))
          if (claimed === undefined) return Option.none()
          const { attempts, comparison_id } = claimed
          if (attempts > MAX_ATTEMPTS) {
            yield* Effect.logError(`Comparison ${comparison_id} failed after ${MAX_ATTEMPTS} attempts`)
            yield* Effect.orDie(failComparison(sql, claimed, FAILURE, yield* clock.now))
            return Option.some({ comparison_id, compared: 0, completed: false })
          }
          const cancelled = yield* Deferred.make<void>()
          const row = yield* work(claimed, Deferred.await(cancelled)).pipe(
            Effect.raceFirst(Effect.as(heartbeat(claimed), claimed)),
            Effect.raceFirst(watchCancellation(claimed, cancelled)),
            // Also on shutdown, so that the next owner need not wait for the lease to expire.
            Effect.onExit((exit) =>
              Effect.ignore(releaseLease(sql, clock, claimed, releaseOf(exit, attempts)))
            ),
            Effect.orDie
          )
          return Option.some({
            comparison_id: row.comparison_id,
            compared: row.compared - claimed.compared,
            completed: row.status === "completed"
          })
        }).pipe(Effect.withSpan("Comparisons.runOnce"))

        const poll = Effect.gen(function* () {
          const claimable = yield* countClaimable(sql, clock, MAX_CONCURRENT)
          yield* Queue.offerAll(
            wakeUps,
            Array.from({ length: claimable }, () => undefined)
          )
          return claimable
        }).pipe(Effect.orDie)

        return Comparisons.of({
          runOnce,
          poll,
          awaitClaimable: Queue.take(wakeUps),
          list: Effect.fn("Comparisons.list")(function* (task_id, request) {
            const { org_id } = yield* Authorized("tasks.read")
            const rows = yield* Effect.orDie(listComparisons(sql, org_id, task_id, request))
            if (rows.length === 0) yield* requireTask(sql, org_id, task_id)
            return toPage(request, rows.map(toComparison), (comparison) => comparison.id)
          }),
          get: Effect.fn("Comparisons.get")(function* (id, request) {
            const { org_id } = yield* Authorized("tasks.read")
            const row = yield* Effect.orDie(findComparison(sql, org_id, id))
            if (row === undefined) return yield* notFound("comparison")
            const results = yield* Effect.orDie(listResults(sql, row, request))
            return {
              comparison: toComparison(row),
              results: results.items,
              next_cursor: results.next_cursor
            }
          }),
          cancel: Effect.fn("Comparisons.cancel")(function* (id) {
            const principal = yield* Authorized("tasks.write")
            const { actor, org_id } = principal
            const end = { at: yield* clock.now, failure: `Cancelled by ${actor.name}.` }
            return yield* atomically(
              Effect.gen(function* () {
                const cancelled = yield* cancelComparison(sql, org_id, id, end)
                if (cancelled !== undefined) {
                  const { compared, example_count, task_id } = cancelled
                  const detail = { task_id, compared, example_count }
                  yield* audit.record(principal, "comparison.cancelled", id, detail)
                  return toComparison(cancelled)
                }
                const row = yield* findComparison(sql, org_id, id)
                return row === undefined ? yield* notFound("comparison") : toComparison(row)
              })
            )
          }, dieOnDatabaseError),
          create: Effect.fn("Comparisons.create")(function* (
            task_id,
            { budget = {}, candidate = {}, evaluators = {}, hold_out: held, judge: asked, repeats = 1 }
          ) {
            const principal = yield* Authorized("tasks.write")
            const { actor, org_id } = principal
            yield* usage.requireCapacity(org_id)
            yield* tasks.vetProvider(candidate.provider, "#/candidate/provider")
            yield* tasks.vetProvider(asked?.provider, "#/judge/provider")
            const hold_out =
              held?.kind === "benchmark"
                ? yield* toBenchmark(org_id, task_id, held.dataset_id)
                : withHoldOutDefaults(held)
            const judge = yield* toJudge(asked)
            const counted = yield* countAhead(org_id, task_id, hold_out)
            const apart = yield* checkAhead(org_id, task_id, hold_out, candidate.dataset_id)
            const now = yield* clock.now
            return yield* atomically(
              Effect.gen(function* () {
                // Serializes creations of the organization, so that concurrent ones cannot exceed the limit.
                yield* organizations.lockForUpdate(org_id)
                const task = yield* findTask(sql, org_id, task_id, "FOR NO KEY UPDATE")
                yield* checkInstructions(
                  candidate.instructions,
                  task.input_schema,
                  "#/candidate/instructions"
                )
                if (task.dataset_id === null) return yield* noDataset
                if ((yield* countRunning(sql, org_id)) >= MAX_RUNNING) {
                  return yield* new LimitReached({
                    detail: `An organization can have at most ${MAX_RUNNING} running comparisons. Wait for one to finish.`
                  })
                }
                const newest = yield* getVersion(sql, org_id, task.dataset_id)
                const candidateVersion =
                  candidate.dataset_id === undefined
                    ? newest
                    : yield* findVersion(sql, org_id, candidate.dataset_id)
                if (candidateVersion?.task_id !== task_id) return yield* notVersionOfTask
                const instructions = candidate.instructions ?? task.instructions
                const provider =
                  candidate.provider === undefined ? task.provider : withProviderDefaults(candidate.provider)
                const live = yield* getRelease(sql, org_id, task.live_release_id)
                const compared =
                  hold_out.kind === "benchmark" ? yield* getVersion(sql, org_id, hold_out.dataset_id) : newest
                if (hold_out.kind === "benchmark") {
                  const seen =
                    live.dataset_id === null ? [] : [yield* getVersion(sql, org_id, live.dataset_id)]
                  const versions = [candidateVersion, ...seen] as const
                  // Another version or release was made since it was checked.
                  if (versionsKey(versions) !== apart) yield* requireApart(org_id, compared, versions)
                }
                const sides = [{ instructions, provider }, live]
                const example_count =
                  counted?.dataset_id === newest.dataset_id
                    ? counted.count
                    : yield* countCompared(sql, org_id, compared, hold_out)
                const errors = [
                  ...holdOutFaults(hold_out, example_count, newest.example_count),
                  ...evaluatorFaults(task.answer_schema, evaluators, "#/evaluators"),
                  ...budgetFaults(budget, repeated(sides, repeats), judge, task.answer_schema, "#/budget")
                ]
                if (errors.length > 0) {
                  return yield* new InvalidComparison({
                    detail: "The comparison does not fit the task.",
                    errors: errors.slice(0, MAX_FAULTS)
                  })
                }
                yield* tasks.addKey(org_id, task_id, candidate.provider, "#/candidate/provider", now)
                yield* tasks.addKey(org_id, task_id, asked?.provider, "#/judge/provider", now)
                const row: ComparisonRow = {
                  org_id,
                  comparison_id: yield* ComparisonId.generate,
                  task_id,
                  task_revision: task.revision,
                  live_release_id: task.live_release_id,
                  candidate_instructions: instructions,
                  candidate_provider: provider,
                  candidate_dataset_id: candidateVersion.dataset_id,
                  dataset_id: compared.dataset_id,
                  hold_out,
                  evaluators: withEvaluatorDefaults(evaluators),
                  judge,
                  budget: withBudgetDefaults(budget),
                  repeats,
                  ...fromSpent(nothingSpent),
                  status: "running",
                  example_count,
                  compared: 0,
                  last_example_id: null,
                  tally: newTally({ hasJudge: judge !== null, repeats }),
                  lease_epoch: 0,
                  created_at: now,
                  created_by_id: actor.id,
                  created_by_name: actor.name,
                  finished_at: null,
                  attempts: 0,
                  failure: null
                }
                yield* insertComparison(sql, row)
                yield* audit.record(principal, "comparison.created", row.comparison_id, {
                  task_id,
                  dataset_id: row.dataset_id
                })
                yield* sql.afterCommit(Effect.asVoid(Queue.offer(wakeUps, undefined)))
                return toComparison(row)
              })
            )
          })
        })
      })
    )

  /** Runs the comparison workers for as long as the layer is built. */
  static readonly layerWorkers: Layer.Layer<never, never, Comparisons> = Layer.effectDiscard(
    Effect.gen(function* () {
      const comparisons = yield* Comparisons
      const worker = runWorker({
        name: "comparisons",
        // Continues immediately after work was found, because more may be waiting.
        runOnce: Effect.map(
          comparisons.runOnce,
          Option.match({
            onNone: () => undefined,
            onSome: ({ compared }) => ({ counts: { compared }, next: 0 })
          })
        ),
        wakeUp: comparisons.awaitClaimable,
        retryAfter: RETRY_DELAY
      })
      const poller = runWorker({
        name: "comparison_poll",
        runOnce: Effect.map(comparisons.poll, (claimable) => ({ counts: { claimable } })),
        every: POLL_INTERVAL,
        retryAfter: RETRY_DELAY
      })
      yield* startWorkers([poller, ...Array.from({ length: MAX_CONCURRENT }, () => worker)])
    })
  )
}

/** The reason of a comparison that ended as failed. The cause of each attempt is in the log. */
const FAILURE =
  "Internal errors interrupted the comparison repeatedly. Start another one; if it fails too, ask the operator for the service's log."

/**
 * How long a comparison cannot be claimed after an attempt, and whether the attempt counts against its failure budget.
 */
const releaseOf = <A, E>(exit: Exit.Exit<A, E>, attempts: number) => {
  if (Exit.isSuccess(exit) || Cause.hasInterruptsOnly(exit.cause))
    return { backoff: Duration.zero, isCounted: false }
  const backoff = Duration.times(FIRST_BACKOFF, 2 ** (attempts - 1))
  return { backoff, isCounted: !isDatabaseOutage(exit.cause) }
}

const isDatabaseOutage = (cause: Cause.Cause<unknown>): boolean =>
  cause.reasons.some((reason) => {
    const error = Cause.isDieReason(reason)
      ? reason.defect
      : Cause.isFailReason(reason)
        ? reason.error
        : undefined
    return SqlError.isSqlError(error) && isDatabaseUnavailable(error)
  })

/** The judge to store: defaults filled in, without the API key. */
const toJudge = (given: NewJudge | undefined): Effect.Effect<Judge | null, InvalidComparison> => {
  if (given === undefined) return Effect.succeed(null)
  if (given.provider.kind === "examples") {
    return Effect.fail(
      new InvalidComparison({
        detail: "A judge is a model: the nearest example cannot judge.",
        errors: [{ pointer: "#/judge/provider/kind", detail: "must be a kind that calls a model" }]
      })
    )
  }
  return Effect.succeed({
    instructions: judgeInstructions(given),
    provider: withProviderDefaults(given.provider)
  })
}

/** A split that leaves nothing to compare, or nothing to answer from. */
const holdOutFaults = (hold_out: HoldOut, compared: number, all: number) =>
  hold_out.kind !== "split" || (compared > 0 && compared < all)
    ? []
    : [
        {
          pointer: "#/hold_out/test_share",
          detail:
            compared === 0
              ? "puts no example into the test part; choose a larger share or another seed"
              : "puts every example into the test part; choose a smaller share or another seed"
        }
      ]

const versionsKey = (versions: ReadonlyArray<VersionRow>): string =>
  versions.map(({ dataset_id }) => dataset_id).join(" ")

const benchmarkFault = (detail: string) =>
  Effect.fail(
    new InvalidComparison({
      detail: `The benchmark ${detail}.`,
      errors: [{ pointer: "#/hold_out/dataset_id", detail }]
    })
  )

const noBenchmark = Effect.fail(
  new NotFound({
    detail: "No such dataset version.",
    errors: [{ pointer: "#/hold_out/dataset_id", detail: "No such dataset version" }]
  })
)

const noDataset = Effect.fail(
  new NotFound({ detail: "The task has no dataset. Create its first version before you compare." })
)

const notVersionOfTask = Effect.fail(
  new NotFound({
    detail: "`candidate.dataset_id` is not a version of this task's dataset.",
    errors: [{ pointer: "#/candidate/dataset_id", detail: "is not a version of this task's dataset" }]
  })
)
