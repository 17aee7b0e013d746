import { Array as Arr, Effect, Option, Schema, Stream } from "effect"
import type { SqlClient } from "effect/sql"
import type { PromoteRequest, PromotionPreview } from "../../../api/Feedback.ts"
import type { PageRequest } from "../../../api/Pagination.ts"
import { DatasetBaseChanged, FeedbackChanged, NothingStaged } from "../../../api/Problems.ts"
import { JsonObject, type NewExample } from "../../../domain/tasks/Dataset.ts"
import { type DatasetId, FeedbackId, type OrgId, type TaskId, TraceId } from "../../../domain/Ids.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import { sortByStagingTime, planPromotion, type Promotion } from "../../../domain/tasks/Promotion.ts"
import { type Timestamp, TimestampFromDate } from "../../../domain/Time.ts"
import type { Datasets } from "../Datasets.ts"
import { acquireDatasetLock } from "../Datasets/datasetLock.ts"
import { textArray } from "../../store/pgArrays.ts"
import { rowLimit } from "../../store/Pagination.ts"
import { chunksByBytes } from "../../concurrency/chunksByBytes.ts"
import { noTask } from "../Tasks/rows.ts"
import { cutBySize } from "./listFeedback.ts"
import { feedbackColumns, FeedbackRow, toFeedback } from "./rows.ts"

/** The most superseded corrections that a preview lists. */
const MAX_SUPERSEDED = 1_000

/** A staged correction, without what it says. */
const StagedRow = Schema.Struct({
  feedback_id: FeedbackId,
  trace_id: TraceId,
  staged_at: TimestampFromDate,
  input_digest: Schema.String,
  /** Of the correction and the input that it is the answer to. */
  bytes: Schema.Int
})
type StagedRow = typeof StagedRow.Type

const decodeStaged = Schema.decodeUnknownEffect(Schema.Array(StagedRow), { disableChecks: true })

/**
 * All staged corrections of a task, also those that a replica staged which does not write the size of the input yet; with
 * `FOR NO KEY UPDATE` they stand still until the end of the transaction.
 */
const stagedOf = (sql: SqlClient.SqlClient, org_id: OrgId, task_id: TaskId, lock: "" | "FOR NO KEY UPDATE") =>
  sql`
    SELECT
      feedback_id, trace_id, reviewed_at AS staged_at, input_digest,
      bytes + COALESCE(
        input_bytes,
        (SELECT octet_length(runs.input::text) FROM runs WHERE runs.org_id = feedback.org_id AND runs.trace_id = feedback.trace_id)
      ) AS bytes
    FROM feedback
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
      AND status = 'staged'
    ORDER BY feedback_id
    ${sql.literal(lock)}
  `.pipe(Effect.flatMap(decodeStaged))

/** How many corrections of a task are staged. */
export const countStaged = (sql: SqlClient.SqlClient, org_id: OrgId, task_id: TaskId) =>
  sql<{ readonly count: number }>`
    SELECT count(*)::int AS count
    FROM feedback
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
      AND status = 'staged'
  `.pipe(Effect.map((rows) => rows[0]?.count ?? 0))

/** The task's newest version. */
const headOf = (sql: SqlClient.SqlClient, org_id: OrgId, task_id: TaskId) =>
  sql`
    SELECT dataset_id
    FROM tasks
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
  `.pipe(Effect.flatMap(decodeHead), Effect.map(Arr.head))

const decodeHead = Schema.decodeUnknownEffect(
  Schema.Array(Schema.Struct({ dataset_id: FeedbackRow.fields.dataset_id })),
  { disableChecks: true }
)

const StagedWithInput = Schema.Struct({ ...FeedbackRow.fields, correction: JsonObject, input: JsonObject })
const decodeWithInput = Schema.decodeUnknownEffect(Schema.Array(StagedWithInput), { disableChecks: true })

/** Corrections with the inputs of their runs, in the order of these ids. */
const readWithInputs = (sql: SqlClient.SqlClient, org_id: OrgId, ids: ReadonlyArray<FeedbackId>) =>
  sql`
    SELECT ${sql.literal(feedbackColumns.replaceAll(/\w+/g, "feedback.$&"))}, runs.input
    FROM feedback
      JOIN runs USING (org_id, trace_id)
    WHERE org_id = ${org_id}
      AND feedback_id = ANY(${textArray(ids)})
  `.pipe(
    Effect.flatMap(decodeWithInput),
    Effect.map((rows) => {
      const found = new Map(rows.map((row) => [row.feedback_id, row]))
      return Arr.getSomes(ids.map((id) => Option.fromUndefinedOr(found.get(id))))
    })
  )

