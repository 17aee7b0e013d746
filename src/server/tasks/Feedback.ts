import { Context, Effect, Layer, Option, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized, AuthorizedEither } from "../../api/Authorization.ts"
import type {
  FeedbackFilter,
  NewFeedback,
  PromoteRequest,
  PromotionPreview,
  PromotionResult
} from "../../api/Feedback.ts"
import { notFound } from "../../api/notFound.ts"
import type { PageRequest } from "../../api/Pagination.ts"
import {
  type CorrectionNeedsSafeValue,
  type DatasetBaseChanged,
  type DatasetBusy,
  type FeedbackChanged,
  type FeedbackNotPending,
  type InvalidCorrection,
  type InvalidRequest,
  type LimitReached,
  NotFound,
  type NothingStaged,
  type PayloadTooLarge,
  type SelfReview
} from "../../api/Problems.ts"
import type { ReviewManyRequest, ReviewResult } from "../../api/ReviewBatch.ts"
import type { FeedbackDetail, FeedbackRecord } from "../../domain/tasks/Feedback.ts"
import type { FeedbackQuality } from "../../domain/tasks/FeedbackQuality.ts"
import { initialStatus } from "../../domain/tasks/FeedbackState.ts"
import { FeedbackId, type OrgId, type TaskId, TraceId } from "../../domain/Ids.ts"
import { redactText } from "../../domain/redaction/Redaction.ts"
import { LoopTurns } from "../admission/LoopTurns.ts"
import { ABANDONED_WRITE_MILLIS, makeStatementBatcher } from "../store/makeStatementBatcher.ts"
import { makeOnOwnConnection } from "../store/makeOnOwnConnection.ts"
import { Audit } from "../identity/Audit.ts"
import { rowBytes, StoredUsage } from "../identity/StoredUsage.ts"
import { KnownSecrets } from "../secrets/KnownSecrets.ts"
import { dieOnDatabaseError } from "../store/databaseErrors.ts"
import { atomic } from "../store/transaction.ts"
import type { Page } from "../store/Pagination.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { Spans } from "../telemetry/Spans.ts"
import { CompiledSchemas } from "./CompiledSchemas.ts"
import { Datasets } from "./Datasets.ts"
import { EndUsers } from "./EndUsers.ts"
import { redactComment, scoreOf, warningOf } from "./Feedback/scoreAndComment.ts"
import { insertOrWait } from "./Feedback/insertOrWait.ts"
import { listFeedback } from "./Feedback/listFeedback.ts"
import { previewPromotion } from "./Feedback/previewPromotion.ts"
import { recordFeedbackSpan } from "./Feedback/recordFeedbackSpan.ts"
import { promoteStaged } from "./Feedback/promoteStaged.ts"
import { removeFeedback } from "./Feedback/removeFeedback.ts"
import { redactCorrection } from "./Feedback/redactCorrection.ts"
import { readQuality } from "./Feedback/readQuality.ts"
import {
  readCorrectedInput,
  rejectFeedback,
  stageFeedback,
  unstageFeedback
} from "./Feedback/reviewFeedback.ts"
import {
  findRunTasks,
  insertFeedback,
  type NewFeedbackRow,
  readAnswerSchema,
  readFeedback,
  type RunKey,
  toFeedback
} from "./Feedback/rows.ts"
import { reviewMany } from "./Feedback/reviewMany.ts"
import { requireTask } from "./requireTask.ts"
import { findLoggedRun, originOf } from "./Runs/rows.ts"
import { ScoreLabels } from "./ScoreLabels.ts"

/** Feedback per batched statement. */
const MAX_BATCH = 64

/**
 * Inserts in flight at a time. While one is flushed to the disk, those behind it are flushed together next; with two,
 * the requests of a third would wait for both flushes and for their own.
 */
const INSERTS_IN_FLIGHT = 4

