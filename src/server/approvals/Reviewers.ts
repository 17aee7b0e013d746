import { Context, DateTime, type Duration, Effect, Layer, Metric } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import { notFound } from "../../api/notFound.ts"
import type { PageRequest } from "../../api/Pagination.ts"
import {
  type DatasetBaseChanged,
  type DatasetBusy,
  type InvalidHeaders,
  InvalidInput,
  InvalidInstructions,
  type InvalidRequest,
  type InvalidUrl,
  LimitReached,
  type NotFound
} from "../../api/Problems.ts"
import {
  type BacktestReviewer,
  DEFAULT_BACKTEST_DAYS,
  MAX_PROMOTED,
  type NewReviewer,
  type PromoteReviewerExamples,
  type ReviewerAnswerFilter,
  type ReviewerBacktest,
  type ReviewerChange,
  type ReviewerDetail,
  type TermsQuery
} from "../../api/Reviewers.ts"
import { DEFAULT_SAMPLE } from "../../domain/approvals/RuleReviewer.ts"
import {
  DEFAULT_DAILY_CALLS,
  DEFAULT_DAILY_TOKENS,
  MAX_REVIEWERS,
  type Reviewer,
  type ReviewerAnswer,
  type ReviewerState,
  type ReviewerStopReason
} from "../../domain/approvals/Reviewer.ts"
import { amountBand } from "../../domain/approvals/Reviewer/amountBand.ts"
import { countAnswers } from "../../domain/approvals/Reviewer/countAnswers.ts"
import {
  REVIEW_ANSWER_SCHEMA,
  REVIEW_INPUT_SCHEMA,
  reviewInstructions
} from "../../domain/approvals/Reviewer/reviewPrompt.ts"
import { RECENT_APPROVALS, type ReviewerCounts } from "../../domain/approvals/Reviewer/reviewerStanding.ts"
import type { Deletion } from "../../domain/deletion/Deletion.ts"
import {
  ApprovalId,
  type DatasetId,
  type OrgId,
  type ReleaseId,
  type ReviewerAnswerId,
  type TaskId
} from "../../domain/Ids.ts"
import type { Principal } from "../../domain/identity/Principal.ts"
import type { CreatedDataset } from "../../domain/tasks/Dataset.ts"
import { templateVariables } from "../../domain/tasks/InstructionTemplate.ts"
import { Audit } from "../identity/Audit.ts"
import { Organizations } from "../identity/Organizations.ts"
import { Email } from "../notifications/Email.ts"
import { reviewerAnswers } from "../observability/metricDefinitions.ts"
import { StoredUsage } from "../identity/StoredUsage.ts"
import { KnownSecrets } from "../secrets/KnownSecrets.ts"
import { Datasets } from "../tasks/Datasets.ts"
import { keepSessionSubjects, readPromotedExamples } from "./Reviewers/promotedExamples.ts"
import { replayAnswers } from "./Reviewers/replayRows.ts"
import { dieOnDatabaseError } from "../store/databaseErrors.ts"
import type { Page } from "../store/Pagination.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { atomic } from "../store/transaction.ts"
import { Tasks } from "../tasks/Tasks.ts"
import { answerBytes, insertAnswer, listAnswers, type NewAnswer, readCounts } from "./Reviewers/answerRows.ts"
import {
  type AskedReviewer,
  makeAskModel,
  type ReviewerFailed,
  type ReviewerReply
} from "./Reviewers/askModel.ts"
import { compareAnswers, hasOpenAnswers } from "./Reviewers/compareAnswers.ts"
import { readFigures } from "./Reviewers/figures.ts"
import type { ReviewedStep } from "./Reviewers/readInput.ts"
import {
  countReviewers,
  findReviewer,
  insertReviewer,
  listReviewers,
  markRestored,
  markStopped,
  toReviewer,
  updateReviewer
} from "./Reviewers/rows.ts"

/** The record of a reviewer model on the tool and the amount of a step. */
export interface ReviewerRight {
  readonly state: ReviewerState
  /** The tools about which it is asked. */
  readonly tools: ReadonlyArray<string>
  /** A decision is written only while the reviewer has this generation. */
  readonly generation: number
  /** The release that the counts are about, and the dataset version of its examples; null: none. */
  readonly release_id: ReleaseId
  readonly dataset_id: DatasetId | null
  /** The number of the band of the amount; -1: the arguments have no amount, so that the model cannot decide. */
  readonly band: number
  readonly counts: ReviewerCounts
}

