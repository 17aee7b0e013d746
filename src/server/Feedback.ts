import { Array as Arr, Context, DateTime, Effect, Layer, Option, Result, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized, AuthorizedEither } from "../api/Authorization.ts"
import type { NewFeedback, Promoted, PromoteRequest, PromotionPreview } from "../api/Feedback.ts"
import type { PageRequest } from "../api/Pagination.ts"
import {
  type CorrectionNeedsSafeValue,
  type DatasetBaseChanged,
  type FeedbackChanged,
  FeedbackNotPending,
  type InvalidCorrection,
  LimitReached,
  NotFound,
  type NothingStaged
} from "../api/Problems.ts"
import type { FeedbackDetail, FeedbackRecord } from "../domain/Feedback.ts"
import { type FeedbackRefusal, opened, transition } from "../domain/FeedbackState.ts"
import { FeedbackId, type OrgId, type TaskId, TraceId } from "../domain/Ids.ts"
import type { Principal } from "../domain/Principal.ts"
import { redactText } from "../domain/Redaction.ts"
import { feedbackSpan } from "../domain/SpanConventions.ts"
import { Audit } from "./Audit.ts"
import { atomic } from "./Database.ts"
import { inputDigest } from "./Datasets/examples.ts"
import { Datasets } from "./Datasets.ts"
import { type FeedbackFilter, listFeedback } from "./Feedback/list.ts"
import { countStaged, preview, promote } from "./Feedback/promotion.ts"
import {
  answerSchemaOf,
  type FeedbackRow,
  holdFeedback,
  insertFeedback,
  type NewRow,
  readFeedback,
  type RunName,
  tasksOfRuns,
  toFeedback,
  writeReview
} from "./Feedback/rows.ts"
import { safeCorrection } from "./Feedback/safeCorrection.ts"
import { KnownSecrets } from "./KnownSecrets.ts"
import type { Page } from "./Page.ts"
import { findRun } from "./Runs/rows.ts"
import { Shapes } from "./Shapes.ts"
import { Spans } from "./Spans.ts"
import { StoreClock } from "./StoreClock.ts"
import { together } from "./Together.ts"

/**
 * Corrections of a task that may be staged at a time: more are promoted first. They are counted without a lock, under which a reviewer
 * would wait for a promotion that is under way: those who stage at the same moment may pass the limit by a few.
 */
const MAX_STAGED = 10_000

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
      NotFound | InvalidCorrection | CorrectionNeedsSafeValue,
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
      Promoted,
      NotFound | DatasetBaseChanged | FeedbackChanged | NothingStaged,
      Authorized<"datasets.write">
    >
  }
