import { Cause, Context, DateTime, Duration, Effect, Layer, Metric, Option, Queue } from "effect"
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
  DEFAULT_TERMS,
  MAX_REVIEWERS,
  type Reviewer,
  type ReviewerAmount,
  type ReviewerAnswer,
  type ReviewerFigures,
  type ReviewerState,
  type ReviewerStopReason
} from "../../domain/approvals/Reviewer.ts"
import { amountBand, bandAt } from "../../domain/approvals/Reviewer/amountBand.ts"
import { countAnswers, weeksOf } from "../../domain/approvals/Reviewer/countAnswers.ts"
import {
  REVIEW_ANSWER_SCHEMA,
  REVIEW_INPUT_SCHEMA,
  reviewInstructions
} from "../../domain/approvals/Reviewer/reviewPrompt.ts"
import {
  missingDecisions,
  RECENT_APPROVALS,
  type ReviewerCounts,
  reviewerStanding,
  type ReviewerTerms
} from "../../domain/approvals/Reviewer/reviewerStanding.ts"
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
import { doShadowWork, type ShadowRun } from "./Reviewers/shadowWork.ts"
import { runWorker, startWorkers } from "../concurrency/Worker.ts"
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
import type { ReviewedStep } from "./Reviewers/readInput.ts"
import {
  claimReviewer,
  countClaimable,
  countReviewers,
  findReviewer,
  insertReviewer,
  listReviewers,
  markRestored,
  markStopped,
  releaseLease,
  renewLease,
  type ReviewerLease,
  type ReviewerRow,
  toReviewer,
  updateReviewer
} from "./Reviewers/rows.ts"

export type { NewAnswer } from "./Reviewers/answerRows.ts"
export { type AskedReviewer, ReviewerFailed, type ReviewerReply } from "./Reviewers/askModel.ts"
export type { ReviewedStep } from "./Reviewers/readInput.ts"

/** Weeks whose figures are told apart. */
const MAX_WEEKS = 26

/** Reviewers that one replica works on concurrently. */
const MAX_CONCURRENT = 4

/** How often a replica looks for new approvals and decisions. One look serves all workers. */
const POLL_INTERVAL = Duration.seconds(1)

/** Pause of a reviewer whose model gave no answer, and of a worker after a failed run. */
const FAILURE_PAUSE = Duration.seconds(30)
const RETRY_DELAY = Duration.seconds(5)

/** Options of the workers. */
export interface ReviewersOptions {
  /** Lease duration: after a crash, another replica takes over when the lease expires. Renewed at a third of it. Default 15 s. */
  readonly lease?: Duration.Input
}

/** The result of a run whose lease another replica has taken. */
const interruptedRun: ShadowRun = { answered: 0, failed: 0, isFailing: false, isOver: false }

/** What a reviewer model has shown about the tool and the amount of a step. */
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
    /** Computes what the live release would have decided within bounds, from the recorded answers. */
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
    /** Reads what a reviewer model has shown about steps like this one, with all decisions of people until now. Undefined: there is no such reviewer. */
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

    /** Claims one reviewer model with work, asks it about new approvals and compares its answers. None if there is no work. */
    readonly runOnce: Effect.Effect<Option.Option<ShadowRun>>
    /** Finds reviewer models with work and wakes a worker for each, up to the number of workers. Returns how many. */
    readonly poll: Effect.Effect<number>
    /** Completes when `poll` has found work. */
    readonly awaitWork: Effect.Effect<void>
  }
