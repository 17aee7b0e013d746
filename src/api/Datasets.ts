import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Dataset, Example, JsonObject } from "../domain/tasks/Dataset.ts"
import { DatasetId, ExampleId, TaskId } from "../domain/Ids.ts"
import { Authentication, requires } from "./Authorization.ts"
import { Idempotent, idempotencyHeaders, RequestBody } from "./Middleware.ts"
import { page, pageQuery } from "./Pagination.ts"
import { DatasetBaseChanged, InvalidInput, NotFound } from "./Problems.ts"

/**
 * The examples of a first version, or those that a next one adds: then `base_dataset_id` names the newest version there is. An example with
 * the very input of one of the base takes its place.
 */
export const NewDataset = Schema.Struct({
  base_dataset_id: Schema.optionalKey(Schema.NullOr(DatasetId)),
  examples: Schema.NonEmptyArray(Schema.Struct({ input: JsonObject, answer: JsonObject }))
}).annotate({ identifier: "NewDataset" })
export type NewDataset = typeof NewDataset.Type

/** The versions of tasks' datasets. */
export class DatasetsApi extends HttpApiGroup.make("datasets")
  .add(
    HttpApiEndpoint.get("list", "/tasks/:task_id/datasets", {
      params: { task_id: TaskId },
      query: pageQuery(DatasetId),
      success: page("datasets", Dataset, DatasetId),
      error: NotFound
    })
      .middleware(requires("datasets.read"))
      .annotate(OpenApi.Description, "The versions of a task's dataset, newest first."),
    HttpApiEndpoint.post("create", "/tasks/:task_id/datasets", {
      headers: idempotencyHeaders,
      params: { task_id: TaskId },
      payload: NewDataset,
      success: Dataset.pipe(HttpApiSchema.status(201)),
      error: [NotFound, InvalidInput, DatasetBaseChanged]
    })
      .middleware(Idempotent)
      .middleware(requires("datasets.write"))
      .annotate(
        OpenApi.Description,
        "The task's first version, or the next one: then the examples are added to `base_dataset_id`, which must be the newest. What is live does not change."
      ),
    HttpApiEndpoint.get("get", "/datasets/:id", {
      params: { id: DatasetId },
      success: Dataset,
      error: NotFound
    })
      .middleware(requires("datasets.read"))
      .annotate(OpenApi.Description, "One version: its number and how many examples it has."),
    HttpApiEndpoint.get("examples", "/datasets/:id/examples", {
      params: { id: DatasetId },
      query: pageQuery(ExampleId),
      success: page("examples", Example, ExampleId),
      error: NotFound
    })
      .middleware(requires("datasets.read"))
      .annotate(
        OpenApi.Description,
        "The examples of one version, newest first. A page may hold fewer than `limit` where examples are large; go on until `next_cursor` is null."
      ),
    HttpApiEndpoint.get("export", "/datasets/:id/export", {
      params: { id: DatasetId },
      // Eight MiB of numbers such as 1e20 are five times as long where they are written out.
      success: HttpApiSchema.StreamNdjson({ schema: Example, maxElementBytes: "64 MiB" }),
      error: NotFound
    })
      .middleware(requires("datasets.read"))
      .annotate(
        OpenApi.Description,
        "The whole version as JSON Lines, an example a line, newest first, sent as it is read."
      )
  )
  .prefix("/v1")
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "Datasets",
      description: "Examples of right answers, in versions that never change."
    })
  ) {}
