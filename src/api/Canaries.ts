import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Canary, CanaryShare } from "../domain/tasks/Canary.ts"
import { TaskId } from "../domain/Ids.ts"
import { Authentication, requires } from "./Authorization.ts"
import { ReleaseCandidate } from "./Comparisons.ts"
import { CredentialFree, RequestBody } from "./Middleware.ts"
import { CandidateLost, ComparisonUnfinished, LiveReleaseChanged, NotFound } from "./Problems.ts"

export const NewCanary = Schema.Struct({
  ...ReleaseCandidate.fields,
  comparison_id: ReleaseCandidate.fields.comparison_id.annotateKey({
    description: "A completed comparison of the task, whose candidate answers a share of the runs."
  }),
  share: CanaryShare.annotateKey({ description: "Share of the runs that it answers, 0.001 to 0.99." })
})
  .annotate({ description: "A candidate that is to answer a share of the runs." })
  .check(
    Schema.makeFilter(({ force, reason }) =>
      force === true && reason === undefined
        ? { path: ["reason"], issue: "Expected a reason, because `force` is true" }
        : undefined
    )
  )
  .annotate({ identifier: "NewCanary" })
export type NewCanary = typeof NewCanary.Type

const params = { id: TaskId.annotateKey({ description: "The task's ID." }) }

export class CanariesApi extends HttpApiGroup.make("canaries")
  .add(
    HttpApiEndpoint.get("get", "/", { params, success: Canary, error: NotFound })
      .middleware(requires("tasks.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "getCanary",
          summary: "Get the canary",
          description:
            "Returns a task's canary with the feedback on its runs and on those of the live release. 404 if there is none."
        })
      ),
    HttpApiEndpoint.put("start", "/", {
      params,
      payload: NewCanary,
      success: Canary,
      error: [NotFound, ComparisonUnfinished, LiveReleaseChanged, CandidateLost]
    })
      .middleware(CredentialFree)
      .middleware(requires("tasks.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "startCanary",
          summary: "Start a canary, or change its share",
          description: [
            "Makes a completed comparison's candidate answer a share of the runs, as another release. Which runs those are depends on their `canary_key`, or else their session, alone: with a larger share, the ones that it has answered stay with it.",
            "With the comparison of the current canary, this changes its share; with another one, it replaces the canary. Refused like a release of the candidate, unless `force` is true.",
            "To promote the canary, make its release live with `POST /v1/tasks/:id/releases` and its `release_id`. Any new live release ends the canary."
          ].join(" ")
        })
      ),
    HttpApiEndpoint.delete("stop", "/", { params, success: HttpApiSchema.NoContent, error: NotFound })
      .middleware(requires("tasks.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "stopCanary",
          summary: "Stop the canary",
          description: "Lets the live release answer all runs again. 404 if there is no canary."
        })
      )
  )
  .prefix("/v1/tasks/:id/canary")
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "Canaries",
      description: "A canary is a release that answers a share of a task's runs before it is made live."
    })
  ) {}