/** Reviewer models: tasks that answer like reviewers about steps that wait for people, and are measured against them. */
export class Reviewers extends Context.Service<
  Reviewers,
  {
    /** Lists the reviewer models, oldest first. */
    readonly list: Effect.Effect<ReadonlyArray<Reviewer>, never, Authorized<"approvals.read">>
    /** Creates a task of the fixed kind, whose model is asked from then on. */
    readonly create: (
      input: NewReviewer
    ) => Effect.Effect<
      Reviewer,
      InvalidInstructions | InvalidUrl | InvalidHeaders | LimitReached,
      Authorized<"rules.write">
    >
    /** Returns a reviewer model with its figures, and whether these hold bounds. */
    readonly get: (
      id: TaskId,
      terms: TermsQuery
    ) => Effect.Effect<ReviewerDetail, NotFound, Authorized<"approvals.read">>
    /** Changes the tools and the daily limits. */
    readonly update: (
      id: TaskId,
      change: ReviewerChange
    ) => Effect.Effect<Reviewer, NotFound, Authorized<"rules.write">>
    /** Deletes a reviewer model with its task. */
    readonly remove: (
      id: TaskId
    ) => Effect.Effect<Deletion, NotFound | DatasetBusy, Authorized<"data.delete">>
    /** Sends every step back to people. Idempotent. */
    readonly stop: (id: TaskId) => Effect.Effect<Reviewer, NotFound, Authorized<"rules.write">>
    /** Lets a stopped reviewer model decide again. Idempotent. */
    readonly restore: (id: TaskId) => Effect.Effect<Reviewer, NotFound, Authorized<"rules.write">>
    /** Lists answers that may be shown, newest first. */
    readonly answers: (
      id: TaskId,
      request: PageRequest<ReviewerAnswerId> & ReviewerAnswerFilter
    ) => Effect.Effect<Page<ReviewerAnswer, ReviewerAnswerId>, NotFound, Authorized<"approvals.read">>
    /** Computes the decisions that the live release would have made within bounds, from the recorded answers. */
    readonly backtest: (
      id: TaskId,
      input: BacktestReviewer
    ) => Effect.Effect<ReviewerBacktest, NotFound, Authorized<"approvals.read">>
    /** Creates the next version of the task's dataset from decisions of people. */
    readonly promote: (
      id: TaskId,
      input: PromoteReviewerExamples
    ) => Effect.Effect<
      CreatedDataset,
      NotFound | InvalidInput | InvalidRequest | DatasetBaseChanged | DatasetBusy | LimitReached,
      Authorized<"datasets.write">
    >

    /**
     * Asks the model of a reviewer about a step, and records what that used. Ends within `timeout`. Holds no connection of the database while
     * it waits for the model. Nothing else is written: see `record`.
     */
    readonly askReviewer: (
      reviewer: AskedReviewer,
      step: ReviewedStep,
      timeout: Duration.Duration
    ) => Effect.Effect<ReviewerReply, ReviewerFailed>
    /** Reads the record of a reviewer model on steps like this one, with all decisions of people until now. Undefined: there is no such reviewer. */
    readonly rightOf: (
      org_id: OrgId,
      id: TaskId,
      step: Pick<ReviewedStep, "arguments" | "tool">
    ) => Effect.Effect<ReviewerRight | undefined>
    /** Stores an answer, unless the step has one of this reviewer already. Returns whether it was stored. */
    readonly record: (answer: NewAnswer) => Effect.Effect<boolean>
    /** Sends every step back to people, by the service itself, and notifies admins. Returns whether the reviewer was not stopped before. */
    readonly stopReviewer: (org_id: OrgId, id: TaskId, reason: ReviewerStopReason) => Effect.Effect<boolean>
    /** Compares the answers of a reviewer model with the decisions of people that were made since. Returns how many were compared. */
    readonly compare: (org_id: OrgId, id: TaskId) => Effect.Effect<number>
  }
