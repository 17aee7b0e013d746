import { ByteSize, Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { JsonObject } from "../domain/tasks/Dataset.ts"
import { SessionId, TaskId } from "../domain/Ids.ts"
import { NewProvider } from "../domain/tasks/Provider.ts"
import { TaskRun } from "../domain/tasks/Run.ts"
import { Instructions, JsonSchema, Task } from "../domain/tasks/Task.ts"
import { Authentication, requires } from "./Authorization.ts"
import { BodyLimit, Idempotent, idempotencyHeaders, RequestBody } from "./Middleware.ts"
import { page, pageQuery } from "./Pagination.ts"
import {
  IdempotencyKeyInUse,
  IdempotencyKeyReused,
  InvalidInput,
  InvalidSchema,
  InvalidUrl,
  LimitReached,
  NotFound,
  ProviderFailed,
  TaskInUse
} from "./Problems.ts"
import { Metadata, Name } from "./Text.ts"

/** What a new task is made of. Without a provider its runs are answered by the nearest example of its dataset. */
export const NewTask = Schema.Struct({
  name: Name,
  instructions: Schema.optionalKey(Instructions),
  /** The shape of inputs: JSON Schema 2020-12, an object at its top. */
  input_schema: JsonSchema,
  /** The shape of answers, and of corrections. */
  answer_schema: JsonSchema,
  provider: Schema.optionalKey(NewProvider)
}).annotate({ identifier: "NewTask" })
export type NewTask = typeof NewTask.Type

/** What is changed of a task; what is not named stays. Shapes are fixed once the task has a run or a dataset. */
export const TaskChange = Schema.Struct({
  name: Schema.optionalKey(Name),
  instructions: Schema.optionalKey(Instructions),
  input_schema: Schema.optionalKey(JsonSchema),
  answer_schema: Schema.optionalKey(JsonSchema),
  provider: Schema.optionalKey(NewProvider)
}).annotate({ identifier: "TaskChange" })
export type TaskChange = typeof TaskChange.Type

/** An input to answer; with `answer` a run that was made elsewhere, to be logged. */
export const NewRun = Schema.Struct({
  input: JsonObject,
  answer: Schema.optionalKey(JsonObject),
  session_id: Schema.optionalKey(Schema.NullOr(SessionId)),
  metadata: Schema.optionalKey(Metadata)
}).annotate({ identifier: "NewRun" })
export type NewRun = typeof NewRun.Type

/** The header that says under which trace a run was logged, also where it failed. */
export const TRACE_HEADER = "x-svc-trace-id"

const runDocument = OpenApi.annotations({
  summary: "Run a task",
  description: [
    "The live release answers the input, or, where `answer` is given, that answer is logged and no provider asked.",
    "The run is logged before this is answered; one that failed is logged as failed and answered `PROVIDER_FAILED` with its `trace_id`.",
    "A run starts a trace of its own; a `traceparent` that is sent along becomes a link of its span."
  ].join(" "),
  transform: (operation) => {
    const header = {
      [TRACE_HEADER]: { schema: { type: "string" }, description: "The run's `trace_id`" }
    }
    const responses = operation["responses"]
    return {
      ...operation,
      responses: {
        ...responses,
        "200": { ...responses?.["200"], headers: header },
        "502": { ...responses?.["502"], headers: header }
      }
    }
  }
})

/** Tasks and their runs. */
export class TasksApi extends HttpApiGroup.make("tasks")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: pageQuery(TaskId),
      success: page("tasks", Task, TaskId)
    })
      .middleware(requires("tasks.read"))
      .annotate(OpenApi.Description, "Tasks, newest first."),
    HttpApiEndpoint.post("create", "/", {
      headers: idempotencyHeaders,
      payload: NewTask,
      success: Task.pipe(HttpApiSchema.status(201)),
      error: [InvalidSchema, InvalidUrl, LimitReached]
    })
      .middleware(Idempotent)
      .middleware(requires("tasks.write"))
      .annotate(
        OpenApi.Description,
        "A task with its first release, which is live at once and takes the task's first dataset version once that is made."
      ),
    HttpApiEndpoint.get("get", "/:task_id", {
      params: { task_id: TaskId },
      success: Task,
      error: NotFound
    })
      .middleware(requires("tasks.read"))
      .annotate(OpenApi.Description, "One task, with its working copy and what is live."),
    HttpApiEndpoint.patch("update", "/:task_id", {
      params: { task_id: TaskId },
      payload: TaskChange,
      success: Task,
      error: [NotFound, InvalidSchema, InvalidUrl, TaskInUse]
    })
      .middleware(requires("tasks.write"))
      .annotate(
        OpenApi.Description,
        "Changes the name and the working copy: what the next comparison tries. What is live stays as it is. A provider's key, given for the base URL that a release names, is used by that release from then on."
      ),
    HttpApiEndpoint.post("run", "/:task_id/run", {
      params: { task_id: TaskId },
      headers: { ...idempotencyHeaders, traceparent: Schema.optionalKey(Schema.String) },
      payload: NewRun,
      success: TaskRun,
      error: [NotFound, InvalidInput, ProviderFailed, IdempotencyKeyReused, IdempotencyKeyInUse]
    })
      .middleware(requires("tasks.run"))
      .annotate(BodyLimit, ByteSize.mebibytes(4))
      .annotateMerge(runDocument)
  )
  .prefix("/v1/tasks")
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "Tasks",
      description: "What an AI is asked over and over: shapes, instructions, a provider, and the log of runs."
    })
  ) {}
