import { ByteSize, Schema, SchemaTransformation } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { documented } from "../domain/documented.ts"
import { documentedEnum } from "../domain/documentedEnum.ts"
import { ReleaseId, RunId, TaskId, TraceId } from "../domain/Ids.ts"
import { Score } from "../domain/tasks/Feedback.ts"
import { JsonObject } from "../domain/tasks/Dataset.ts"
import { ModelCall, RunRecord, RunSource, RunStatus } from "../domain/tasks/Run.ts"
import { isVisibleLine } from "../domain/VisibleText.ts"
import { timestamp } from "../domain/Time.ts"
import { Authentication, requires } from "./Authorization.ts"
import { BodyLimit, RequestBody } from "./Middleware.ts"
import { page, pageQuery } from "./Pagination.ts"
import { FieldError } from "./Problem.ts"
import { DatasetBusy, InvalidInput, LimitReached, NotFound } from "./Problems.ts"
import { Metadata } from "./Text.ts"

/** PostgreSQL's text cannot contain NUL, so no stored text does. */
const hasNoNul = (text: string): boolean => !text.includes("\0")

/** Members of the metadata that one query can name. */
const MAX_METADATA_MEMBERS = 8

const MetadataMembers = Schema.Record(
  Schema.String,
  Schema.Union([Schema.String, Schema.Finite, Schema.Boolean])
).check(
  Schema.makeFilter(
    (members) => {
      const names = Object.keys(members)
      return names.length > 0 && names.length <= MAX_METADATA_MEMBERS && names.every(hasNoNul)
    },
    { expected: `a JSON object of 1 to ${MAX_METADATA_MEMBERS} strings, numbers and booleans` }
  )
)

const metadataDescription = `Only runs whose metadata has all of these members: a JSON object such as \`{"customer":"acme"}\`, of 1 to ${MAX_METADATA_MEMBERS} strings, numbers and booleans. Only the first 16 strings, numbers and booleans at the top of a run's metadata can be searched.`

/** JSON in a parameter. Not `fromJsonString`, which documents the parameter as the text of another schema. */
const metadataFilter = Schema.String.annotate({ description: metadataDescription }).pipe(
  Schema.decodeTo(Schema.Unknown, SchemaTransformation.fromJsonString()),
  Schema.decodeTo(
    MetadataMembers,
    SchemaTransformation.passthroughSupertype<typeof MetadataMembers.Encoded, unknown>()
  )
)

/** The longest duration that runs are filtered by, in milliseconds: a day. */
export const MAX_FILTERED_DURATION_MS = 86_400_000

/** The filters of the list. */
export const runFilter = {
  created_after: Schema.optionalKey(timestamp("Only runs of this time or later.")),
  created_before: Schema.optionalKey(timestamp("Only runs before this time.")),
  release_id: Schema.optionalKey(ReleaseId).annotateKey({
    description: "Only runs that this release answered, without answers that clients logged."
  }),
  source: Schema.optionalKey(RunSource).annotateKey({ description: "Only runs with this source." }),
  status: Schema.optionalKey(RunStatus).annotateKey({ description: "Only runs of this status." }),
  score: Schema.optionalKey(Score).annotateKey({ description: "Only runs with feedback of this score." }),
  has_feedback: Schema.optionalKey(Schema.Boolean).annotateKey({
    description: "Only runs with feedback (`true`) or without any (`false`)."
  }),
  min_duration_ms: Schema.optionalKey(
    Schema.Int.check(
      Schema.isBetween(
        { minimum: 0, maximum: MAX_FILTERED_DURATION_MS },
        { expected: "a whole number of milliseconds, at most a day" }
      )
    )
  ).annotateKey({
    description: "Only runs whose answer took at least this many milliseconds, at most 86,400,000 (a day)."
  }),
  awaits_review: Schema.optionalKey(Schema.Boolean).annotateKey({
    description: "Only runs in the review queue (`true`) or outside of it (`false`)."
  }),
  metadata: Schema.optionalKey(metadataFilter).annotateKey({ description: metadataDescription }),
  text: Schema.optionalKey(
    Schema.String.check(
      Schema.isMinLength(1),
      Schema.isMaxLength(200),
      Schema.makeFilter(hasNoNul, { expected: "a text without NUL" }),
      documented({ minLength: 1 })
    )
  ).annotateKey({
    description:
      "Only runs whose input, answer or failure contains this text, 1 to 200 characters, in any case."
  })
}
export type RunFilter = Schema.Struct.Type<typeof runFilter>

/** Runs in one request of an import. */
export const MAX_IMPORTED_RUNS = 500

export const ImportedRun = Schema.Struct({
  id: Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(200), isVisibleLine).annotateKey({
    description:
      "Your own ID of the run, unique in the task: 1 to 200 visible characters. A run whose ID was imported before is not imported again."
  }),
  input: JsonObject.annotateKey({ description: "The input, valid against the task's input schema." }),
  answer: JsonObject.annotateKey({
    description: "The answer that the model gave, valid against the task's answer schema."
  }),
  created_at: Schema.optionalKey(
    timestamp(
      "When the run started, from the year 2000 on and not in the future. Default `answered_by.started_at`, or else now."
    )
  ),
  answered_by: Schema.optionalKey(ModelCall).annotateKey({
    description: "The call to the model that gave the answer. Default unknown."
  }),
  metadata: Schema.optionalKey(Metadata).annotateKey({
    description: "The client's own data: a JSON object of at most 16,384 characters. Default empty."
  }),
  score: Schema.optionalKey(Score).annotateKey({
    description:
      "A score that the answer got. It becomes feedback of this API key, which needs the scope `feedback.write` too. Default none."
  })
}).annotate({ identifier: "ImportedRun", description: "A past run to import." })
export type ImportedRun = typeof ImportedRun.Type

