import { ByteSize, Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Deletion } from "../domain/deletion/Deletion.ts"
import { JsonObject } from "../domain/tasks/Dataset.ts"
import { SessionId, TaskId } from "../domain/Ids.ts"
import { NewProvider } from "../domain/tasks/Provider.ts"
import { ModelCall, TaskRun } from "../domain/tasks/Run.ts"
import { Instructions, JsonSchema, ReviewShare, SavedTask, Task } from "../domain/tasks/Task.ts"
import { Authentication, requires } from "./Authorization.ts"
import {
  CredentialFree,
  BodyLimit,
  Idempotent,
  idempotencyHeaders,
  RequestBody,
  WaitsByDesign
} from "./Middleware.ts"
import { page, pageQuery } from "./Pagination.ts"
import {
  DatasetBusy,
  IdempotencyKeyInUse,
  IdempotencyKeyReused,
  InsufficientScope,
  InvalidInput,
  InvalidSchema,
  InvalidHeaders,
  InvalidInstructions,
  InvalidUrl,
  LimitReached,
  NotFound,
  NoExample,
  NoNearExample,
  ProviderFailed,
  RateLimited,
  TaskInUse
} from "./Problems.ts"
import { Metadata, Name } from "./Text.ts"

export const NewTask = Schema.Struct({
  name: Name.annotateKey({ description: "A name that people recognize: 1 to 200 visible characters." }),
  instructions: Schema.optionalKey(Instructions).annotateKey({
    description:
      "Instructions for the model, sent with the input and the answer schema, at most 100,000 characters. `{{input.customer.name}}` inserts a value of the input; a part with other characters is written as a JSON Pointer, `{{input/customer/first name}}`. Default empty."
  }),
  input_schema: JsonSchema.annotateKey({
    description:
      "JSON Schema 2020-12 of inputs that allows only objects, by `type` or by a `$ref` to such a schema. At most 64 KiB."
  }),
  answer_schema: JsonSchema.annotateKey({
    description:
      "JSON Schema 2020-12 of answers and corrections that allows only objects, by `type` or by a `$ref` to such a schema. At most 64 KiB."
  }),
  provider: Schema.optionalKey(NewProvider).annotateKey({
    description: "What answers runs. Default `examples`: the answer of the nearest example of the dataset."
  }),
  self_review: Schema.optionalKey(Schema.Boolean).annotateKey({
    description:
      "Whether the API key that submitted a correction, or a key that it created, can stage it. Default true."
  }),
  review_share: Schema.optionalKey(ReviewShare).annotateKey({
    description: "Share of the runs with an answer that is sampled for review, 0 to 1. Default 0."
  })
}).annotate({ identifier: "NewTask", description: "A task to create." })
export type NewTask = typeof NewTask.Type

export const TaskChange = Schema.Struct({
  name: Schema.optionalKey(Name).annotateKey({ description: "New name. Absent: unchanged." }),
  instructions: Schema.optionalKey(Instructions).annotateKey({
    description: "New working copy of the instructions, at most 100,000 characters. Absent: unchanged."
  }),
  input_schema: Schema.optionalKey(JsonSchema).annotateKey({
    description: "New input schema. Fixed once the task has runs or a dataset. Absent: unchanged."
  }),
  answer_schema: Schema.optionalKey(JsonSchema).annotateKey({
    description: "New answer schema. Fixed once the task has runs or a dataset. Absent: unchanged."
  }),
  provider: Schema.optionalKey(NewProvider).annotateKey({
    description: "New working copy of the provider. Absent: unchanged."
  }),
  self_review: Schema.optionalKey(Schema.Boolean).annotateKey({
    description: "Whether submitters of corrections can stage them. Absent: unchanged."
  }),
  review_share: Schema.optionalKey(ReviewShare).annotateKey({
    description: "New share of runs that is sampled for review, 0 to 1. Absent: unchanged."
  })
}).annotate({ identifier: "TaskChange", description: "Changes to a task. Absent members stay as they are." })
export type TaskChange = typeof TaskChange.Type

export const NewRun = Schema.Struct({
  input: JsonObject.annotateKey({ description: "The input, valid against the task's input schema." }),
  answer: Schema.optionalKey(JsonObject).annotateKey({
    description:
      "An answer that you got from a model yourself, to be logged: valid against the answer schema. If absent, the live release answers."
  }),
  answered_by: Schema.optionalKey(ModelCall).annotateKey({
    description:
      "The call to the model by which you got `answer`; refused without an `answer`. Default unknown."
  }),
  session_id: Schema.optionalKey(Schema.NullOr(SessionId)).annotateKey({
    description: "The agent session that the run belongs to. Default null."
  }),
  metadata: Schema.optionalKey(Metadata).annotateKey({
    description: "The client's own data: a JSON object of at most 16,384 characters. Default empty."
  }),
  canary_key: Schema.optionalKey(
    Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(200))
  ).annotateKey({
    description:
      "Runs with the same key, such as an end user's ID, are answered by the same release while a canary answers a share of the runs. 1 to 200 characters; not stored. Default: the session, or without one a different key for each run."
  })
})
  .annotate({ description: "A task to run, or a run to log." })
  .check(
    Schema.makeFilter((run) =>
      run.answered_by === undefined || run.answer !== undefined
        ? undefined
        : { path: ["answered_by"], issue: "Expected no `answered_by` without an `answer`" }
    )
  )
  .annotate({ identifier: "NewRun" })
