import { Array as Arr, Context, DateTime, Effect, Layer, Option, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized, AuthorizedEither } from "../../api/Authorization.ts"
import type {
  FeedbackFilter,
  NewFeedback,
  PromotionResult,
  PromoteRequest,
  PromotionPreview
} from "../../api/Feedback.ts"
import type { PageRequest } from "../../api/Pagination.ts"
import {
  type CorrectionNeedsSafeValue,
  type DatasetBaseChanged,
  type FeedbackChanged,
  type FeedbackNotPending,
  type InvalidCorrection,
  type LimitReached,
  NotFound,
  type NothingStaged,
  type PayloadTooLarge
} from "../../api/Problems.ts"
import type { FeedbackDetail, FeedbackRecord } from "../../domain/tasks/Feedback.ts"
import { initialStatus } from "../../domain/tasks/FeedbackState.ts"
import { FeedbackId, type OrgId, type TaskId, TraceId } from "../../domain/Ids.ts"
import { redactText } from "../../domain/redaction/Redaction.ts"
import { feedbackSpan } from "../../domain/telemetry/SpanConventions.ts"
import { Audit } from "../identity/Audit.ts"
import { dieOnDatabaseError } from "../store/Database/databaseErrors.ts"
import { atomic } from "../store/Database/transaction.ts"
import { Datasets } from "./Datasets.ts"
import { oneAfterAnother } from "./Datasets/datasetLock.ts"
import { listFeedback } from "./Feedback/listFeedback.ts"
import { previewPromotion, promoteStaged } from "./Feedback/promoteStaged.ts"
import { makeReviews, noFeedback } from "./Feedback/reviewFeedback.ts"
import {
  readAnswerSchema,
  insertFeedback,
  type NewFeedbackRow,
  readFeedback,
  type RunKey,
  findRunTasks,
  toFeedback
} from "./Feedback/rows.ts"
import { redactCorrection } from "./Feedback/redactCorrection.ts"
import { KnownSecrets } from "../secrets/KnownSecrets.ts"
import type { Page } from "../store/Pagination.ts"
import { findRun } from "./Runs/rows.ts"
import { CompiledSchemas } from "./CompiledSchemas.ts"
import { Spans } from "../telemetry/Spans.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { makeStatementBatcher } from "../store/Database/makeStatementBatcher.ts"

/** Feedback that is written in one statement, and the characters from which a correction has one of its own. */
const AT_ONCE = 64
const LARGE = 64 * 1024