export const RunImport = Schema.Struct({
  runs: Schema.Array(ImportedRun)
    .check(Schema.isMinLength(1), Schema.isMaxLength(MAX_IMPORTED_RUNS))
    .annotateKey({ description: `Past runs, 1 to ${MAX_IMPORTED_RUNS}.` })
}).annotate({ identifier: "RunImport", description: "Past runs to import." })

export const ImportStatus = documentedEnum({
  imported: "The run was imported.",
  duplicate: "A run with this ID was imported before, or precedes it in the request. Nothing changed."
})

export const RunImportResult = Schema.Struct({
  runs: Schema.Array(
    Schema.Struct({
      id: Schema.String.annotateKey({ description: "Your ID of the run." }),
      trace_id: TraceId.annotateKey({ description: "The run's ID, by which feedback names it." }),
      status: ImportStatus.annotateKey({ description: "What happened to the run." })
    })
  ).annotateKey({ description: "The valid runs, in the order of the request." }),
  problems: Schema.Array(
    Schema.Struct({
      index: Schema.Int.annotateKey({ description: "The position of the run in the request, from 0." }),
      id: Schema.String.annotateKey({ description: "Your ID of the run." }),
      errors: Schema.Array(FieldError).annotateKey({
        description: "What is wrong, and where in the request."
      })
    })
  ).annotateKey({ description: "The runs that were not imported, because they are invalid." })
}).annotate({ identifier: "RunImportResult", description: "The result of an import of runs." })
export type RunImportResult = typeof RunImportResult.Type

/** A page of runs. */
export const RunPage = page("runs", RunRecord, RunId)

export class RunsApi extends HttpApiGroup.make("runs")
  .add(
    HttpApiEndpoint.get("list", "/v1/tasks/:id/runs", {
      params: { id: TaskId.annotateKey({ description: "The task's ID." }) },
      query: { ...pageQuery(RunId), ...runFilter },
      success: RunPage,
      error: NotFound
    })
      .middleware(requires("runs.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "listRuns",
          summary: "List runs",
          description:
            "Lists the task's runs, newest first. Filters can be combined. One request examines a limited number of runs, so a page can have fewer matches than `limit`, or none: continue until `next_cursor` is null."
        })
      ),
    HttpApiEndpoint.get("get", "/v1/runs/:id", {
      params: { id: TraceId.annotateKey({ description: "The run's `trace_id`." }) },
      success: RunRecord,
      error: NotFound
    })
      .middleware(requires("runs.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "getRun",
          summary: "Get a run",
          description: "Returns one run. `GET /v1/feedback?inference_log_id=…` lists the feedback on it."
        })
      ),
    HttpApiEndpoint.post("import", "/v1/tasks/:id/runs/import", {
      params: { id: TaskId.annotateKey({ description: "The task's ID." }) },
      payload: RunImport,
      success: RunImportResult,
      error: [NotFound, InvalidInput, LimitReached]
    })
      .middleware(requires("tasks.run"))
      .annotate(BodyLimit, ByteSize.mebibytes(4))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "importRuns",
          summary: "Import past runs",
          description: `Logs past runs with their model, usage, times and scores, at most ${MAX_IMPORTED_RUNS} and 4 MiB per request. Invalid runs are named in \`problems\`, and the others are imported. Runs are known by your \`id\`, so a request can be repeated safely. Imported runs are found and reviewed like others; they are not exported as spans, and not sampled for review.`
        })
      ),
    HttpApiEndpoint.delete("remove", "/v1/runs/:id", {
      params: { id: TraceId.annotateKey({ description: "The run's `trace_id`." }) },
      error: [NotFound, DatasetBusy]
    })
      .middleware(requires("data.delete"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "deleteRun",
          summary: "Delete a run",
          description:
            "Deletes a run with the feedback on it, and erases the examples that corrections of it became from every dataset version. Its spans that wait for export lose their content. It cannot be undone."
        })
      ),
    HttpApiEndpoint.post("dismiss", "/v1/runs/:id/dismiss-review", {
      params: { id: TraceId.annotateKey({ description: "The run's `trace_id`." }) },
      success: HttpApiSchema.NoContent,
      error: NotFound
    })
      .middleware(requires("feedback.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "dismissRunReview",
          summary: "Dismiss a review",
          description:
            "Removes a run from its task's review queue without feedback on it. Idempotent. Feedback removes it too."
        })
      )
  )
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "Runs",
      description:
        "A run is one input of a task with its answer or failure, and what answered it. A task can sample a share of its runs for review: they wait in its review queue until someone gives feedback on them or dismisses them."
    })
  ) {}
