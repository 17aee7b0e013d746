import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized, AuthorizedEither } from "../../api/Authorization.ts"
import type {
  FeedbackFilter,
  NewFeedback,
  PreviewCursor,
  PromoteRequest,
  PromotionPreview,
  PromotionResult
} from "../../api/Feedback.ts"
import { notFound } from "../../api/notFound.ts"
import type { PageRequest } from "../../api/Pagination.ts"
import type {
  CorrectionNeedsSafeValue,
  DatasetBaseChanged,
  DatasetBusy,
  FeedbackChanged,
  FeedbackNotPending,
  FeedbackOfAnotherKey,
  InvalidCorrection,
  LimitReached,
  NotFound,
  NothingStaged,
  PayloadTooLarge,
  SelfReview
} from "../../api/Problems.ts"
import { InvalidRequest } from "../../api/Problems.ts"
import type { ReviewManyRequest, ReviewResult } from "../../api/ReviewBatch.ts"
import type { FeedbackDetail, FeedbackRecord } from "../../domain/tasks/Feedback.ts"
import type { FeedbackQuality } from "../../domain/tasks/FeedbackQuality.ts"
import type { FeedbackId, OrgId, TaskId, TraceId } from "../../domain/Ids.ts"
import { planPromotion } from "../../domain/tasks/Promotion.ts"
import { redactText } from "../../domain/redaction/Redaction.ts"
import { LoopTurns } from "../admission/LoopTurns.ts"
import { Audit } from "../identity/Audit.ts"
import { StoredUsage } from "../identity/StoredUsage.ts"
import { KnownSecrets } from "../secrets/KnownSecrets.ts"
import { dieOnDatabaseError } from "../store/databaseErrors.ts"
import { atomic } from "../store/transaction.ts"
import type { Page } from "../store/Pagination.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { Spans } from "../telemetry/Spans.ts"
import { Datasets } from "./Datasets.ts"
import { makeCreateFeedback } from "./Feedback/makeCreateFeedback.ts"
import { listFeedback } from "./Feedback/listFeedback.ts"
import { makePlannedPreviews, previewPromotion } from "./Feedback/previewPromotion.ts"
import { promoteStaged } from "./Feedback/promoteStaged.ts"
import { removeFeedback } from "./Feedback/removeFeedback.ts"
import { readQuality } from "./Feedback/readQuality.ts"
import {
  readCorrectedInput,
  rejectFeedback,
  stageFeedback,
  unstageFeedback
} from "./Feedback/reviewFeedback.ts"
import { readFeedback, toFeedback } from "./Feedback/rows.ts"
import { reviewMany } from "./Feedback/reviewMany.ts"
import { readStaged } from "./Feedback/stagedRows.ts"
import { withdrawFeedback } from "./Feedback/withdrawFeedback.ts"
import { requireTask } from "./requireTask.ts"
import { findLoggedRun, originOf } from "./Runs/rows.ts"

