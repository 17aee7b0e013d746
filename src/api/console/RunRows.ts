/** The console's list of runs: the runs of all tasks, each as a row. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { ReleaseId, RunId, TaskId, TraceId } from "../../domain/Ids.ts"
import { Score } from "../../domain/tasks/Feedback.ts"
import { Usage } from "../../domain/tasks/Provider.ts"
import { RunSource, RunStatus } from "../../domain/tasks/Run.ts"
import { Timestamp } from "../../domain/Time.ts"
import { Authentication, requires } from "../Authorization.ts"
import { RequestBody } from "../Middleware.ts"
import { page, pageQuery } from "../Pagination.ts"
import { runFilter } from "../Runs.ts"

/** The most characters of an input, an answer or a failure in a row. */
export const MAX_ROW_TEXT = 400

/** The newest feedback on a run. */
export const NewestFeedback = Schema.Struct({
  score: Score,
  has_correction: Schema.Boolean
})
export type NewestFeedback = typeof NewestFeedback.Type

/** A run in the list. */
export const RunRow = Schema.Struct({
  trace_id: TraceId,
  task_id: TaskId,
  task_name: Schema.String,
  source: RunSource,
  status: RunStatus,
  model: Schema.NullOr(Schema.String),
  release_id: ReleaseId,
  /** Whether the release is the task's live one now, its canary, or neither. */
  release_role: Schema.Literals(["live", "canary", "earlier"]),
  usage: Schema.NullOr(Usage),
  duration_ms: Schema.NullOr(Schema.Finite),
  created_at: Timestamp,
  awaits_review: Schema.Boolean,
  /** The start of the input's JSON text, at most `MAX_ROW_TEXT` characters. Null: the input is too large to be read for a list. */
  input_start: Schema.NullOr(Schema.String),
  /** The start of the answer's JSON text. Null: the run failed, or the answer is too large to be read for a list. */
  answer_start: Schema.NullOr(Schema.String),
  /** The start of why the run failed. Null if it has an answer. */
  failure_start: Schema.NullOr(Schema.String),
  /** Null without feedback, or without the scope `feedback.read`. */
  feedback: Schema.NullOr(NewestFeedback)
}).annotate({ identifier: "RunRow" })
export type RunRow = typeof RunRow.Type

/** The filters of the list. */
export const runRowFilter = { ...runFilter, task_id: Schema.optionalKey(TaskId) }
export type RunRowFilter = Schema.Struct.Type<typeof runRowFilter>

/** The list of runs. */
export class ConsoleRunsApi extends HttpApiGroup.make("run_rows")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: { ...pageQuery(RunId), ...runRowFilter },
      success: page("runs", RunRow, RunId)
    }).middleware(requires("runs.read"))
  )
  .prefix("/console/run-rows")
  .middleware(RequestBody)
  .middleware(Authentication) {}