/** How many of these inputs their task's newest version has: the task is in the digest, see `inputDigest`. */
const countKnown = (sql: SqlClient.SqlClient, org_id: OrgId, digests: ReadonlyArray<string>) =>
  sql<{ readonly count: number }>`
    SELECT count(*)::int AS count
    FROM unnest(${textArray(digests)}) AS digest
    WHERE EXISTS (
      SELECT 1
      FROM dataset_examples
      WHERE org_id = ${org_id}
        AND input_digest = decode(digest, 'hex')
        AND until_version IS NULL
    )
  `.pipe(Effect.map((rows) => rows[0]?.count ?? 0))

/** What promoting a task's staged corrections would do. The set is read without its corrections; of those, one page is. */
export const previewPromotion = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  request: PageRequest<FeedbackId>
) {
  const head = yield* headOf(sql, org_id, task_id)
  if (Option.isNone(head)) return yield* noTask
  const { promoted, revision, superseded } = planPromotion(yield* stagedOf(sql, org_id, task_id, ""))
  const replaced = yield* countKnown(
    sql,
    org_id,
    promoted.map(({ input_digest }) => input_digest)
  )
  const { cursor } = request
  const left = cursor === undefined ? promoted : promoted.filter(({ feedback_id }) => feedback_id < cursor)
  const { ids, next } = cutBySize(left.slice(0, rowLimit(request)), rowLimit(request) - 1)
  const rows = yield* readWithInputs(sql, org_id, ids)
  const result: PromotionPreview = {
    base_dataset_id: head.value.dataset_id,
    feedback_revision: revision,
    corrections: rows.map((row) => ({ ...toFeedback(row), input: row.input })),
    next_cursor: next,
    correction_count: promoted.length,
    superseded: superseded.slice(0, MAX_SUPERSEDED),
    superseded_count: superseded.length,
    examples_added: promoted.length - replaced,
    examples_replaced: replaced
  }
  return result
})

/**
 * Within the caller's transaction: makes the next version from a task's staged corrections. The dataset is held first, so that of two
 * promotions one waits and then finds another base; then the set, which is read in pieces, however large it is.
 */
export const promoteStaged = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  datasets: Datasets["Service"],
  { actor, org_id }: Principal,
  task_id: TaskId,
  request: PromoteRequest,
  now: Timestamp
) {
  yield* acquireDatasetLock(sql, org_id, task_id)
  const head = yield* headOf(sql, org_id, task_id)
  if (Option.isNone(head)) return yield* noTask
  const { dataset_id } = head.value
  const plan = planPromotion(yield* stagedOf(sql, org_id, task_id, "FOR NO KEY UPDATE"))
  const current = { current_dataset_id: dataset_id, current_feedback_revision: plan.revision }
  if (dataset_id !== request.base_dataset_id) {
    return yield* new DatasetBaseChanged({
      detail: "Another version was made since the preview; look at it, and promote again",
      ...current
    })
  }
  if (!Arr.isReadonlyArrayNonEmpty(plan.promoted)) {
    return yield* new NothingStaged({ detail: "Stage a correction first, then promote" })
  }
  if (plan.revision !== request.expected_feedback_revision) {
    return yield* new FeedbackChanged({
      detail: "Other corrections were staged since the preview; look at them, and promote again",
      ...current
    })
  }
  const { dataset } = yield* datasets.derive(
    { org_id, task_id, base: dataset_id, by: actor, now },
    examplesOf(sql, org_id, plan)
  )
  const promoted = idsOf(plan.promoted)
  const superseded = plan.superseded.map(({ id }) => id)
  yield* settle(sql, org_id, promoted, "promoted", dataset.id)
  yield* settle(sql, org_id, superseded, "superseded", null)
  return { dataset, promoted, superseded: superseded.length }
})

/** Writes what became of staged corrections. */
const settle = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  ids: ReadonlyArray<FeedbackId>,
  status: "promoted" | "superseded",
  dataset_id: DatasetId | null
) => sql`
  UPDATE feedback
  SET status = ${status}, dataset_id = ${dataset_id}
  WHERE org_id = ${org_id}
    AND feedback_id = ANY(${textArray(ids)})
`

const idsOf = (staged: ReadonlyArray<StagedRow>): ReadonlyArray<FeedbackId> =>
  staged.map(({ feedback_id }) => feedback_id)

/**
 * The corrections as examples, read in pieces. Of two with one input the one that was staged later is the later example: it is the one
 * that counts.
 */
const examplesOf = (sql: SqlClient.SqlClient, org_id: OrgId, { promoted }: Promotion<StagedRow>) =>
  Stream.fromIterable(chunksByBytes(sortByStagingTime(promoted))).pipe(
    Stream.mapEffect((piece) => Effect.orDie(readWithInputs(sql, org_id, idsOf(piece)))),
    Stream.flatMap((rows) => Stream.fromIterable(rows)),
    Stream.map(({ correction, feedback_id, input }): NewExample => ({
      input,
      answer: correction,
      source_feedback_id: feedback_id
    }))
  )
