import { Duration, Effect, Option, Schedule, Schema } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { AuthorizedEither } from "../../../api/Authorization.ts"
import type { NewFeedback } from "../../../api/Feedback.ts"
import { NotFound } from "../../../api/Problems.ts"
import { FeedbackId, TraceId } from "../../../domain/Ids.ts"
import { authorOf, type FeedbackRecord } from "../../../domain/tasks/Feedback.ts"
import { initialStatus } from "../../../domain/tasks/FeedbackState.ts"
import { rowBytes, StoredUsage } from "../../identity/StoredUsage.ts"
import { KnownSecrets } from "../../secrets/KnownSecrets.ts"
import { makeOnOwnConnection } from "../../store/makeOnOwnConnection.ts"
import { ABANDONED_WRITE_MILLIS, makeStatementBatcher } from "../../store/makeStatementBatcher.ts"
import { StoreClock } from "../../store/StoreClock.ts"
import { Spans } from "../../telemetry/Spans.ts"
import { CompiledSchemas } from "../CompiledSchemas.ts"
import { EndUsers } from "../EndUsers.ts"
import { ScoreLabels } from "../ScoreLabels.ts"
import { recordFeedbackSpan } from "./recordFeedbackSpan.ts"
import { redactCorrection } from "./redactCorrection.ts"
import { insertFeedback, type NewFeedbackRow } from "./insertFeedback.ts"
import { findRunTasks, readAnswerSchema, type RunKey } from "./rows.ts"
import { redactComment, scoreOf, warningOf } from "./scoreAndComment.ts"

/** Feedback per batched statement. */
const MAX_BATCH = 64

/**
 * Inserts in flight at a time. While one is flushed to the disk, those behind it are flushed together next; with two,
 * the requests of a third would wait for both flushes and for their own.
 */
const INSERTS_IN_FLIGHT = 4

/** Characters above which a correction is inserted by a statement of its own. */
const LARGE_CORRECTION = 64 * 1024

/** `Feedback.create`. It finds runs and inserts feedback in batches, because feedback arrives at a high rate. */
export const makeCreateFeedback = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const clock = yield* StoreClock
  const schemas = yield* CompiledSchemas
  const secrets = yield* KnownSecrets
  const spans = yield* Spans
  const usage = yield* StoredUsage
  const labels = yield* ScoreLabels
  const endUsers = yield* EndUsers

  const onOwnConnection = makeOnOwnConnection(sql, INSERTS_IN_FLIGHT)

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
          const current = new Map(inserted.map(({ feedback_id, is_current }) => [feedback_id, is_current]))
          return Effect.forEach(rows, ({ author, correction, evaluated, org_id, record }) => {
            const isCurrent = current.get(record.id)
            if (isCurrent === undefined) return Effect.succeed(Option.none<FeedbackRecord>())
            const bytes =
              rowBytes.feedback +
              Buffer.byteLength(correction ?? "") +
              Buffer.byteLength(record.comment ?? "")
            return sql
              .afterCommit(Effect.sync(() => usage.add(org_id, { feedback: 1, bytes })))
              .pipe(
                Effect.andThen(recordFeedbackSpan(spans, org_id, record, author, evaluated)),
                Effect.as(Option.some({ ...record, current: isCurrent }))
              )
          })
        })
      )
  })

  // Untraced, because this operation is called at a high rate.
  return Effect.fnUntraced(function* (input: NewFeedback) {
    const { actor, org_id } = yield* AuthorizedEither("feedback.write", "feedback.create")
    const score = yield* scoreOf(input)
    // Clients that keep trace ids in a column for UUIDs, or of a fixed width, send them with hyphens, in capital letters or padded.
    const trace_id = parseTraceId(input.inference_log_id.trim().replaceAll("-", "").toLowerCase())
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
    const created_at = yield* clock.now
    const end_user = end_user_id === null ? null : yield* endUsers.pseudonym(org_id, end_user_id)
    const record: FeedbackRecord = {
      id: yield* FeedbackId.generateAt(created_at),
      task_id,
      inference_log_id: trace_id.value,
      ...score,
      score_label,
      comment,
      source: "api_key",
      end_user,
      correction: redacted?.correction ?? null,
      status: initialStatus(redacted !== null),
      current: true,
      withdrawn_at: null,
      ...warningOf(redacted?.warning, isRedacted),
      created_at,
      created_by: actor,
      reviewed_at: null,
      reviewed_by: null,
      review_note: null,
      dataset_id: null
    }
    const inserted = yield* Effect.orDie(
      insertOrWait(
        insert({
          org_id,
          run_id,
          release_id,
          record,
          author: authorOf({ key_id: actor.id, end_user }),
          correction: redacted?.text ?? null,
          evaluated: { caller_traceparent, provider_calls }
        }),
        Effect.map(findRunTask({ org_id, trace_id: trace_id.value }), Option.isSome)
      )
    )
    return Option.isSome(inserted) ? inserted.value : yield* noRun
  })
})

const parseTraceId = Schema.decodeUnknownOption(TraceId)

const noRun = Effect.fail(
  new NotFound({
    detail: "No such run in this organization. Send the `trace_id` of the run's response.",
    errors: [{ pointer: "#/inference_log_id", detail: "No such run" }]
  })
)

/** How long feedback waits for the locks of others: as long as a statement waits for a lock. */
const WAIT = Duration.seconds(2)

const retryLocked = Schedule.exponential("10 millis").pipe(
  Schedule.modifyDelay(({ duration }) => Effect.succeed(Duration.min(duration, Duration.millis(100)))),
  Schedule.upTo({ duration: WAIT })
)

/** Answered with 503, like the lock time-out of a statement. */
export const feedbackLocked = new SqlError.SqlError({
  reason: new SqlError.LockTimeoutError({
    cause: undefined,
    message:
      "Timed out waiting for a lock of the run that feedback is on, or of the author's earlier feedback on it",
    operation: "insertFeedback"
  })
})

/**
 * Repeats an insertion that fails with `feedbackLocked`, for two seconds. It does not compile for one without database errors, which have
 * become defects that no retry sees.
 */
export const retryWhileLocked = <A, E, R>(
  insert: Effect.Effect<A, E, R> & ([SqlError.SqlError] extends [E] ? unknown : never)
): Effect.Effect<A, E, R> =>
  Effect.retry(insert, { while: (error) => error === feedbackLocked, schedule: retryLocked })

/**
 * Repeats an insertion of feedback while another transaction has locked its run, which stays if a deletion fails, or adds feedback of the
 * same author. Returns none if the run was deleted. Fails if it is still locked after two seconds.
 *
 * The inserting statement itself does not wait, because it inserts feedback on other runs too.
 */
const insertOrWait = <A>(
  insert: Effect.Effect<Option.Option<A>, SqlError.SqlError>,
  hasRun: Effect.Effect<boolean, SqlError.SqlError>
): Effect.Effect<Option.Option<A>, SqlError.SqlError> =>
  Effect.gen(function* () {
    const inserted = yield* insert
    if (Option.isNone(inserted) && (yield* hasRun)) return yield* Effect.fail(feedbackLocked)
    return inserted
  }).pipe(retryWhileLocked)