/** Feedback on runs: scores and corrections, their review, and their promotion to the next dataset version. */
export class Feedback extends Context.Service<
  Feedback,
  {
    /**
     * Stores feedback; committed when this returns. Comment and correction are redacted; a correction must match the task's answer schema.
     */
    readonly create: (
      input: NewFeedback
    ) => Effect.Effect<
      FeedbackRecord,
      | NotFound
      | InvalidRequest
      | PayloadTooLarge
      | InvalidCorrection
      | CorrectionNeedsSafeValue
      | LimitReached,
      Authorized<"feedback.write" | "feedback.create">
    >
    /** Lists feedback, newest first. */
    readonly list: (
      request: PageRequest<FeedbackId> & FeedbackFilter
    ) => Effect.Effect<Page<FeedbackRecord, FeedbackId>, never, Authorized<"feedback.read">>
    /** Returns feedback with the input and answer of its run. */
    readonly get: (id: FeedbackId) => Effect.Effect<FeedbackDetail, NotFound, Authorized<"feedback.read">>
    /** Deletes feedback of any status, and the example that its correction became. */
    readonly remove: (
      id: FeedbackId
    ) => Effect.Effect<void, NotFound | DatasetBusy, Authorized<"data.delete">>
    /** Stages a correction for the next promotion. Idempotent. */
    readonly stage: (
      id: FeedbackId
    ) => Effect.Effect<
      FeedbackRecord,
      NotFound | SelfReview | FeedbackNotPending | LimitReached,
      Authorized<"feedback.write">
    >
    /** Makes a staged correction pending again, unless it was promoted. Idempotent. */
    readonly unstage: (
      id: FeedbackId
    ) => Effect.Effect<FeedbackRecord, NotFound | FeedbackNotPending, Authorized<"feedback.write">>
    /** Rejects a pending or staged correction, with a note, which is redacted. Idempotent. */
    readonly reject: (
      id: FeedbackId,
      note: string | null
    ) => Effect.Effect<FeedbackRecord, NotFound | FeedbackNotPending, Authorized<"feedback.write">>
    /**
     * Stores that a run's answer is right, with the answer as the correction, and stages it: the next promotion makes it an example. It stays
     * pending if the caller's key may not stage its own corrections.
     */
    readonly confirm: (
      id: TraceId
    ) => Effect.Effect<
      FeedbackRecord,
      | NotFound
      | InvalidRequest
      | PayloadTooLarge
      | InvalidCorrection
      | CorrectionNeedsSafeValue
      | FeedbackNotPending
      | LimitReached,
      Authorized<"feedback.write">
    >
    /**
     * Withdraws feedback of the caller's key or of a key related to it: it is not counted any more, and its correction, if not promoted, is
     * closed. Earlier feedback of its author stays replaced. Idempotent.
     */
    readonly withdraw: (
      id: FeedbackId
    ) => Effect.Effect<
      FeedbackRecord,
      NotFound | FeedbackOfAnotherKey,
      Authorized<"feedback.write" | "feedback.create">
    >
    /** Gives several corrections the same verdict, each as the operation for one does. Returns a result for each, in their order. */
    readonly reviewMany: (
      request: ReviewManyRequest
    ) => Effect.Effect<ReadonlyArray<ReviewResult>, never, Authorized<"feedback.write">>
    /** Counts the feedback on a task's runs, by release and day. */
    readonly quality: (
      task_id: TaskId,
      days: number
    ) => Effect.Effect<FeedbackQuality, NotFound, Authorized<"feedback.read">>
    /** Returns what `promote` would do now with all staged corrections, and the values that it requires. */
    readonly preview: (
      task_id: TaskId,
      request: PageRequest<PreviewCursor>
    ) => Effect.Effect<
      PromotionPreview,
      NotFound | FeedbackChanged,
      Authorized<"feedback.read" | "datasets.write">
    >
    /** Like `preview`, for a promotion of some staged corrections. */
    readonly previewSelection: (
      task_id: TaskId,
      request: PageRequest<PreviewCursor>,
      ids: ReadonlyArray<FeedbackId>
    ) => Effect.Effect<
      PromotionPreview,
      NotFound | FeedbackChanged,
      Authorized<"feedback.read" | "datasets.write">
    >
    /**
     * Promotes all staged corrections of the task, or the ones that the request names: all of them or none. Of concurrent promotions the
     * first wins and the others fail.
     */
    readonly promote: (
      task_id: TaskId,
      request: PromoteRequest
    ) => Effect.Effect<
      PromotionResult,
      NotFound | DatasetBaseChanged | DatasetBusy | FeedbackChanged | NothingStaged | LimitReached,
      Authorized<"datasets.write">
    >
  }
