import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { NewBudget } from "../domain/tasks/Budget.ts"
import { Comparison, ComparisonResult, ComparisonVerdict } from "../domain/tasks/Comparison.ts"
import { NewEvaluators } from "../domain/tasks/Evaluator.ts"
import { NewHoldOut } from "../domain/tasks/HoldOut.ts"
import { ComparisonId, DatasetId, ExampleId, ReleaseId, TaskId } from "../domain/Ids.ts"
import { NewJudge } from "../domain/tasks/Judge.ts"
import { NewProvider } from "../domain/tasks/Provider.ts"
import { ReleaseChanges } from "../domain/tasks/ReleaseChanges.ts"
import { Instructions, Release } from "../domain/tasks/Task.ts"
import { Authentication, requires } from "./Authorization.ts"
import { CredentialFree, Idempotent, idempotencyHeaders, RequestBody } from "./Middleware.ts"
import { page, pageQuery } from "./Pagination.ts"
import {
  CandidateLost,
  ComparisonUnfinished,
  InsufficientScope,
  InvalidComparison,
  InvalidHeaders,
  InvalidInstructions,
  InvalidUrl,
  LimitReached,
  LiveReleaseChanged,
  NotFound,
  ProviderKeyExists
} from "./Problems.ts"
import { Comment } from "./Text.ts"

/** The most answers of a side to an example. */
const MAX_REPEATS = 10

export const NewComparison = Schema.Struct({
  candidate: Schema.optionalKey(
    Schema.Struct({
      instructions: Schema.optionalKey(Instructions).annotateKey({
        description: "Instructions to try, at most 100,000 characters. Default: the task's working copy."
      }),
      provider: Schema.optionalKey(NewProvider).annotateKey({
        description: "Provider to try. Default: the task's working copy."
      }),
      dataset_id: Schema.optionalKey(DatasetId).annotateKey({
        description:
          "Dataset version that the candidate answers from or sees examples of. Default: the newest."
      })
    })
  ).annotateKey({ description: "What to try. Default: the task's working copy." }),
  hold_out: Schema.optionalKey(NewHoldOut).annotateKey({
    description:
      "Which examples the sides answer, and which ones they must not see. Default `leave_one_out`: every example is answered, and none from itself."
  }),
  evaluators: Schema.optionalKey(NewEvaluators).annotateKey({
    description:
      "How values of the answers are compared, by JSON Pointer, such as `/total` or `/lines/*/amount`: `*` means every item. At most 50. Others are compared as `equal`."
  }),
  judge: Schema.optionalKey(NewJudge).annotateKey({
    description:
      "A model that decides whether an answer agrees which differs by the evaluators. Default: none; such an answer does not agree."
  }),
  repeats: Schema.optionalKey(
    Schema.Int.check(
      Schema.isBetween(
        { minimum: 1, maximum: MAX_REPEATS },
        { expected: `a whole number from 1 to ${MAX_REPEATS}` }
      )
    )
  ).annotateKey({
    description: `How often each side answers each example, 1 to ${MAX_REPEATS}. More than once shows the variance of the model itself, which the intervals then count. Each repeat costs as much as the first answer. Default 1.`
  }),
  budget: Schema.optionalKey(NewBudget).annotateKey({
    description: "Limits of the comparison's spending. Default: no limit."
  })
}).annotate({ identifier: "NewComparison", description: "A comparison to start." })
export type NewComparison = typeof NewComparison.Type

export const AcceptedComparison = Schema.Struct({
  comparison: Comparison.annotateKey({ description: "The comparison." })
}).annotate({ identifier: "AcceptedComparison", description: "A comparison that was started." })

export const EndedComparison = Schema.Struct({
  comparison: Comparison.annotateKey({ description: "The comparison." })
}).annotate({
  identifier: "EndedComparison",
  description: "A comparison that was cancelled, or that had ended before."
})

