import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { ImportedRun } from "../../../api/Runs.ts"
import { FeedbackId, type OrgId, RunId, type TaskId, TraceId } from "../../../domain/Ids.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import { authorOf } from "../../../domain/tasks/Feedback.ts"
import { initialStatus } from "../../../domain/tasks/FeedbackState.ts"
import type { Timestamp } from "../../../domain/Time.ts"
import { float8Array, int4Array, textArray, timestamptzArray } from "../../store/pgArrays.ts"
import { rowsOf } from "../../store/rows.ts"
import { insertFeedback } from "../Feedback/insertFeedback.ts"
import { countedRunColumns, runCounts } from "../runCounts.ts"
import { addedMetadata } from "../runMetadata.ts"
import type { RunPlan } from "../Runs/runPlan.ts"
import { createHash } from "node:crypto"

/**
 * Derives a run's trace id from the caller's id. The primary key of runs is the trace id in an organization, so an id is imported once.
 */
export const importedTraceId = (org_id: OrgId, task_id: TaskId, id: string): TraceId =>
  TraceId.make(createHash("sha256").update(`${org_id}\n${task_id}\n${id}`).digest("hex").slice(0, 32))

/** A run to import. Input, answer and metadata are JSON texts. */
export interface ImportedRunRow {
  readonly trace_id: TraceId
  readonly run_id: RunId
  readonly created_at: Timestamp
  readonly input: string
  readonly answer: string
  readonly metadata: string
  /** The size of these texts. */
  readonly bytes: number
  readonly run: ImportedRun
}

/** Makes the row of a run. Its time is the run's own, or `now` if unknown. */
export const toImportedRunRow = Effect.fnUntraced(function* (
  org_id: OrgId,
  task_id: TaskId,
  run: ImportedRun,
  now: Timestamp
) {
  const created_at = run.created_at ?? run.answered_by?.started_at ?? now
  const [input, answer, metadata] = [run.input, run.answer, run.metadata ?? {}].map((value) =>
    JSON.stringify(value)
  )
  const row: ImportedRunRow = {
    trace_id: importedTraceId(org_id, task_id, run.id),
    run_id: yield* RunId.generateAt(created_at),
    created_at,
    input: input ?? "",
    answer: answer ?? "",
    metadata: metadata ?? "",
    bytes: Buffer.byteLength(`${input ?? ""}${answer ?? ""}${metadata ?? ""}`),
    run
  }
  return row
})

const insertedRows = rowsOf(Schema.Struct({ trace_id: TraceId }))

/** Inserts the runs that are not in the log yet, and returns their trace ids. */
export const insertImportedRuns = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { actor, org_id }: Principal,
  {
    plan,
    rows,
    task_id
  }: { readonly task_id: TaskId; readonly plan: RunPlan; readonly rows: ReadonlyArray<ImportedRunRow> }
) {
  const callOf = ({ run }: ImportedRunRow) => run.answered_by ?? {}
  const inserted = yield* insertedRows.all(sql`
    WITH inserted AS (
      INSERT INTO runs (
        org_id, trace_id, run_id, task_id, release_id, dataset_id, source, status, input, answer, metadata, bytes, provider, model,
        input_tokens, output_tokens, provider_calls, duration_ms, started_at, created_at, created_by_id, created_by_name
      )
      SELECT
        ${org_id}, trace_id, run_id, ${task_id}, ${plan.release_id}, ${plan.dataset_id}, 'logged', 'succeeded', input::json, answer::json,
        metadata::json, octet_length(input) + octet_length(answer) + octet_length(metadata), provider, model, input_tokens,
        output_tokens, 0, duration_ms, started_at, created_at, ${actor.id}, ${actor.name}
      FROM unnest(
        ${textArray(rows.map(({ trace_id }) => trace_id))}::text[],
        ${textArray(rows.map(({ run_id }) => run_id))}::text[],
        ${textArray(rows.map(({ input }) => input))}::text[],
        ${textArray(rows.map(({ answer }) => answer))}::text[],
        ${textArray(rows.map(({ metadata }) => metadata))}::text[],
        ${textArray(rows.map((row) => callOf(row).provider ?? null))}::text[],
        ${textArray(rows.map((row) => callOf(row).model ?? null))}::text[],
        ${int4Array(rows.map((row) => callOf(row).usage?.input_tokens ?? null))}::int[],
        ${int4Array(rows.map((row) => callOf(row).usage?.output_tokens ?? null))}::int[],
        ${float8Array(rows.map((row) => callOf(row).duration_ms ?? null))}::float8[],
        ${timestamptzArray(rows.map((row) => callOf(row).started_at ?? null))}::timestamptz[],
        ${timestamptzArray(rows.map(({ created_at }) => created_at))}::timestamptz[]
      ) AS r (
        trace_id, run_id, input, answer, metadata, provider, model, input_tokens, output_tokens, duration_ms, started_at, created_at
      )
      ON CONFLICT (org_id, trace_id) DO NOTHING
      RETURNING trace_id, run_id, metadata, ${sql.literal(countedRunColumns())}
    ), ${runCounts(sql, "inserted", 1)}, ${addedMetadata(sql, sql`SELECT * FROM inserted`)}
    SELECT trace_id
    FROM inserted
  `)
  return new Set(inserted.map(({ trace_id }) => trace_id))
})

/** Inserts the scores of runs as feedback of their days, and returns the number of inserted records. */
export const insertScores = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { actor, org_id }: Principal,
  { rows, task_id }: { readonly task_id: TaskId; readonly rows: ReadonlyArray<ImportedRunRow> }
) {
  const scored = rows.flatMap(({ created_at, run: { score }, run_id, trace_id }) =>
    score === undefined ? [] : [{ created_at, score, run_id, trace_id }]
  )
  if (scored.length === 0) return 0
  const inserted = yield* insertFeedback(
    sql,
    yield* Effect.forEach(
      scored,
      Effect.fnUntraced(function* ({ created_at, run_id, score, trace_id }) {
        return {
          org_id,
          run_id,
          release_id: null,
          author: authorOf({ key_id: actor.id, end_user: null }),
          correction: null,
          evaluated: { caller_traceparent: null, provider_calls: 0 },
          record: {
            id: yield* FeedbackId.generateAt(created_at),
            task_id,
            inference_log_id: trace_id,
            score,
            score_value: null,
            score_label: null,
            comment: null,
            source: "api_key" as const,
            end_user: null,
            correction: null,
            status: initialStatus(false),
            current: true,
            withdrawn_at: null,
            created_at,
            created_by: actor,
            reviewed_at: null,
            reviewed_by: null,
            review_note: null,
            dataset_id: null
          }
        }
      })
    ),
    org_id
  )
  return inserted.length
})