/** Characters above which a correction is inserted by a statement of its own. */
const LARGE_CORRECTION = 64 * 1024

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
      request: PageRequest<FeedbackId>
    ) => Effect.Effect<PromotionPreview, NotFound, Authorized<"feedback.read" | "datasets.write">>
    /** Like `preview`, for a promotion of some staged corrections. */
    readonly previewSelection: (
      task_id: TaskId,
      request: PageRequest<FeedbackId>,
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
      const schemas = yield* CompiledSchemas
      const secrets = yield* KnownSecrets
      const spans = yield* Spans
      const usage = yield* StoredUsage
      const labels = yield* ScoreLabels
      const endUsers = yield* EndUsers
      const turns = yield* LoopTurns

      const onOwnConnection = makeOnOwnConnection(sql, INSERTS_IN_FLIGHT)

      // Batched, because feedback arrives at a high rate.
      const findRunTask = yield* makeStatementBatcher({
        sql,
        maxBatch: MAX_BATCH,
        organizationOf: ({ org_id }: RunKey) => org_id,
        run: (runs, org_id) => findRunTasks(sql, runs, org_id)
      })
      const insert = yield* makeStatementBatcher({
        sql,
        maxBatch: MAX_BATCH,
        organizationOf: ({ org_id }: NewFeedbackRow) => org_id,
        isLarge: ({ correction }: NewFeedbackRow) => (correction?.length ?? 0) > LARGE_CORRECTION,
        maxInFlight: INSERTS_IN_FLIGHT,
        abandonedMillis: ABANDONED_WRITE_MILLIS,
        run: (rows, org_id) =>
          onOwnConnection(insertFeedback(sql, rows, org_id)).pipe(
            Effect.flatMap((inserted) => {
              const ids = new Set(inserted.map(({ feedback_id }) => feedback_id))
              return Effect.forEach(rows, ({ correction, evaluated, org_id, record }) => {
                if (!ids.has(record.id)) return Effect.succeed(false)
                usage.add(org_id, {
                  feedback: 1,
                  bytes:
                    rowBytes.feedback +
                    Buffer.byteLength(correction ?? "") +
                    Buffer.byteLength(record.comment ?? "")
                })
                return Effect.as(recordFeedbackSpan(spans, org_id, record, evaluated), true)
              })
            })
          )
      })

      const reviewDeps = { sql, audit, clock }

      const preview = (
        org_id: OrgId,
        task_id: TaskId,
        request: PageRequest<FeedbackId>,
        ids?: ReadonlyArray<FeedbackId>
      ) =>
        atomically(
          Effect.andThen(
            // One snapshot for all statements: a promotion between them would show an old version without its corrections.
            sql`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY`,
            previewPromotion(sql, org_id, task_id, request, ids)
          )
        )

      return Feedback.of({
        // Untraced, because this operation is called at a high rate.
        create: Effect.fnUntraced(function* (input) {
          const { actor, org_id } = yield* AuthorizedEither("feedback.write", "feedback.create")
          const score = yield* scoreOf(input)
          // Clients that keep trace ids in a column for UUIDs send them with hyphens or in capital letters.
          const trace_id = parseTraceId(input.inference_log_id.replaceAll("-", "").toLowerCase())
          if (Option.isNone(trace_id)) return yield* noRun
          const run = yield* Effect.orDie(findRunTask({ org_id, trace_id: trace_id.value }))
          if (Option.isNone(run)) return yield* noRun
          yield* usage.requireCapacity(org_id, "feedback")
          const {
            answer_schema_digest,
            caller_traceparent,
            provider_calls,
            release_id,
            run_id,
            secrets_version,
            task_id
          } = run.value
          const score_label = input.score_label ?? null
          if (score_label !== null) yield* labels.require(org_id, task_id, score_label)
          const { comment, isRedacted } = yield* redactComment(
            input.comment ?? null,
            secrets.forVersion(org_id, secrets_version)
          )
          const end_user_id = input.end_user_id ?? null
          const correction = input.correction ?? null
          const redacted =
            correction === null
              ? null
              : yield* redactCorrection(
                  correction,
                  yield* schemas.get(
                    answer_schema_digest,
                    Effect.flatMap(readAnswerSchema(sql, org_id, task_id), (schema) =>
                      schema === undefined ? noRun : Effect.succeed(schema)
                    )
                  ),
                  secrets.forVersion(org_id, secrets_version)
                )
          const record: FeedbackRecord = {
            id: yield* FeedbackId.generate,
            task_id,
            inference_log_id: trace_id.value,
            ...score,
            score_label,
            comment,
            source: "api_key",
            end_user: end_user_id === null ? null : yield* endUsers.pseudonym(org_id, end_user_id),
            correction: redacted?.correction ?? null,
            status: initialStatus(redacted !== null),
            ...warningOf(redacted?.warning, isRedacted),
            created_at: yield* clock.now,
            created_by: actor,
            reviewed_at: null,
            reviewed_by: null,
            review_note: null,
            dataset_id: null
          }
          const isInserted = yield* Effect.orDie(
            insertOrWait(
              insert({
                org_id,
                run_id,
                release_id,
                record,
                correction: redacted?.text ?? null,
                evaluated: { caller_traceparent, provider_calls }
              }),
              Effect.map(findRunTask({ org_id, trace_id: trace_id.value }), Option.isSome)
            )
          )
          return isInserted ? record : yield* noRun
        }),
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
          // Only a selection can name corrections that are not staged.
          return yield* Effect.catchTag(preview(org_id, task_id, request), "FEEDBACK_CHANGED", Effect.die)
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
              const { feedback_revision } = yield* previewPromotion(sql, principal.org_id, task_id, {
                limit: 1
              })
              return {
                dataset,
                promoted,
                feedback_revision,
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

const parseTraceId = Schema.decodeUnknownOption(TraceId)

const noRun = Effect.fail(
  new NotFound({
    detail: "No such run in this organization. Send the `trace_id` of the run's response.",
    errors: [{ pointer: "#/inference_log_id", detail: "No such run" }]
  })
)
