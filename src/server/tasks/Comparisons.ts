import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import type { ComparisonDetail, NewComparison } from "../../api/Comparisons.ts"
import { notFound } from "../../api/notFound.ts"
import type { PageRequest } from "../../api/Pagination.ts"
import {
  type InsufficientScope,
  InvalidComparison,
  type InvalidHeaders,
  type InvalidInstructions,
  type InvalidUrl,
  LimitReached,
  NotFound,
  type ProviderKeyExists
} from "../../api/Problems.ts"
import { nothingSpent, withBudgetDefaults } from "../../domain/tasks/Budget.ts"
import type { Comparison, ComparisonResult, Outcome } from "../../domain/tasks/Comparison.ts"
import { newTally } from "../../domain/tasks/ComparisonTally.ts"
import { withEvaluatorDefaults } from "../../domain/tasks/Evaluator.ts"
import { evaluatorFaults } from "../../domain/tasks/evaluatorFaults.ts"
import { type HoldOut, withHoldOutDefaults } from "../../domain/tasks/HoldOut.ts"
import { ComparisonId, type TaskId } from "../../domain/Ids.ts"
import { type Judge, judgeInstructions, type NewJudge } from "../../domain/tasks/Judge.ts"
import { withProviderDefaults } from "../../domain/tasks/Provider.ts"
import { Audit } from "../identity/Audit.ts"
import { Organizations } from "../identity/Organizations.ts"
import { StoredUsage } from "../identity/StoredUsage.ts"
import { dieOnDatabaseError } from "../store/databaseErrors.ts"
import { atomic } from "../store/transaction.ts"
import type { Page } from "../store/Pagination.ts"
import { StoreClock } from "../store/StoreClock.ts"
import {
  checkAhead,
  countAhead,
  lockBenchmark,
  requireApart,
  toBenchmark,
  versionsKey
} from "./Comparisons/benchmarks.ts"
import { budgetFaults, repeated } from "./Comparisons/budgetFaults.ts"
import {
  cancelComparison,
  type ComparisonRow,
  countRunning,
  findComparison,
  fromSpent,
  insertComparison,
  listComparisons,
  listResults,
  type ResultsRequest,
  toComparison
} from "./Comparisons/rows.ts"
import { ComparisonRuns } from "./ComparisonRuns.ts"
import { checkInstructions } from "./checkInstructions.ts"
import { countCompared } from "./Datasets/heldOut.ts"
import { findVersion, getVersion } from "./Datasets/versionRows.ts"
import { getRelease } from "./Releases/rows.ts"
import { Tasks } from "./Tasks.ts"
import { findTask } from "./Tasks/rows.ts"
import { requireTask } from "./requireTask.ts"

/** Faults that a refusal names at most, as for other requests. */
const MAX_FAULTS = 20

/** The running comparisons of one organization. */
const MAX_RUNNING = 20

/** Compares candidates with the live release: stores what is to be compared, which `ComparisonRuns` runs. */
export class Comparisons extends Context.Service<
  Comparisons,
  {
    /** Lists a task's comparisons, newest first. */
    readonly list: (
      task_id: TaskId,
      request: PageRequest<ComparisonId>
    ) => Effect.Effect<Page<Comparison, ComparisonId>, NotFound, Authorized<"tasks.read">>
    /** Returns the comparison and a page of its results, without their contents for a key without `datasets.read`. */
    readonly get: (
      id: ComparisonId,
      request: ResultsRequest
    ) => Effect.Effect<ComparisonDetail, NotFound, Authorized<"tasks.read">>
    /** Stores a new comparison. A worker of this or another replica (`ComparisonRuns.layerWorkers`) runs it. */
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
      | InsufficientScope
      | InvalidComparison,
      Authorized<"tasks.write">
    >
    /** Ends a running comparison. One that has ended is returned unchanged. */
    readonly cancel: (id: ComparisonId) => Effect.Effect<Comparison, NotFound, Authorized<"tasks.write">>
  }
>()("countersign/server/tasks/Comparisons") {
  static readonly layer = Layer.effect(
    Comparisons,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const audit = yield* Audit
      const usage = yield* StoredUsage
      const clock = yield* StoreClock
      const organizations = yield* Organizations
      const tasks = yield* Tasks
      const runs = yield* ComparisonRuns

      return Comparisons.of({
        list: Effect.fn("Comparisons.list")(function* (task_id, request) {
          const { org_id } = yield* Authorized("tasks.read")
          const page = yield* Effect.orDie(listComparisons(sql, org_id, task_id, request))
          if (page.items.length === 0) yield* requireTask(sql, org_id, task_id)
          return page
        }),
        get: Effect.fn("Comparisons.get")(function* (id, request) {
          const { org_id, scopes } = yield* Authorized("tasks.read")
          const row = yield* Effect.orDie(findComparison(sql, org_id, id))
          if (row === undefined) return yield* notFound("comparison")
          const results = yield* Effect.orDie(listResults(sql, row, request))
          return {
            comparison: toComparison(row),
            results: scopes.has("datasets.read") ? results.items : results.items.map(withoutContents),
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
              ? yield* toBenchmark(sql, org_id, task_id, held.dataset_id)
              : withHoldOutDefaults(held)
          const judge = yield* toJudge(asked)
          const counted = yield* countAhead(sql, org_id, task_id, hold_out)
          const apart = yield* checkAhead(sql, org_id, task_id, hold_out, candidate.dataset_id)
          const now = yield* clock.now
          return yield* atomically(
            Effect.gen(function* () {
              // Serializes creations of the organization, so that concurrent ones cannot exceed the limit.
              yield* organizations.lockForUpdate(org_id)
              const task = yield* findTask(sql, org_id, task_id, "FOR NO KEY UPDATE")
              yield* checkInstructions(candidate.instructions, task.input_schema, "#/candidate/instructions")
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
                hold_out.kind === "benchmark" ? yield* lockBenchmark(sql, org_id, hold_out) : newest
              if (hold_out.kind === "benchmark") {
                const seen = live.dataset_id === null ? [] : [yield* getVersion(sql, org_id, live.dataset_id)]
                const versions = [candidateVersion, ...seen] as const
                // Another version or release was made since it was checked.
                if (versionsKey(versions) !== apart) yield* requireApart(sql, org_id, compared, versions)
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
              yield* tasks.addKey(principal, task_id, candidate.provider, "#/candidate/provider", now)
              yield* tasks.addKey(principal, task_id, asked?.provider, "#/judge/provider", now)
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
              yield* sql.afterCommit(runs.wake)
              return toComparison(row)
            })
          )
        })
      })
    })
  )
}

/** A result without the contents of its example and of the answers. The judge's reason can quote them. */
const withoutContents = (result: ComparisonResult): ComparisonResult => {
  const hide = (outcome: Outcome): Outcome => ({
    ...outcome,
    answer: null,
    verdict: outcome.verdict === null ? null : { ...outcome.verdict, reason: "" }
  })
  return {
    ...result,
    input: null,
    expected: null,
    candidate: hide(result.candidate),
    live: hide(result.live)
  }
}

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

const noDataset = Effect.fail(
  new NotFound({ detail: "The task has no dataset. Create its first version before you compare." })
)

const notVersionOfTask = Effect.fail(
  new NotFound({
    detail: "`candidate.dataset_id` is not a version of this task's dataset.",
    errors: [{ pointer: "#/candidate/dataset_id", detail: "is not a version of this task's dataset" }]
  })
)