>()("countersign/server/tasks/Feedback") {
  static readonly layer = Layer.effect(
    Feedback,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const clock = yield* StoreClock
      const audit = yield* Audit
      const datasets = yield* Datasets
      const secrets = yield* KnownSecrets
      const usage = yield* StoredUsage
      const turns = yield* LoopTurns
      const spans = yield* Spans

      const previews = makePlannedPreviews()
      const reviewDeps = { sql, audit, clock }

      const preview = (
        org_id: OrgId,
        task_id: TaskId,
        request: PageRequest<PreviewCursor>,
        ids?: ReadonlyArray<FeedbackId>
      ) =>
        atomically(
          Effect.andThen(
            // One snapshot for all statements: a promotion between them would show an old version without its corrections.
            sql`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY`,
            previewPromotion({ previews, sql }, org_id, task_id, request, ids)
          )
        )

      const create = yield* makeCreateFeedback

      return Feedback.of({
        create,
        confirm: Effect.fn("Feedback.confirm")(function* (trace_id) {
          const principal = yield* Authorized("feedback.write")
          const { org_id } = principal
          const run = yield* findLoggedRun(sql, org_id, trace_id)
          if (run === undefined) return yield* notFound("run")
          if (run.answer === null) return yield* nothingToConfirm
          const given = Effect.provideService(
            create({ inference_log_id: trace_id, score: 1, correction: run.answer }),
            AuthorizedEither("feedback.write", "feedback.create"),
            principal
          )
          return yield* atomically(
            Effect.gen(function* () {
              const record = yield* given
              const input = yield* readCorrectedInput(sql, org_id, record.id, yield* secrets.forOrg(org_id))
              return yield* stageFeedback(reviewDeps, principal, record.id, input).pipe(
                Effect.catchTag("SELF_REVIEW", () => Effect.succeed(record))
              )
            })
          )
        }, dieOnDatabaseError),
        list: Effect.fn("Feedback.list")(function* (request) {
          const { org_id } = yield* Authorized("feedback.read")
          const { next_cursor, rows } = yield* listFeedback(sql, org_id, request)
          return { items: rows.map(toFeedback), next_cursor }
        }, Effect.orDie),
        get: Effect.fn("Feedback.get")(function* (id) {
          const { org_id } = yield* Authorized("feedback.read")
          const [row] = yield* readFeedback(sql, org_id, [id])
          if (row === undefined) return yield* notFound("feedback")
          const run = yield* findLoggedRun(sql, org_id, row.trace_id)
          if (run === undefined) return yield* notFound("feedback")
          return { ...toFeedback(row), input: run.input, answer: run.answer, run: originOf(run) }
        }, dieOnDatabaseError),
        remove: Effect.fn("Feedback.remove")(function* (id) {
          yield* removeFeedback({ sql, audit, clock, usage }, yield* Authorized("data.delete"), id)
        }, dieOnDatabaseError),
        stage: Effect.fn("Feedback.stage")(function* (id) {
          const principal = yield* Authorized("feedback.write")
          const { org_id } = principal
          const input = yield* readCorrectedInput(sql, org_id, id, yield* secrets.forOrg(org_id))
          return yield* stageFeedback(reviewDeps, principal, id, input)
        }),
        unstage: Effect.fn("Feedback.unstage")(function* (id) {
          return yield* unstageFeedback(reviewDeps, yield* Authorized("feedback.write"), id)
        }),
        reject: Effect.fn("Feedback.reject")(function* (id, note) {
          const principal = yield* Authorized("feedback.write")
          const redacted = note === null ? null : redactText(note, yield* secrets.forOrg(principal.org_id))
          return yield* rejectFeedback(reviewDeps, principal, id, redacted)
        }),
        withdraw: Effect.fn("Feedback.withdraw")(function* (id) {
          const principal = yield* AuthorizedEither("feedback.write", "feedback.create")
          return yield* withdrawFeedback({ ...reviewDeps, spans }, principal, id)
        }, dieOnDatabaseError),
        reviewMany: Effect.fn("Feedback.reviewMany")(function* ({ feedback_ids, note = null, verdict }) {
          const principal = yield* Authorized("feedback.write")
          const { org_id } = principal
          const known = yield* secrets.forOrg(org_id)
          const redacted = note === null ? null : redactText(note, known)
          const reviewOne = {
            stage: (id: FeedbackId) =>
              Effect.flatMap(readCorrectedInput(sql, org_id, id, known), (input) =>
                stageFeedback(reviewDeps, principal, id, input)
              ),
            unstage: (id: FeedbackId) => unstageFeedback(reviewDeps, principal, id),
            reject: (id: FeedbackId) => rejectFeedback(reviewDeps, principal, id, redacted)
          }[verdict]
          return yield* reviewMany({ sql, turns, reviewOne }, principal, feedback_ids)
        }),
        quality: Effect.fn("Feedback.quality")(function* (task_id, days) {
          const { org_id } = yield* Authorized("feedback.read")
          yield* requireTask(sql, org_id, task_id)
          return yield* readQuality(sql, org_id, task_id, { days, now: yield* clock.now })
        }, dieOnDatabaseError),
        preview: Effect.fn("Feedback.preview")(function* (task_id, request) {
          const { org_id } = yield* AuthorizedEither("feedback.read", "datasets.write")
          return yield* preview(org_id, task_id, request)
        }),
        previewSelection: Effect.fn("Feedback.previewSelection")(function* (task_id, request, ids) {
          const { org_id } = yield* AuthorizedEither("feedback.read", "datasets.write")
          return yield* preview(org_id, task_id, request, ids)
        }),
        promote: Effect.fn("Feedback.promote")(function* (task_id, request) {
          const principal = yield* Authorized("datasets.write")
          yield* usage.requireCapacity(principal.org_id)
          const known = yield* secrets.forOrg(principal.org_id)
          const transaction = atomically(
            Effect.gen(function* () {
              const now = yield* clock.now
              const { dataset, promoted, redaction_warning, superseded } = yield* promoteStaged(
                sql,
                datasets,
                principal,
                task_id,
                request,
                { known, now }
              )
              yield* audit.record(principal, "feedback.promoted", dataset.id, {
                task_id,
                promoted: promoted.length,
                superseded
              })
              const left = yield* readStaged(sql, principal.org_id, task_id, undefined, "")
              return {
                dataset,
                promoted,
                feedback_revision: planPromotion(left).revision,
                ...(redaction_warning === undefined ? {} : { redaction_warning })
              }
            })
          )
          return yield* datasets.serialize(principal.org_id, task_id)(transaction)
        })
      })
    })
  )
}

const nothingToConfirm = Effect.fail(
  new InvalidRequest({ detail: "The run failed, so there is no answer to confirm. Correct it instead." })
)
