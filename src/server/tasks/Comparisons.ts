import { Context, DateTime, Duration, Effect, Layer, Option, Queue } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import type { ComparisonDetail, NewComparison } from "../../api/Comparisons.ts"
import type { PageRequest } from "../../api/Pagination.ts"
import { type InvalidUrl, LimitReached, NotFound, type ProviderKeyExists } from "../../api/Problems.ts"
import type { Comparison } from "../../domain/tasks/Comparison.ts"
import { emptyTally } from "../../domain/tasks/ComparisonTally.ts"
import { ComparisonId, type ExampleId, type TaskId } from "../../domain/Ids.ts"
import { withProviderDefaults } from "../../domain/tasks/Provider.ts"
import type { JsonSchema } from "../../domain/tasks/Task.ts"
import { Audit } from "../identity/Audit.ts"
import { claimComparison, renewLease, recordBatch } from "./Comparisons/lease.ts"
import {
  type ComparisonRow,
  countRunning,
  findComparison,
  insertComparison,
  listComparisons,
  listResults,
  toComparison
} from "./Comparisons/rows.ts"
import { compareBatch, loadJob } from "./Comparisons/compareBatch.ts"
import { atomic } from "../store/Database/transaction.ts"
import { findVersion } from "./Datasets/versionRows.ts"
import { Organizations } from "../identity/Organizations.ts"
import { type Page, toPage } from "../store/Pagination.ts"
import { Providers } from "./Providers.ts"
import { CompiledSchemas } from "./CompiledSchemas.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { Tasks } from "./Tasks.ts"
import { findTask, requireTask } from "./Tasks/rows.ts"

/** The most comparisons of one organization that are at work. */
const MAX_RUNNING = 20

/** Comparisons that one process works at. */
const MAX_CONCURRENT = 4

/** How long one comparison is worked at before others that wait have their turn. */
const TIME_SLICE = Duration.seconds(30)

/**
 * How often the store is asked for comparisons that nothing in this process announced: taken in by another replica, or left by one that
 * died.
 */
const POLL_INTERVAL = Duration.seconds(2)

/** How long a lane keeps still after something went wrong. */
const RETRY_DELAY = Duration.seconds(5)

/** How comparisons are held. */
export interface ComparisonsOptions {
  /** How long one is held without a word: after that, whoever comes takes it over. Default 15 s. */
  readonly lease?: Duration.Input
}

/** What one round did. */
export interface ComparisonRun {
  readonly comparison_id: ComparisonId
  /** Examples that were compared. */
  readonly compared: number
  readonly completed: boolean
}

/**
 * Candidates against the live release. A comparison's state is the store's: how far it is, and who works at it. Whoever dies leaves at most
 * a few examples that are asked again.
 */