/** What people say of answers, its review, and its way into the next dataset version. */
export class Feedback extends Context.Service<
  Feedback,
  {
    /** Committed when this ends. A correction is kept without protected values, and only if it fits the task's answer shape. */
    readonly create: (
      input: NewFeedback
    ) => Effect.Effect<
      FeedbackRecord,
      NotFound | PayloadTooLarge | InvalidCorrection | CorrectionNeedsSafeValue,
      Authorized<"feedback.write">
    >
    readonly list: (
      request: PageRequest<FeedbackId> & FeedbackFilter
    ) => Effect.Effect<Page<FeedbackRecord, FeedbackId>, never, Authorized<"feedback.read">>
    /** With the run that it is about. */
    readonly get: (id: FeedbackId) => Effect.Effect<FeedbackDetail, NotFound, Authorized<"feedback.read">>
    /** The same verdict again changes nothing. Of two that race one is taken. */
    readonly stage: (
      id: FeedbackId
    ) => Effect.Effect<
      FeedbackRecord,
      NotFound | FeedbackNotPending | LimitReached,
      Authorized<"feedback.write">
    >
    /** Likewise. The note is kept without protected values. */
    readonly reject: (
      id: FeedbackId,
      note: string | null
    ) => Effect.Effect<FeedbackRecord, NotFound | FeedbackNotPending, Authorized<"feedback.write">>
    readonly preview: (
      task_id: TaskId,
      request: PageRequest<FeedbackId>
    ) => Effect.Effect<PromotionPreview, NotFound, Authorized<"feedback.read" | "datasets.write">>
    /** All staged corrections of the task, or none. Of promotions that race one is made. */
    readonly promote: (
      task_id: TaskId,
      request: PromoteRequest
    ) => Effect.Effect<
      PromotionResult,
      NotFound | DatasetBaseChanged | FeedbackChanged | NothingStaged,
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
      const shapes = yield* CompiledSchemas
      const secrets = yield* KnownSecrets
      const spans = yield* Spans

      // Feedback comes by the thousand: what comes at once is read for and written together.
      const taskOf = yield* makeStatementBatcher({
        maxBatch: AT_ONCE,
        run: (runs: ReadonlyArray<RunKey>) => findRunTasks(sql, runs)
      })
      const insert = yield* makeStatementBatcher({
        maxBatch: AT_ONCE,
        isLarge: ({ correction }: NewFeedbackRow) => (correction?.length ?? 0) > LARGE,
        run: (rows) => Effect.as(insertFeedback(sql, rows), rows)
      })

      const reviews = makeReviews({ sql, audit, clock })

      return Feedback.of({
        // Untraced: the one operation here that comes by the thousand.
        create: Effect.fnUntraced(function* (input) {
          const { actor, org_id } = yield* Authorized("feedback.write")
          const trace_id = asTraceId(input.inference_log_id)
          if (Option.isNone(trace_id)) return yield* noRun
          const run = yield* Effect.orDie(taskOf({ org_id, trace_id: trace_id.value }))
          if (Option.isNone(run)) return yield* noRun
          const { answer_schema_digest, secrets_state, task_id } = run.value
          const given = input.correction ?? null
          const safe =
            given === null
              ? null
              : yield* redactCorrection(
                  given,
                  yield* shapes.get(answer_schema_digest, readAnswerSchema(sql, org_id, task_id)),
                  secrets.forVersion(org_id, secrets_state)
                )
          const record: FeedbackRecord = {
            id: yield* FeedbackId.generate,
            task_id,
            inference_log_id: trace_id.value,
            score: input.score,
            correction: safe?.correction ?? null,
            status: initialStatus(safe !== null),
            ...(safe?.warning === undefined ? {} : { redaction_warning: safe.warning }),
            created_at: yield* clock.now,
            created_by: actor,
            reviewed_at: null,
            reviewed_by: null,
            review_note: null,
            dataset_id: null
          }
          yield* Effect.orDie(insert({ org_id, record, correction: safe?.text ?? null }))
          yield* recordSpan(spans, org_id, record)
          return record
        }),
        list: Effect.fn("Feedback.list")(function* (request) {
          const { org_id } = yield* Authorized("feedback.read")
          const { next_cursor, rows } = yield* listFeedback(sql, org_id, request)
          return { items: rows.map(toFeedback), next_cursor }
        }, Effect.orDie),
        get: Effect.fn("Feedback.get")(function* (id) {
          const { org_id } = yield* Authorized("feedback.read")
          const row = Arr.head(yield* readFeedback(sql, org_id, [id]))
          if (Option.isNone(row)) return yield* noFeedback
          const { answer, input } = Option.getOrThrow(yield* findRun(sql, org_id, row.value.trace_id))
          return { ...toFeedback(row.value), input, answer }
        }, dieOnDatabaseError),
        stage: Effect.fn("Feedback.stage")(function* (id) {
          return yield* reviews.stage(yield* Authorized("feedback.write"), id)
        }),
        reject: Effect.fn("Feedback.reject")(function* (id, note) {
          const principal = yield* Authorized("feedback.write")
          const clean = note === null ? null : redactText(note, yield* secrets.forOrg(principal.org_id))
          return yield* reviews.reject(principal, id, clean)
        }),
        preview: Effect.fn("Feedback.preview")(function* (task_id, request) {
          const { org_id } = yield* AuthorizedEither("feedback.read", "datasets.write")
          return yield* previewPromotion(sql, org_id, task_id, request)
        }, dieOnDatabaseError),
        promote: Effect.fn("Feedback.promote")(function* (task_id, request) {
          const principal = yield* Authorized("datasets.write")
          const changed = atomically(
            Effect.gen(function* () {
              const now = yield* clock.now
              const { dataset, promoted, superseded } = yield* promoteStaged(
                sql,
                datasets,
                principal,
                task_id,
                request,
                now
              )
              yield* audit.record(principal, "feedback.promoted", dataset.id, {
                task_id,
                promoted: promoted.length,
                superseded
              })
              const { feedback_revision } = yield* previewPromotion(sql, principal.org_id, task_id, {
                limit: 1
              })
              return { dataset, promoted, feedback_revision }
            })
          )
          return yield* dieOnDatabaseError(oneAfterAnother(principal.org_id, task_id)(changed))
        })
      })
    })
  )
}

/** Feedback is a span in the trace of its run, once it is committed. What was said stays here. */
const recordSpan = (spans: Spans["Service"], org_id: OrgId, record: FeedbackRecord) => {
  const span = feedbackSpan({
    trace_id: record.inference_log_id,
    feedback_id: record.id,
    task_id: record.task_id,
    score: record.score,
    has_correction: record.correction !== null,
    at: DateTime.toEpochMillis(record.created_at)
  })
  return spans.record(org_id, { trace_id: record.inference_log_id, count: 1, make: () => [span] })
}

const asTraceId = Schema.decodeUnknownOption(TraceId)

const noRun = Effect.fail(
  new NotFound({
    detail: "There is no such run in this organization; send the trace_id of its answer",
    errors: [{ pointer: "#/inference_log_id", detail: "There is no such run" }]
  })
)
