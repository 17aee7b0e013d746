/** The console's list of tasks, with the figures that tell where there is work. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { DatasetId, TaskId } from "../../domain/Ids.ts"
import { Actor } from "../../domain/identity/Principal.ts"
import { Timestamp } from "../../domain/Time.ts"
import { Authentication, requires } from "../Authorization.ts"
import { RequestBody } from "../Middleware.ts"
import { page, pageQuery } from "../Pagination.ts"

/** Days whose runs and feedback are counted, today included. */
export const TASK_ROW_DAYS = 30

/** Corrections and runs that wait for a person are counted up to this number. */
export const MAX_WAITING_COUNT = 1_000

/** A task in the list. Figures are null without the scope to read the counted records. */
export const TaskRow = Schema.Struct({
  id: TaskId,
  name: Schema.String,
  /** The model of the working copy; null: it answers with the nearest example. */
  model: Schema.NullOr(Schema.String),
  created_at: Timestamp,
  created_by: Actor,
  /** The newest version of the dataset; null if it has none. */
  dataset: Schema.NullOr(Schema.Struct({ id: DatasetId, version: Schema.Int, example_count: Schema.Int })),
  /** Runs of the last `TASK_ROW_DAYS` days. */
  runs: Schema.Int,
  /** Feedback of these days, by score. */
  feedback: Schema.NullOr(Schema.Struct({ positive: Schema.Int, neutral: Schema.Int, negative: Schema.Int })),
  /** Corrections that wait for a reviewer, at most `MAX_WAITING_COUNT`. */
  pending_corrections: Schema.NullOr(Schema.Int),
  /** Corrections that wait for a promotion, at most `MAX_WAITING_COUNT`. */
  staged_corrections: Schema.NullOr(Schema.Int),
  /** Runs in the review queue, at most `MAX_WAITING_COUNT`. */
  runs_to_review: Schema.NullOr(Schema.Int)
}).annotate({ identifier: "TaskRow" })
export type TaskRow = typeof TaskRow.Type

/** The list of tasks. */
export class ConsoleTasksApi extends HttpApiGroup.make("task_rows")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: pageQuery(TaskId),
      success: page("tasks", TaskRow, TaskId)
    }).middleware(requires("tasks.read"))
  )
  .prefix("/console/task-rows")
  .middleware(RequestBody)
  .middleware(Authentication) {}
