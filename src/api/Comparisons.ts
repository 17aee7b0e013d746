import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Comparison, ComparisonResult } from "../domain/tasks/Comparison.ts"
import { ComparisonId, DatasetId, ExampleId, ReleaseId, TaskId } from "../domain/Ids.ts"
import { NewProvider } from "../domain/tasks/Provider.ts"
import { Instructions, Release } from "../domain/tasks/Task.ts"
import { Authentication, requires } from "./Authorization.ts"
import { Idempotent, idempotencyHeaders, RequestBody } from "./Middleware.ts"
import { page, pageQuery } from "./Pagination.ts"
import { ComparisonUnfinished, InvalidUrl, LimitReached, NotFound, ProviderKeyExists } from "./Problems.ts"

/** What is tried. What is not named is the task's working copy, and of the dataset the newest version. */
export const NewComparison = Schema.Struct({
  candidate: Schema.optionalKey(
    Schema.Struct({
      instructions: Schema.optionalKey(Instructions),
      provider: Schema.optionalKey(NewProvider),
      dataset_id: Schema.optionalKey(DatasetId)
    })
  )
}).annotate({ identifier: "NewComparison" })
export type NewComparison = typeof NewComparison.Type

/** A comparison as it was taken in, or stands. */
export const AcceptedComparison = Schema.Struct({ comparison: Comparison }).annotate({
  identifier: "AcceptedComparison"
})

/** A comparison with a page of its results, newest example first. */
export const ComparisonDetail = Schema.Struct({
  comparison: Comparison,
  ...page("results", ComparisonResult, ExampleId).fields
}).annotate({ identifier: "ComparisonDetail" })
export type ComparisonDetail = typeof ComparisonDetail.Type

/** What is made live: the candidate of a comparison, or an earlier release of the task again. */
export const NewRelease = Schema.Union(
  [Schema.Struct({ comparison_id: ComparisonId }), Schema.Struct({ release_id: ReleaseId })],
  { mode: "oneOf" }
).annotate({ identifier: "NewRelease" })
export type NewRelease = typeof NewRelease.Type

/** Candidates against the live release. */
export class ComparisonsApi extends HttpApiGroup.make("comparisons")
  .add(
    HttpApiEndpoint.get("list", "/tasks/:task_id/comparisons", {
      params: { task_id: TaskId },
      query: pageQuery(ComparisonId),
      success: page("comparisons", Comparison, ComparisonId),
      error: NotFound
    })
      .middleware(requires("tasks.read"))
      .annotate(OpenApi.Description, "A task's comparisons, newest first."),
    HttpApiEndpoint.post("create", "/tasks/:task_id/comparisons", {
      headers: idempotencyHeaders,
      params: { task_id: TaskId },
      payload: NewComparison,
      success: AcceptedComparison.pipe(HttpApiSchema.status(202)),
      error: [NotFound, InvalidUrl, LimitReached, ProviderKeyExists]
    })
      .middleware(Idempotent)
      .middleware(requires("tasks.write"))
      .annotate(
        OpenApi.Description,
        [
          "Has the candidate and the live release answer every example of the task's newest dataset version, in the background. It goes on where it was after a restart; `compared` of `example_count` says how far it is.",
          "An answer agrees with the example's as JSON, whatever the order of keys: whole numbers exactly, others within a millionth.",
          "An `api_key` of the candidate's provider is kept where the task has none for its base URL. Another than the one it has is `PROVIDER_KEY_EXISTS`, since what is live may use that: leave it out, or renew it by a PATCH of the task.",
          "At most 20 comparisons of an organization are at work: one more is `LIMIT_REACHED` until one of them ends."
        ].join(" ")
      ),
    HttpApiEndpoint.get("get", "/comparisons/:id", {
      params: { id: ComparisonId },
      query: pageQuery(ExampleId),
      success: ComparisonDetail,
      error: NotFound
    })
      .middleware(requires("tasks.read"))
      .annotate(
        OpenApi.Description,
        "One comparison: how far it is, its figures, and a page of its examples with both answers."
      )
  )
  .prefix("/v1")
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "Comparisons",
      description: "A candidate against the live release, over the newest dataset version."
    })
  ) {}

/** What runs are answered by, and were before. */
export class ReleasesApi extends HttpApiGroup.make("releases")
  .add(
    HttpApiEndpoint.get("list", "/tasks/:task_id/releases", {
      params: { task_id: TaskId },
      query: pageQuery(ReleaseId),
      success: page("releases", Release, ReleaseId),
      error: NotFound
    })
      .middleware(requires("tasks.read"))
      .annotate(OpenApi.Description, "A task's releases, newest first: the first of them is live."),
    HttpApiEndpoint.post("create", "/tasks/:task_id/releases", {
      headers: idempotencyHeaders,
      params: { task_id: TaskId },
      payload: NewRelease,
      success: Release.pipe(HttpApiSchema.status(201)),
      error: [NotFound, ComparisonUnfinished]
    })
      .middleware(Idempotent)
      .middleware(requires("tasks.write"))
      .annotate(
        OpenApi.Description,
        "Makes the candidate of a finished comparison live, or by `release_id` an earlier release again, the first too: that is the way back. Nothing else changes what is live. Where it is live already, that release is answered."
      )
  )
  .prefix("/v1")
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "Releases",
      description: "What a task's runs are answered by, and its history."
    })
  ) {}