export const ComparisonDetail = Schema.Struct({
  comparison: Comparison.annotateKey({ description: "The comparison." }),
  ...page("results", ComparisonResult, ExampleId).fields
}).annotate({
  identifier: "ComparisonDetail",
  description: "A comparison with one page of its results, newest example first."
})
export type ComparisonDetail = typeof ComparisonDetail.Type

export const ReleaseCandidate = Schema.Struct({
  comparison_id: ComparisonId.annotateKey({
    description: "A completed comparison of the task, whose candidate becomes live."
  }),
  force: Schema.optionalKey(Schema.Boolean).annotateKey({
    description:
      "Release the candidate although it lost, or was compared with a release that is no longer live. Needs a `reason`. Default false."
  }),
  reason: Schema.optionalKey(Comment.check(Schema.isMinLength(1))).annotateKey({
    description: "Why the candidate is released by force, for the audit log. 1 to 4,000 characters."
  })
})
  .annotate({ description: "Release a comparison's candidate." })
  .check(
    Schema.makeFilter(({ force, reason }) =>
      force === true && reason === undefined
        ? { path: ["reason"], issue: "Expected a reason, because `force` is true" }
        : undefined
    )
  )
  .annotate({ identifier: "ReleaseCandidate" })

export const ReleaseRollback = Schema.Struct({
  release_id: ReleaseId.annotateKey({
    description: "An earlier release of the task, which becomes live again, or its canary."
  })
}).annotate({ identifier: "ReleaseRollback", description: "Roll back to an earlier release." })

export const NewRelease = Schema.Union([ReleaseCandidate, ReleaseRollback], { mode: "oneOf" }).annotate({
  identifier: "NewRelease",
  description: "What to make live: a comparison's candidate or an earlier release."
})
export type NewRelease = typeof NewRelease.Type

/** A page of comparisons. */
export const ComparisonPage = page("comparisons", Comparison, ComparisonId)

/** A page of releases. */
export const ReleasePage = page("releases", Release, ReleaseId)

export class ComparisonsApi extends HttpApiGroup.make("comparisons")
  .add(
    HttpApiEndpoint.get("list", "/tasks/:id/comparisons", {
      params: { id: TaskId.annotateKey({ description: "The task's ID." }) },
      query: pageQuery(ComparisonId),
      success: ComparisonPage,
      error: NotFound
    })
      .middleware(requires("tasks.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "listComparisons",
          summary: "List comparisons",
          description:
            "Lists a task's comparisons, newest first. A page of comparisons with long instructions can hold fewer than `limit`; continue until `next_cursor` is null."
        })
      ),
    HttpApiEndpoint.post("create", "/tasks/:id/comparisons", {
      headers: idempotencyHeaders,
      params: { id: TaskId.annotateKey({ description: "The task's ID." }) },
      payload: NewComparison,
      success: AcceptedComparison.pipe(HttpApiSchema.status(202)),
      error: [
        NotFound,
        InvalidInstructions,
        InvalidUrl,
        InvalidHeaders,
        LimitReached,
        ProviderKeyExists,
        InsufficientScope,
        InvalidComparison
      ]
    })
      .middleware(Idempotent)
      .middleware(requires("tasks.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "createComparison",
          summary: "Start a comparison",
          description: [
            "Runs the candidate and the live release on the examples of the task's newest dataset version, in the background; it continues after a restart. `compared` of `example_count` shows the progress.",
            "Neither side sees the example that it answers, unless `hold_out` says so. Answers are compared as JSON, in any order of keys: integers exactly, other numbers within a relative difference of 1e-6; `evaluators` and `judge` change that.",
            "A comparison that would spend more than its `budget` ends as `failed`, with `failure` and what it `spent`.",
            "The `api_key` of the candidate's or the judge's provider is stored if the task has none for that base URL. If it has a different one, the request fails with `PROVIDER_KEY_EXISTS`, because the live release may use that: leave it out, or replace it by updating the task. Credentials for a reviewer model's task also need `rules.write`.",
            "At most 20 comparisons of an organization can run concurrently; another fails with `LIMIT_REACHED`."
          ].join(" ")
        })
      ),
    HttpApiEndpoint.get("get", "/comparisons/:id", {
      params: { id: ComparisonId.annotateKey({ description: "The comparison's ID." }) },
      query: {
        ...pageQuery(ExampleId),
        verdict: Schema.optionalKey(ComparisonVerdict).annotateKey({
          description: "Only results with this verdict, such as the wins or the regressions."
        })
      },
      success: ComparisonDetail,
      error: NotFound
    })
      .middleware(requires("tasks.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "getComparison",
          summary: "Get a comparison",
          description:
            "Returns one comparison: its progress, its summary, and one page of examples with both answers, all or those with one `verdict`. A key without `datasets.read` gets no contents: `input`, `expected` and both answers are null, and the reasons of the judge are empty."
        })
      ),
    HttpApiEndpoint.post("cancel", "/comparisons/:id/cancel", {
      params: { id: ComparisonId.annotateKey({ description: "The comparison's ID." }) },
      success: EndedComparison,
      error: NotFound
    })
      .middleware(requires("tasks.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "cancelComparison",
          summary: "Cancel a comparison",
          description:
            "Ends a running comparison. Calls to a model that are in progress, for at most four examples, are aborted within a second or two, and count as `spent`; results of earlier examples are kept. Idempotent: a comparison that has ended is returned unchanged."
        })
      )
  )
  .prefix("/v1")
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "Comparisons",
      description:
        "A comparison runs a candidate and the live release on every example of the newest dataset version and reports where they agree with the right answers."
    })
  ) {}

