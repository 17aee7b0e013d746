import { Schema } from "effect"
import { JsonObject } from "./Dataset.ts"
import { DatasetId, ReleaseId, TaskId, TraceId } from "../Ids.ts"
import { Usage } from "./Provider.ts"
import { Timestamp } from "../Time.ts"

/** A run of a task: it was logged before this was answered. */
export const TaskRun = Schema.Struct({
  /** What feedback names the run by: its `inference_log_id`. Also in `x-svc-trace-id`. */
  trace_id: TraceId,
  task_id: TaskId,
  release_id: ReleaseId,
  dataset_id: Schema.NullOr(DatasetId),
  /** In the task's answer shape. */
  answer: JsonObject,
  usage: Usage,
  created_at: Timestamp
}).annotate({ identifier: "TaskRun" })
export type TaskRun = typeof TaskRun.Type

/** A W3C Trace Context `traceparent` (Trace Context, 3.2), as far as it is a valid one of a version that is known. */
const TRACEPARENT = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/

/** The caller's place in its own trace, if the header names one: a run links to it, and starts a trace of its own. */
export const parseTraceparent = (header: string | undefined): string | null =>
  header !== undefined && TRACEPARENT.test(header) ? header : null