>()("countersign/server/approvals/Reviewers") {
  static readonly layer = (options: ReviewersOptions = {}) =>
    Layer.effect(
      Reviewers,
      Effect.gen(function* () {
        const lease = Duration.fromInputUnsafe(options.lease ?? "15 seconds")
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
        const wakeUps = yield* Queue.sliding<void>(MAX_CONCURRENT)
        for (const answer of ["approve", "reject", "unsure", "failed"])
          yield* Metric.update(reviewerAnswers("shadow", answer), 0)
        for (const answer of ["approve", "reject"])
          yield* Metric.update(reviewerAnswers("decided", answer), 0)

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

        /** Renews the lease at a third of its duration. Ends when another replica has claimed the reviewer. */
        const heartbeat = (claimed: ReviewerLease) =>
          Effect.gen(function* () {
            let isOwner = true
            while (isOwner) {
              yield* Effect.sleep(Duration.times(lease, 1 / 3))
              isOwner = yield* renewLease(store, claimed, lease)
            }
            return interruptedRun
          })

        const runOnce = Effect.gen(function* () {
          const claimed = yield* claimReviewer(store, lease)
          if (claimed === undefined) return Option.none()
          const row = yield* findReviewer(store, claimed.org_id, claimed.task_id)
          // Its task was deleted meanwhile.
          if (row === undefined) return Option.none()
          const run = yield* doShadowWork({ ...store, ask: askReviewer, record, compare }, claimed, row).pipe(
            Effect.raceFirst(heartbeat(claimed)),
            // Also on shutdown, so that the next owner need not wait for the lease to expire.
            Effect.onError((cause) =>
              Effect.ignore(
                releaseLease(store, claimed, Cause.hasInterruptsOnly(cause) ? Duration.zero : FAILURE_PAUSE)
              )
            )
          )
          yield* releaseLease(store, claimed, run.isFailing ? FAILURE_PAUSE : Duration.zero)
          return Option.some(run)
        }).pipe(Effect.orDie, Effect.withSpan("Reviewers.runOnce"))

        const poll = Effect.gen(function* () {
          const claimable = yield* countClaimable(store, MAX_CONCURRENT)
          yield* Queue.offerAll(
            wakeUps,
            Array.from({ length: claimable }, () => undefined)
          )
          return claimable
        }).pipe(Effect.orDie)

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
          runOnce,
          poll,
          awaitWork: Queue.take(wakeUps),
          list: Effect.gen(function* () {
            const { org_id } = yield* Authorized("approvals.read")
            return (yield* Effect.orDie(listReviewers(store, org_id))).map(toReviewer)
          }).pipe(Effect.withSpan("Reviewers.list")),
          create: Effect.fn("Reviewers.create")(function* (input) {
            const principal = yield* Authorized("rules.write")
            const { actor, org_id } = principal
            const {
              amount = null,
              daily_calls,
              daily_tokens,
              instructions = "",
              name,
              provider,
              tools
            } = input
            const [variable] = templateVariables(instructions)
            if (variable !== undefined) return yield* noVariables(variable.text)
            const last_approval_id = yield* ApprovalId.lowerBoundAgo(0)
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
            return { reviewer: toReviewer(row), figures: yield* readFigures(row, query) }
          }),
          update: Effect.fn("Reviewers.update")(function* (id, change) {
            const principal = yield* Authorized("rules.write")
            const { org_id } = principal
            return yield* atomically(
              Effect.gen(function* () {
                const row = yield* find(org_id, id)
                yield* updateReviewer(store, { ...row, ...change })
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

        function readFigures(row: ReviewerRow, query: TermsQuery) {
          return Effect.gen(function* () {
            const now = yield* clock.now
            const { counted, newest } = yield* Effect.orDie(
              readCounts(sql, row, {
                weeksSince: DateTime.subtract(now, { weeks: MAX_WEEKS }),
                recent: RECENT_APPROVALS
              })
            )
            return groupsOf(counted).map((group) =>
              toFigures(
                row.amount,
                group,
                newest.find(({ band, tool }) => tool === group.tool && band === group.band),
                { ...DEFAULT_TERMS, ...query }
              )
            )
          })
        }
      })
    )

  /** Runs the workers for as long as the layer is built. */
  static readonly layerWorkers: Layer.Layer<never, never, Reviewers> = Layer.effectDiscard(
    Effect.gen(function* () {
      const reviewers = yield* Reviewers
      const worker = runWorker({
        name: "reviewers",
        runOnce: Effect.map(
          reviewers.runOnce,
          Option.match({
            onNone: () => undefined,
            onSome: ({ answered, failed, isOver }) => ({
              counts: { answered, failed },
              ...(isOver ? {} : { next: 0 })
            })
          })
        ),
        wakeUp: reviewers.awaitWork,
        retryAfter: RETRY_DELAY
      })
      const poller = runWorker({
        name: "reviewer_poll",
        runOnce: Effect.map(reviewers.poll, (claimable) => ({ counts: { claimable } })),
        every: POLL_INTERVAL,
        retryAfter: RETRY_DELAY
      })
      yield* startWorkers([poller, ...Array.from({ length: MAX_CONCURRENT }, () => worker)])
    })
  )
}

/** Answers that one call of `compare` compares at most. */
const MAX_COMPARED = 10_000

type Counted = Effect.Success<ReturnType<typeof readCounts>>["counted"][number]
type Recent = Effect.Success<ReturnType<typeof readCounts>>["newest"][number]

interface CountedGroup {
  readonly tool: string
  readonly band: number
  readonly counted: Array<Counted>
}

/** The rows of each tool and band, in their order. */
const groupsOf = (counted: ReadonlyArray<Counted>): ReadonlyArray<CountedGroup> => {
  const groups: Array<CountedGroup> = []
  for (const one of counted) {
    const last = groups.at(-1)
    if (last?.tool === one.tool && last.band === one.band) last.counted.push(one)
    else groups.push({ tool: one.tool, band: one.band, counted: [one] })
  }
  return groups
}

const toFigures = (
  amount: ReviewerAmount | null,
  { band, counted, tool }: CountedGroup,
  recent: Recent | undefined,
  terms: ReviewerTerms
): ReviewerFigures => {
  const { counts, unsure } = countAnswers(counted, recent)
  const { agreement, approve, false_approvals, false_rejections, reject } = reviewerStanding(counts, terms)
  return {
    tool,
    band: bandAt(amount, band),
    has_amount: band >= 0,
    agreement,
    false_approvals,
    false_rejections,
    unsure,
    approve,
    reject,
    missing: missingDecisions(counts, terms) ?? null,
    weeks: weeksOf(counted)
  }
}

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