export class ReleasesApi extends HttpApiGroup.make("releases")
  .add(
    HttpApiEndpoint.get("list", "/tasks/:id/releases", {
      params: { id: TaskId.annotateKey({ description: "The task's ID." }) },
      query: pageQuery(ReleaseId),
      success: ReleasePage,
      error: NotFound
    })
      .middleware(requires("tasks.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "listReleases",
          summary: "List releases",
          description:
            "Lists a task's releases, newest first. The first is live, unless a canary was started after it."
        })
      ),
    HttpApiEndpoint.get("getChanges", "/releases/:id/changes", {
      params: { id: ReleaseId.annotateKey({ description: "The release's ID." }) },
      query: {
        since: Schema.optionalKey(ReleaseId).annotateKey({
          description: "Another release of the task. Default: the one that was live before."
        })
      },
      success: ReleaseChanges,
      error: NotFound
    })
      .middleware(requires("tasks.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "listReleaseChanges",
          summary: "Compare two releases",
          description:
            "Returns what a release changed: the instructions line by line, the settings of the provider, and the dataset version."
        })
      ),
    HttpApiEndpoint.post("create", "/tasks/:id/releases", {
      headers: idempotencyHeaders,
      params: { id: TaskId.annotateKey({ description: "The task's ID." }) },
      payload: NewRelease,
      success: Release.pipe(HttpApiSchema.status(201)),
      error: [NotFound, ComparisonUnfinished, LiveReleaseChanged, CandidateLost]
    })
      .middleware(Idempotent)
      .middleware(CredentialFree)
      .middleware(requires("tasks.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "createRelease",
          summary: "Release a candidate or roll back",
          description:
            "Makes a completed comparison's candidate the live release, or rolls back to an earlier release by `release_id`. A canary becomes live by its `release_id`; any other release ends it. A candidate that lost, or that was compared with a release that is no longer live, is refused unless `force` is true. Idempotent: a release that is already live is returned unchanged."
        })
      )
  )
  .prefix("/v1")
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "Releases",
      description:
        "A release is the configuration that answers a task's runs: instructions, provider and dataset version. Creating a release is the only way to change the live configuration."
    })
  ) {}