export type NewRun = typeof NewRun.Type

/** Response header with the run's trace ID. Failed runs have it too. */
export const TRACE_HEADER = "x-svc-trace-id"

const runDocument = OpenApi.annotations({
  identifier: "runTask",
  summary: "Run a task",
  description: [
    "Answers an input with the live release, or, if you send `answer`, logs that answer without calling a provider.",
    "The run is logged before the response is sent. A failed run is logged as failed and gets 502 `PROVIDER_FAILED`, 409 `NO_EXAMPLE` or 422 `NO_NEAR_EXAMPLE`, with its `trace_id`.",
    "Each run starts its own trace; a `traceparent` header becomes a link of its span.",
    "An organization has a limit of runs that wait for a provider, by number and by the size of their inputs; a run beyond it gets 429 `RATE_LIMITED` and is not logged.",
    "With an `idempotency-key`, a repeated request returns the first run instead of calling the provider again.",
    "Body limit: 4 MiB."
  ].join(" "),
  transform: (operation) => {
    const header = {
      [TRACE_HEADER]: { schema: { type: "string" }, description: "The run's `trace_id`." }
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

/** A page of tasks. */
export const TaskPage = page("tasks", Task, TaskId)

export class TasksApi extends HttpApiGroup.make("tasks")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: pageQuery(TaskId),
      success: TaskPage
    })
      .middleware(requires("tasks.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "listTasks",
          summary: "List tasks",
          description: "Lists tasks, newest first."
        })
      ),
    HttpApiEndpoint.post("create", "/", {
      headers: idempotencyHeaders,
      payload: NewTask,
      success: SavedTask.pipe(HttpApiSchema.status(201)),
      error: [InvalidSchema, InvalidInstructions, InvalidUrl, InvalidHeaders, LimitReached]
    })
      .middleware(Idempotent)
      .middleware(CredentialFree)
      .middleware(requires("tasks.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "createTask",
          summary: "Create a task",
          description:
            "Creates a task with its first release, which is live immediately and takes the task's first dataset version once that is created. `warnings` names keywords of the schemas that have no effect, such as `format`. An organization can have 10,000."
        })
      ),
    HttpApiEndpoint.get("get", "/:id", {
      params: { id: TaskId.annotateKey({ description: "The task's ID." }) },
      success: Task,
      error: NotFound
    })
      .middleware(requires("tasks.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "getTask",
          summary: "Get a task",
          description: "Returns one task with its working copy and its live release."
        })
      ),
    HttpApiEndpoint.patch("update", "/:id", {
      params: { id: TaskId.annotateKey({ description: "The task's ID." }) },
      payload: TaskChange,
      success: SavedTask,
      error: [
        NotFound,
        InvalidSchema,
        InvalidInstructions,
        InvalidUrl,
        InvalidHeaders,
        TaskInUse,
        InsufficientScope
      ]
    })
      .middleware(CredentialFree)
      .middleware(requires("tasks.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "updateTask",
          summary: "Update a task",
          description:
            "Changes the name and the working copy, which the next comparison tries. The live release does not change, except that a new `api_key` for a base URL is used for every release with that base URL. Replacing credentials of a reviewer model's task also needs `rules.write`."
        })
      ),
    HttpApiEndpoint.delete("remove", "/:id", {
      params: { id: TaskId.annotateKey({ description: "The task's ID." }) },
      success: Deletion.pipe(HttpApiSchema.status(202)),
      error: [NotFound, DatasetBusy]
    })
      .middleware(requires("data.delete"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "deleteTask",
          summary: "Delete a task",
          description:
            "Deletes a task with its runs, feedback, dataset versions, comparisons, releases and provider keys. From this response on, they get 404, and running comparisons are cancelled; a background worker deletes them, and `GET /v1/deletions/:id` returns the progress. Agent sessions and approvals stay. It cannot be undone."
        })
      ),
    HttpApiEndpoint.post("run", "/:id/run", {
      params: { id: TaskId.annotateKey({ description: "The task's ID." }) },
      headers: {
        ...idempotencyHeaders,
        traceparent: Schema.optionalKey(Schema.String).annotateKey({
          description:
            "W3C Trace Context of the caller's span. The run's span links to it. Ignored if invalid."
        })
      },
      payload: NewRun,
      success: TaskRun,
      error: [
        NotFound,
        InvalidInput,
        LimitReached,
        RateLimited,
        NoExample,
        NoNearExample,
        ProviderFailed,
        IdempotencyKeyReused,
        IdempotencyKeyInUse
      ]
    })
      .middleware(requires("tasks.run"))
      .annotate(BodyLimit, ByteSize.mebibytes(4))
      .annotate(WaitsByDesign, true)
      .annotateMerge(runDocument)
  )
  .prefix("/v1/tasks")
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "Tasks",
      description:
        "A task is a question that a model is asked repeatedly: an input and an answer schema, instructions and a provider. Running it logs a run, which feedback refers to."
    })
  ) {}