>()("countersign/server/approvals/Reviewers") {
  static readonly layer = Layer.effect(
    Reviewers,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const audit = yield* Audit
      const email = yield* Email
      const clock = yield* StoreClock
      const datasets = yield* Datasets
      const organizations = yield* Organizations
      const secrets = yield* KnownSecrets
      const tasks = yield* Tasks
      const usage = yield* StoredUsage
      const store = { sql, clock }
      const askReviewer = yield* makeAskModel
      for (const answer of ["approve", "reject", "unsure", "failed"])
        yield* Metric.update(reviewerAnswers("shadow", answer), 0)
      for (const answer of ["approve", "reject"]) yield* Metric.update(reviewerAnswers("decided", answer), 0)

      const find = Effect.fnUntraced(function* (org_id: OrgId, id: TaskId) {
        return (yield* Effect.orDie(findReviewer(store, org_id, id))) ?? (yield* notFound("reviewer"))
      })

      const compare = Effect.fn("Reviewers.compare")(function* (org_id: OrgId, id: TaskId) {
        let compared = 0
        while (compared < MAX_COMPARED && (yield* hasOpenAnswers(sql, org_id, id)))
          compared += yield* atomically(compareAnswers(sql, org_id, id))
        return compared
      }, Effect.orDie)

      const record = Effect.fn("Reviewers.record")(function* (answer: NewAnswer) {
        const isStored = yield* atomically(insertAnswer(sql, answer))
        if (isStored) {
          usage.add(answer.org_id, { bytes: answerBytes(answer.reason) })
          yield* Metric.update(reviewerAnswers(answer.mode, answer.decision ?? "failed"), 1)
        }
        return isStored
      }, Effect.orDie)

      const changeState = (
        principal: Principal,
        id: TaskId,
        action: "reviewer.restored" | "reviewer.stopped",
        change: (org_id: OrgId) => ReturnType<typeof markRestored>
      ) =>
        atomically(
          Effect.gen(function* () {
            const { org_id } = principal
            if (yield* change(org_id)) yield* audit.record(principal, action, id)
            return toReviewer(yield* find(org_id, id))
          })
        )

      return Reviewers.of({
        askReviewer,
        compare,
        record,
        list: Effect.gen(function* () {
          const { org_id } = yield* Authorized("approvals.read")
          return (yield* Effect.orDie(listReviewers(store, org_id))).map(toReviewer)
        }).pipe(Effect.withSpan("Reviewers.list")),
        create: Effect.fn("Reviewers.create")(function* (input) {
          const principal = yield* Authorized("rules.write")
          const { actor, org_id } = principal
          const { amount = null, daily_calls, daily_tokens, instructions = "", name, provider, tools } = input
          const [variable] = templateVariables(instructions)
          if (variable !== undefined) return yield* noVariables(variable.text)
          const last_approval_id = ApprovalId.lowerBound(yield* clock.now)
          return yield* atomically(
            Effect.gen(function* () {
              yield* organizations.lockForUpdate(org_id)
              if ((yield* countReviewers(store, org_id)) >= MAX_REVIEWERS) return yield* tooManyReviewers
              const task = yield* (
                tasks
                  .createAs(
                    principal,
                    {
                      name,
                      provider,
                      instructions: reviewInstructions(instructions),
                      input_schema: REVIEW_INPUT_SCHEMA,
                      answer_schema: REVIEW_ANSWER_SCHEMA
                    },
                    "reviewer.created"
                  )
                  // The schemas are fixed.
                  .pipe(Effect.catchTag("INVALID_SCHEMA", Effect.die))
              )
              yield* insertReviewer(store, {
                org_id,
                task_id: task.id,
                tools,
                amount,
                daily_calls: daily_calls ?? DEFAULT_DAILY_CALLS,
                daily_tokens: daily_tokens ?? DEFAULT_DAILY_TOKENS,
                last_approval_id,
                created_by_id: actor.id,
                created_by_name: actor.name
              })
              return toReviewer(yield* Effect.orDie(find(org_id, task.id)))
            })
          )
        }, dieOnDatabaseError),
        get: Effect.fn("Reviewers.get")(function* (id, query) {
          const { org_id } = yield* Authorized("approvals.read")
          const row = yield* find(org_id, id)
          yield* compare(org_id, id)
          return { reviewer: toReviewer(row), figures: yield* readFigures(store, row, query) }
        }),
        update: Effect.fn("Reviewers.update")(function* (id, change) {
          const principal = yield* Authorized("rules.write")
          const { org_id } = principal
          return yield* atomically(
            Effect.gen(function* () {
              yield* find(org_id, id)
              yield* updateReviewer(store, org_id, id, change)
              yield* audit.record(principal, "reviewer.updated", id, { changed: Object.keys(change) })
              return toReviewer(yield* find(org_id, id))
            })
          )
        }, dieOnDatabaseError),
        remove: Effect.fn("Reviewers.remove")(function* (id) {
          const { org_id } = yield* Authorized("data.delete")
          yield* find(org_id, id)
          return yield* tasks.remove(id)
        }),
        stop: Effect.fn("Reviewers.stop")(function* (id) {
          const principal = yield* Authorized("rules.write")
          return yield* changeState(principal, id, "reviewer.stopped", (org_id) =>
            markStopped(store, org_id, id, "by_person", principal.actor)
          )
        }),
        restore: Effect.fn("Reviewers.restore")(function* (id) {
          const principal = yield* Authorized("rules.write")
          return yield* changeState(principal, id, "reviewer.restored", (org_id) =>
            markRestored(store, org_id, id)
          )
        }),
        answers: Effect.fn("Reviewers.answers")(function* (id, request) {
          const { org_id } = yield* Authorized("approvals.read")
          yield* find(org_id, id)
          yield* compare(org_id, id)
          // Comparing may have stopped it.
          const reviewer = yield* find(org_id, id)
          return yield* Effect.orDie(listAnswers(sql, reviewer, request))
        }),
        backtest: Effect.fn("Reviewers.backtest")(function* (id, input) {
          const { org_id } = yield* Authorized("approvals.read")
          const { days = DEFAULT_BACKTEST_DAYS, sample = DEFAULT_SAMPLE, ...terms } = input
          const row = yield* find(org_id, id)
          yield* compare(org_id, id)
          const since = DateTime.subtract(yield* clock.now, { days })
          return yield* Effect.orDie(replayAnswers(sql, row, { since, sample, terms }))
        }),
        promote: Effect.fn("Reviewers.promote")(function* (id, { limit = MAX_PROMOTED }) {
          const { org_id } = yield* Authorized("datasets.write")
          const row = yield* find(org_id, id)
          const known = yield* secrets.forOrg(org_id)
          const examples = yield* Effect.orDie(readPromotedExamples(sql, known, row, limit))
          if (examples.length === 0) return yield* noDecisions
          return yield* atomically(
            Effect.gen(function* () {
              const created = yield* datasets.create(id, {
                base_dataset_id: row.newest_dataset_id,
                examples
              })
              yield* Effect.orDie(keepSessionSubjects(sql, org_id, created))
              return created
            })
          )
        }),
        rightOf: Effect.fn("Reviewers.rightOf")(function* (org_id, id, step) {
          const row = yield* findReviewer(store, org_id, id)
          if (row === undefined) return undefined
          yield* compare(org_id, id)
          const band = amountBand(row.amount, step.arguments)
          const { counted, newest } = yield* readCounts(sql, row, {
            group: { tool: step.tool, band },
            weeksSince: null,
            recent: RECENT_APPROVALS
          })
          const { generation, live_dataset_id: dataset_id, release_id, state, tools } = row
          return {
            state,
            tools,
            generation,
            release_id,
            dataset_id,
            band,
            counts: countAnswers(counted, newest[0]).counts
          }
        }, Effect.orDie),
        stopReviewer: Effect.fn("Reviewers.stopReviewer")(function* (org_id, id, reason) {
          return yield* atomically(
            Effect.gen(function* () {
              const isChanged = yield* markStopped(store, org_id, id, reason, null)
              if (!isChanged) return false
              const author = { org_id, actor: null }
              const entry_id = yield* audit.record(author, "reviewer.stopped", id, {
                stopped_reason: reason
              })
              yield* email.notifyAdmins(org_id, "reviewer.stopped", entry_id)
              return true
            })
          )
        }, Effect.orDie)
      })
    })
  )
}

/** Answers that one call of `compare` compares at most. */
const MAX_COMPARED = 10_000

const noVariables = (text: string) =>
  new InvalidInstructions({
    detail: `A reviewer's instructions have no variables, because arguments must not become instructions: ${text}. Remove it; the model gets the whole step as data.`,
    errors: [{ pointer: "#/instructions", detail: "Expected no variables" }]
  })

const noDecisions = Effect.fail(
  new InvalidInput({
    detail:
      "No decision of a person on the reviewer's tools can become an example: decide approvals of these tools first.",
    errors: []
  })
)

const tooManyReviewers = Effect.fail(
  new LimitReached({
    detail: `An organization can have at most ${MAX_REVIEWERS} reviewer models. Delete one first.`
  })
)