export class Comparisons extends Context.Service<
  Comparisons,
  {
    readonly list: (
      task_id: TaskId,
      request: PageRequest<ComparisonId>
    ) => Effect.Effect<Page<Comparison, ComparisonId>, NotFound, Authorized<"tasks.read">>
    /** The comparison, and a page of its results. */
    readonly get: (
      id: ComparisonId,
      request: PageRequest<ExampleId>
    ) => Effect.Effect<ComparisonDetail, NotFound, Authorized<"tasks.read">>
    /** Takes a comparison in. The work is done by `layerLoop`, here or in another replica. */
    readonly create: (
      task_id: TaskId,
      input: NewComparison
    ) => Effect.Effect<
      Comparison,
      NotFound | InvalidUrl | LimitReached | ProviderKeyExists,
      Authorized<"tasks.write">
    >
    /** Takes on one comparison that nobody holds, and works at it for its turn or to its end. None where there is none. */
    readonly runOnce: Effect.Effect<Option.Option<ComparisonRun>>
    /** Waits until there may be something to do. */
    readonly awaitWork: Effect.Effect<void>
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
        const clock = yield* StoreClock
        const organizations = yield* Organizations
        const providers = yield* Providers
        const shapes = yield* CompiledSchemas
        const tasks = yield* Tasks
        const news = yield* Queue.sliding<void>(MAX_CONCURRENT)

        const shapeOf = (schema: JsonSchema) => Effect.orDie(shapes.compile(schema))

        /** Says again and again that a comparison is held; ends when it no longer is. */
        const keepHeld = (row: ComparisonRow) =>
          Effect.gen(function* () {
            let held = true
            while (held) {
              yield* Effect.sleep(Duration.times(lease, 1 / 3))
              held = yield* renewLease(sql, row, DateTime.addDuration(yield* clock.now, lease))
            }
          })

        const work = Effect.fnUntraced(function* (taken: ComparisonRow) {
          const subject = yield* loadJob(sql, taken, shapeOf)
          const turnEnds = DateTime.addDuration(yield* clock.now, TIME_SLICE)
          const isTurnOver = Effect.map(clock.now, DateTime.isGreaterThanOrEqualTo(turnEnds))
          let row = taken
          while (row.status === "running" && !(yield* isTurnOver)) {
            const done = yield* compareBatch(sql, providers, subject, row, isTurnOver)
            const now = yield* clock.now
            if (!(yield* atomically(recordBatch(sql, done, now, lease)))) break
            row = done.row
          }
          return row
        })

        const runOnce = Effect.gen(function* () {
          const claimed = yield* Effect.orDie(claimComparison(sql, yield* clock.now, lease))
          if (Option.isNone(claimed)) return Option.none()
          const taken = claimed.value
          const row = yield* work(taken).pipe(
            Effect.raceFirst(Effect.as(keepHeld(taken), taken)),
            // Left in order, also at a stop: the next one need not wait until the lease is over.
            Effect.ensuring(Effect.ignore(Effect.flatMap(clock.now, (now) => renewLease(sql, taken, now)))),
            Effect.orDie
          )
          return Option.some({
            comparison_id: row.comparison_id,
            compared: row.compared - taken.compared,
            completed: row.status === "completed"
          })
        }).pipe(Effect.withSpan("Comparisons.runOnce"))

        return Comparisons.of({
          runOnce,
          awaitWork: Effect.raceFirst(Queue.take(news), Effect.sleep(POLL_INTERVAL)),
          list: Effect.fn("Comparisons.list")(function* (task_id, request) {
            const { org_id } = yield* Authorized("tasks.read")
            const rows = yield* Effect.orDie(listComparisons(sql, org_id, task_id, request))
            if (rows.length === 0) yield* requireTask(sql, org_id, task_id)
            return toPage(request, rows.map(toComparison), (comparison) => comparison.id)
          }),
          get: Effect.fn("Comparisons.get")(function* (id, request) {
            const { org_id } = yield* Authorized("tasks.read")
            const found = yield* Effect.orDie(findComparison(sql, org_id, id))
            if (Option.isNone(found)) return yield* noComparison
            const results = yield* Effect.orDie(listResults(sql, found.value, request))
            return {
              comparison: toComparison(found.value),
              results: results.items,
              next_cursor: results.next_cursor
            }
          }),
          create: Effect.fn("Comparisons.create")(function* (task_id, { candidate = {} }) {
            const principal = yield* Authorized("tasks.write")
            const { actor, org_id } = principal
            yield* tasks.vetProvider(candidate.provider, "#/candidate/provider")
            const now = yield* clock.now
            return yield* atomically(
              Effect.gen(function* () {
                // One comparison of an organization at a time begins, or the limit could be passed by a race.
                yield* organizations.lockForUpdate(org_id)
                const task = yield* findTask(sql, org_id, task_id, "FOR NO KEY UPDATE")
                if (task.dataset_id === null) return yield* noDataset
                if ((yield* countRunning(sql, org_id)) >= MAX_RUNNING) {
                  return yield* new LimitReached({
                    detail: `An organization has ${MAX_RUNNING} comparisons at work at most: wait for one to end`
                  })
                }
                const newest = Option.getOrThrow(yield* findVersion(sql, org_id, task.dataset_id))
                const chosen =
                  candidate.dataset_id === undefined
                    ? Option.some(newest)
                    : yield* findVersion(sql, org_id, candidate.dataset_id)
                if (Option.isNone(chosen) || chosen.value.task_id !== task_id) return yield* noVersion
                yield* tasks.addKey(org_id, task_id, candidate.provider, "#/candidate/provider", now)
                const row: ComparisonRow = {
                  org_id,
                  comparison_id: yield* ComparisonId.generate,
                  task_id,
                  task_revision: task.revision,
                  live_release_id: task.live_release_id,
                  candidate_instructions: candidate.instructions ?? task.instructions,
                  candidate_provider:
                    candidate.provider === undefined
                      ? task.provider
                      : withProviderDefaults(candidate.provider),
                  candidate_dataset_id: chosen.value.dataset_id,
                  dataset_id: newest.dataset_id,
                  status: "running",
                  example_count: newest.example_count,
                  compared: 0,
                  last_example_id: null,
                  tally: emptyTally,
                  lease_epoch: 0,
                  created_at: now,
                  created_by_id: actor.id,
                  created_by_name: actor.name,
                  finished_at: null
                }
                yield* insertComparison(sql, row)
                yield* audit.record(principal, "comparison.created", row.comparison_id, {
                  task_id,
                  dataset_id: row.dataset_id
                })
                yield* sql.afterCommit(Effect.asVoid(Queue.offer(news, undefined)))
                return toComparison(row)
              })
            )
          })
        })
      })
    )

  /** Works at comparisons, a few at a time, for as long as the layer lives. */
  static readonly layerLoop: Layer.Layer<never, never, Comparisons> = Layer.effectDiscard(
    Effect.gen(function* () {
      const comparisons = yield* Comparisons
      const lane = comparisons.runOnce.pipe(
        Effect.flatMap(Option.match({ onNone: () => comparisons.awaitWork, onSome: () => Effect.void })),
        Effect.catchCause((cause) =>
          Effect.andThen(
            Effect.logWarning("A comparison could not be worked at; trying again", cause),
            Effect.sleep(RETRY_DELAY)
          )
        ),
        Effect.forever
      )
      for (let index = 0; index < MAX_CONCURRENT; index++) yield* Effect.forkScoped(lane)
    })
  )
}

const noComparison = Effect.fail(new NotFound({ detail: "There is no such comparison in this organization" }))

const noDataset = Effect.fail(
  new NotFound({ detail: "The task has no dataset to compare over: make its first version" })
)

const noVersion = Effect.fail(
  new NotFound({
    detail: "There is no such dataset of this task",
    errors: [{ pointer: "#/candidate/dataset_id", detail: "There is no such dataset of this task" }]
  })
)