>()("countersign/server/Feedback") {
  static readonly layer = Layer.effect(
    Feedback,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const clock = yield* StoreClock
      const audit = yield* Audit
      const datasets = yield* Datasets
      const shapes = yield* Shapes
      const secrets = yield* KnownSecrets
      const spans = yield* Spans

      // Feedback comes by the thousand: what comes at once is read for and written together.
      const taskOf = yield* together({
        atOnce: AT_ONCE,
        run: (runs: ReadonlyArray<RunName>) => tasksOfRuns(sql, runs)
      })
      const insert = yield* together({
        atOnce: AT_ONCE,
        isLarge: ({ correction }: NewRow) => (correction?.length ?? 0) > LARGE,
        run: (rows) => Effect.as(insertFeedback(sql, rows), rows)
      })

      const find = Effect.fnUntraced(function* (org_id: OrgId, id: FeedbackId) {
        const row = Arr.head(yield* Effect.orDie(readFeedback(sql, org_id, [id])))
        return Option.isSome(row) ? row.value : yield* noFeedback
      })

      const runOf = Effect.fnUntraced(function* (org_id: OrgId, trace_id: TraceId) {
        return Option.getOrThrow(yield* Effect.orDie(findRun(sql, org_id, trace_id)))
      })

      /** Holds feedback for a verdict; where that was taken before there is nothing to do. */
      const review = <E, R>(
        principal: Principal,
        id: FeedbackId,
        verdict: "Stage" | "Reject",
        decide: (row: FeedbackRow) => Effect.Effect<FeedbackRow, E, R>
      ) =>
        atomically(
          Effect.gen(function* () {
            const row = yield* holdFeedback(sql, principal.org_id, id)
            if (Option.isNone(row)) return yield* noFeedback
            const next = transition(row.value.status, verdict)
            if (Result.isFailure(next)) return yield* notPending(next.failure, row.value)
            if (next.success === row.value.status) return toFeedback(row.value)
            const reviewed = yield* decide(row.value)
            const { task_id, trace_id } = reviewed
            const action = verdict === "Stage" ? "feedback.staged" : "feedback.rejected"
            yield* audit.record(principal, action, id, { task_id, inference_log_id: trace_id })
            return toFeedback(reviewed)
          })
        )

      return Feedback.of({
        // Untraced: the one operation here that comes by the thousand.
        create: Effect.fnUntraced(function* (input) {
          const { actor, org_id } = yield* Authorized("feedback.write")
          const trace_id = asTraceId(input.inference_log_id)
          if (Option.isNone(trace_id)) return yield* noRun
          const run = yield* Effect.orDie(taskOf({ org_id, trace_id: trace_id.value }))
          if (Option.isNone(run)) return yield* noRun
          const { answer_shape, secrets_state, task_id } = run.value
          const given = input.correction ?? null
          const safe =
            given === null
              ? null
              : yield* safeCorrection(
                  given,
                  yield* shapes.stored(answer_shape, answerSchemaOf(sql, org_id, task_id)),
                  secrets.at(org_id, secrets_state)
                )
          const record: FeedbackRecord = {
            id: yield* FeedbackId.generate,
            task_id,
            inference_log_id: trace_id.value,
            score: input.score,
            correction: safe?.correction ?? null,
            status: opened(safe !== null),
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
          const row = yield* find(org_id, id)
          const { answer, input } = yield* runOf(org_id, row.trace_id)
          return { ...toFeedback(row), input, answer }
        }),
        stage: Effect.fn("Feedback.stage")(function* (id) {
          const principal = yield* Authorized("feedback.write")
          const { actor, org_id } = principal
          return yield* review(
            principal,
            id,
            "Stage",
            Effect.fnUntraced(function* (row) {
              if ((yield* countStaged(sql, org_id, row.task_id)) >= MAX_STAGED) {
                return yield* new LimitReached({
                  detail: `A task has ${MAX_STAGED} staged corrections at most; promote them first`
                })
              }
              const { input } = yield* runOf(org_id, row.trace_id)
              const at = yield* clock.now
              return yield* writeReview(sql, org_id, row, {
                status: "staged",
                at,
                by: actor,
                note: null,
                input: {
                  digest: inputDigest(row.task_id, input),
                  bytes: Buffer.byteLength(JSON.stringify(input))
                }
              })
            })
          )
        }),
        reject: Effect.fn("Feedback.reject")(function* (id, note) {
          const principal = yield* Authorized("feedback.write")
          const { actor, org_id } = principal
          const clean = note === null ? null : redactText(note, yield* secrets.of(org_id))
          return yield* review(
            principal,
            id,
            "Reject",
            Effect.fnUntraced(function* (row) {
              const at = yield* clock.now
              return yield* writeReview(sql, org_id, row, {
                status: "rejected",
                at,
                by: actor,
                note: clean,
                input: null
              })
            })
          )
        }),
        preview: Effect.fn("Feedback.preview")(
          function* (task_id, request) {
            const { org_id } = yield* AuthorizedEither("feedback.read", "datasets.write")
            return yield* preview(sql, org_id, task_id, request)
          },
          Effect.catchTags({ SqlError: Effect.die, SchemaError: Effect.die })
        ),
        promote: Effect.fn("Feedback.promote")(function* (task_id, request) {
          const principal = yield* Authorized("datasets.write")
          return yield* atomically(
            Effect.gen(function* () {
              const now = yield* clock.now
              const { dataset, promoted, superseded } = yield* promote(
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
              const { feedback_revision } = yield* preview(sql, principal.org_id, task_id, { limit: 1 })
              return { dataset, promoted, feedback_revision }
            })
          )
        })
      })
    })
  )
}

/** Feedback is a span in the trace of its run, once it is committed. What was said stays here. */
const recordSpan = (spans: Spans["Service"], org_id: OrgId, record: FeedbackRecord) =>
  spans.record(org_id, {
    trace_id: record.inference_log_id,
    count: 1,
    make: () => [
      feedbackSpan({
        trace_id: record.inference_log_id,
        feedback_id: record.id,
        task_id: record.task_id,
        score: record.score,
        has_correction: record.correction !== null,
        at: DateTime.toEpochMillis(record.created_at)
      })
    ]
  })

const asTraceId = Schema.decodeUnknownOption(TraceId)

const noRun = Effect.fail(
  new NotFound({ detail: "There is no such run in this organization; send the trace_id of its answer" })
)

const noFeedback = Effect.fail(new NotFound({ detail: "There is no such feedback in this organization" }))

const notPending = (refusal: FeedbackRefusal, { status }: FeedbackRow) =>
  Effect.fail(
    new FeedbackNotPending({
      detail:
        refusal === "NoCorrection"
          ? "There is no correction to review: the feedback is a score alone"
          : `The correction is ${status}; nothing has changed`
    })
  )
