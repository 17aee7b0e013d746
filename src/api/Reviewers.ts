import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Deletion } from "../domain/deletion/Deletion.ts"
import {
  DailyCalls,
  DailyTokens,
  DEFAULT_DAILY_CALLS,
  DEFAULT_DAILY_TOKENS,
  DEFAULT_TERMS,
  MAX_REVIEWERS,
  Reviewer,
  ReviewerAmount,
  ReviewerAnswer,
  ReviewerFigures,
  ReviewerTools
} from "../domain/approvals/Reviewer.ts"
import { ApprovalId, ReviewerAnswerId, TaskId } from "../domain/Ids.ts"
import { CreatedDataset } from "../domain/tasks/Dataset.ts"
import { NewProvider } from "../domain/tasks/Provider.ts"
import { Instructions } from "../domain/tasks/Task.ts"
import { timestamp, Timestamp } from "../domain/Time.ts"
import { Authentication, requires } from "./Authorization.ts"
import { CredentialFree, Idempotent, idempotencyHeaders, RequestBody } from "./Middleware.ts"
import { page, pageQuery } from "./Pagination.ts"
import {
  DatasetBaseChanged,
  DatasetBusy,
  InvalidHeaders,
  InvalidInput,
  InvalidInstructions,
  InvalidUrl,
  LimitReached,
  NotFound
} from "./Problems.ts"
import { Name } from "./Text.ts"

const Share = Schema.Finite.check(
  Schema.isBetween({ minimum: 0, maximum: 1 }, { expected: "a number from 0 to 1" })
)

/** The limits of the least agreement. */
export const MIN_LOWER_BOUND_LIMITS = { minimum: 0.5, maximum: 1 }

const MinLowerBound = Schema.Finite.check(
  Schema.isBetween(MIN_LOWER_BOUND_LIMITS, { expected: "a number from 0.5 to 1" })
)

export const NewReviewer = Schema.Struct({
  name: Name.annotateKey({ description: "A name that people recognize: 1 to 200 visible characters." }),
  provider: NewProvider.annotateKey({ description: "The model that answers, with its API key." }),
  instructions: Schema.optionalKey(Instructions).annotateKey({
    description:
      "The organization's own instructions, such as its policy on refunds, after the fixed ones. Without variables: arguments reach the model as data only. Default empty."
  }),
  tools: ReviewerTools,
  amount: Schema.optionalKey(Schema.NullOr(ReviewerAmount)).annotateKey({
    description:
      "A number in the arguments by whose bands figures and bounds are told apart. It cannot be changed later. Default null: there are no bands."
  }),
  daily_calls: Schema.optionalKey(DailyCalls).annotateKey({
    description: `Calls to the model per day (UTC) at most, 0 to 1,000,000. Default ${DEFAULT_DAILY_CALLS}.`
  }),
  daily_tokens: Schema.optionalKey(DailyTokens).annotateKey({
    description: `Tokens per day (UTC) after which the model is not called, 0 to 1,000,000,000,000. Default ${DEFAULT_DAILY_TOKENS}.`
  })
}).annotate({ identifier: "NewReviewer", description: "A reviewer model to create." })
export type NewReviewer = typeof NewReviewer.Type

export const ReviewerChange = Schema.Struct({
  tools: Schema.optionalKey(ReviewerTools),
  daily_calls: Schema.optionalKey(DailyCalls).annotateKey({
    description: "Calls to the model per day at most. Absent: unchanged."
  }),
  daily_tokens: Schema.optionalKey(DailyTokens).annotateKey({
    description: "Tokens per day after which the model is not called. Absent: unchanged."
  })
}).annotate({
  identifier: "ReviewerChange",
  description: "Changes to a reviewer model. Absent members stay as they are."
})
export type ReviewerChange = typeof ReviewerChange.Type

/** The bounds for which figures are computed. */
export const termsQuery = {
  min_lower_bound: Schema.optionalKey(MinLowerBound).annotateKey({
    description: `The least agreement with people to compute \`approve\`, \`reject\` and \`missing\` for, 0.5 to 1. Default ${DEFAULT_TERMS.min_lower_bound}.`
  }),
  max_false_approvals: Schema.optionalKey(Share).annotateKey({
    description: `The greatest share of its approvals that people reject, 0 to 1. Default ${DEFAULT_TERMS.max_false_approvals}.`
  })
}
export type TermsQuery = Schema.Struct.Type<typeof termsQuery>

export const ReviewerDetail = Schema.Struct({
  reviewer: Reviewer.annotateKey({ description: "The reviewer model." }),
  figures: Schema.Array(ReviewerFigures).annotateKey({
    description: "Its figures per tool and band of amounts, most compared answers first: at most 200 of them."
  })
}).annotate({ identifier: "ReviewerDetail", description: "A reviewer model with its figures." })
export type ReviewerDetail = typeof ReviewerDetail.Type

/** The filters of answers. */
export const reviewerAnswerFilter = {
  disagreed: Schema.optionalKey(Schema.Literal("true")).annotateKey({
    description: "`true`: only answers that people decided against."
  }),
  to_review: Schema.optionalKey(Schema.Literal("true")).annotateKey({
    description:
      "`true`: only the decisions of a stopped reviewer model that a person should look at: those since people last agreed with it, which nobody has marked as wrong."
  }),
  approval_id: Schema.optionalKey(ApprovalId).annotateKey({
    description: "Only the answer about this approval."
  })
}
export type ReviewerAnswerFilter = Schema.Struct.Type<typeof reviewerAnswerFilter>

/** A page of answers. */
export const ReviewerAnswerPage = page("answers", ReviewerAnswer, ReviewerAnswerId)

/** Longest window of a backtest, in days. */
export const MAX_BACKTEST_DAYS = 90
export const DEFAULT_BACKTEST_DAYS = 30

/** Most decisions that become examples at once. */
export const MAX_PROMOTED = 1_000

export const BacktestReviewer = Schema.Struct({
  min_lower_bound: MinLowerBound.annotateKey({
    description: "The least agreement with people that lets it decide, 0.5 to 1."
  }),
  max_false_approvals: Share.annotateKey({
    description: "The greatest share of its approvals that people reject, 0 to 1."
  }),
  sample: Schema.optionalKey(
    Schema.Finite.check(
      Schema.isBetween({ minimum: 0.05, maximum: 1 }, { expected: "a number from 0.05 to 1" })
    )
  ).annotateKey({
    description: "Share of the steps it could decide that go to people nevertheless, 0.05 to 1. Default 0.1."
  }),
  days: Schema.optionalKey(
    Schema.Int.check(
      Schema.isBetween(
        { minimum: 1, maximum: MAX_BACKTEST_DAYS },
        { expected: `a whole number from 1 to ${MAX_BACKTEST_DAYS}` }
      )
    )
  ).annotateKey({
    description: `How many days back, 1 to ${MAX_BACKTEST_DAYS}. Default ${DEFAULT_BACKTEST_DAYS}.`
  })
}).annotate({
  identifier: "BacktestReviewer",
  description: "Bounds to try on the answers that were compared with people."
})
export type BacktestReviewer = typeof BacktestReviewer.Type

export const ReviewerBacktest = Schema.Struct({
  since: timestamp("The start of the window."),
  compared: Schema.Int.annotateKey({
    description: "Answers of the live release in the window that were compared with people, unsure ones too."
  }),
  decided: Schema.Int.annotateKey({ description: "Of these, how many it would have decided." }),
  agreed: Schema.Int.annotateKey({ description: "Of those, how many as people did." }),
  false_approvals: Schema.Int.annotateKey({ description: "Of those, approvals that people rejected." }),
  false_rejections: Schema.Int.annotateKey({ description: "Of those, rejections that people approved." }),
  sampled: Schema.Int.annotateKey({
    description: "Steps that it could have decided, and that would have gone to people as the sample."
  }),
  unsure: Schema.Int.annotateKey({ description: "Steps about which it was unsure." }),
  not_earned: Schema.Int.annotateKey({ description: "Steps at whose time the bounds did not hold." }),
  first_decided_at: Schema.NullOr(Timestamp).annotateKey({
    description: "When it would have decided for the first time. Null: never."
  }),
  truncated: Schema.Boolean.annotateKey({
    description: "Whether the window has more than 50,000 such answers; the newest are left out."
  })
}).annotate({
  identifier: "ReviewerBacktest",
  description: "What a reviewer model would have decided, answer by answer, in the order of the decisions."
})
export type ReviewerBacktest = typeof ReviewerBacktest.Type

export const PromoteReviewerExamples = Schema.Struct({
  limit: Schema.optionalKey(
    Schema.Int.check(
      Schema.isBetween(
        { minimum: 1, maximum: MAX_PROMOTED },
        { expected: `a whole number from 1 to ${MAX_PROMOTED}` }
      )
    )
  ).annotateKey({
    description: "The newest decisions to take, 1 to 1,000. Default 1,000."
  })
}).annotate({
  identifier: "PromoteReviewerExamples",
  description: "Which decisions of people become examples."
})
export type PromoteReviewerExamples = typeof PromoteReviewerExamples.Type

export const ReviewerList = Schema.Struct({
  reviewers: Schema.Array(Reviewer).annotateKey({
    description: `The organization's reviewer models, oldest first: at most ${MAX_REVIEWERS}.`
  })
}).annotate({ identifier: "ReviewerList", description: "The reviewer models of an organization." })

const params = { task_id: TaskId.annotateKey({ description: "The reviewer's task." }) }

export class ReviewersApi extends HttpApiGroup.make("reviewers")
  .add(
    HttpApiEndpoint.get("list", "/", {
      success: ReviewerList
    })
      .middleware(requires("approvals.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "listReviewers",
          summary: "List reviewer models",
          description: "Lists the organization's reviewer models, oldest first."
        })
      ),
    HttpApiEndpoint.post("create", "/", {
      headers: idempotencyHeaders,
      payload: NewReviewer,
      success: Reviewer.pipe(HttpApiSchema.status(201)),
      error: [InvalidInstructions, InvalidUrl, InvalidHeaders, LimitReached]
    })
      .middleware(Idempotent)
      .middleware(CredentialFree)
      .middleware(requires("rules.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "createReviewer",
          summary: "Create a reviewer model",
          description: [
            "Creates a task of a fixed kind: its input is what a person sees of a step that waits, its answer is `approve`, `reject` or `unsure` with a reason.",
            "From then on the model is also asked about each step of these tools that waits for a person, beside people and without delaying them. Its answers are compared with their decisions, and shown only after them. It decides nothing before a rule lets it.",
            `An organization can have ${MAX_REVIEWERS}.`
          ].join(" ")
        })
      ),
    HttpApiEndpoint.get("get", "/:task_id", {
      params,
      query: termsQuery,
      success: ReviewerDetail,
      error: NotFound
    })
      .middleware(requires("approvals.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "getReviewer",
          summary: "Get a reviewer model",
          description:
            "Returns one reviewer model with its figures per tool and band of amounts. `missing` says how many decisions the bounds of the query need at least."
        })
      ),
    HttpApiEndpoint.patch("update", "/:task_id", {
      params,
      payload: ReviewerChange,
      success: Reviewer,
      error: NotFound
    })
      .middleware(requires("rules.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "updateReviewer",
          summary: "Update a reviewer model",
          description:
            "Changes the tools or the daily limits. Instructions and provider belong to the task: change its working copy, compare and release it."
        })
      ),
    HttpApiEndpoint.delete("remove", "/:task_id", {
      params,
      success: Deletion.pipe(HttpApiSchema.status(202)),
      error: [NotFound, DatasetBusy]
    })
      .middleware(requires("data.delete"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "deleteReviewer",
          summary: "Delete a reviewer model",
          description:
            "Deletes a reviewer model with its task, its answers and its examples. Rules that name it ask people from this response on. It cannot be undone."
        })
      ),
    HttpApiEndpoint.post("stop", "/:task_id/stop", { params, success: Reviewer, error: NotFound })
      .middleware(requires("rules.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "stopReviewer",
          summary: "Stop a reviewer model",
          description:
            "Sends every step back to people at once. The model is still asked beside them. Idempotent."
        })
      ),
    HttpApiEndpoint.post("restore", "/:task_id/restore", { params, success: Reviewer, error: NotFound })
      .middleware(requires("rules.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "restoreReviewer",
          summary: "Restore a reviewer model",
          description:
            "Lets a stopped reviewer model decide again, where a rule lets it and its bounds hold. Idempotent."
        })
      ),
    HttpApiEndpoint.get("answers", "/:task_id/answers", {
      params,
      query: { ...pageQuery(ReviewerAnswerId), ...reviewerAnswerFilter },
      success: ReviewerAnswerPage,
      error: NotFound
    })
      .middleware(requires("approvals.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "listReviewerAnswers",
          summary: "List the answers of a reviewer model",
          description:
            "Lists answers beside the decisions of people, newest first. An answer about a pending approval is not listed, so that it does not influence people."
        })
      ),
    HttpApiEndpoint.post("markWrong", "/:task_id/answers/:answer_id/wrong", {
      params: {
        ...params,
        answer_id: ReviewerAnswerId.annotateKey({ description: "The answer that decided the step." })
      },
      success: ReviewerAnswer,
      error: NotFound
    })
      .middleware(requires("approvals.decide"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "markReviewerAnswerWrong",
          summary: "Mark a decision of a reviewer model as wrong",
          description:
            "Says that a person would have decided otherwise. It counts as a disagreement, and stops the reviewer model: every step goes to people again. The step keeps its decision. Idempotent."
        })
      ),
    HttpApiEndpoint.post("backtest", "/:task_id/backtest", {
      params,
      payload: BacktestReviewer,
      success: ReviewerBacktest,
      error: NotFound
    })
      .middleware(requires("approvals.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "backtestReviewer",
          summary: "Backtest a reviewer model",
          description:
            "Computes what the live release would have decided within bounds, from its recorded answers: at each decision only what was known before it counts. The model is not called."
        })
      ),
    HttpApiEndpoint.post("promote", "/:task_id/examples", {
      headers: idempotencyHeaders,
      params,
      payload: PromoteReviewerExamples,
      success: CreatedDataset.pipe(HttpApiSchema.status(201)),
      error: [NotFound, InvalidInput, DatasetBaseChanged, DatasetBusy, LimitReached]
    })
      .middleware(Idempotent)
      .middleware(requires("datasets.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "promoteReviewerExamples",
          summary: "Make examples of people's decisions",
          description: [
            "Creates the next version of the task's dataset from the newest decisions of people on the reviewer's tools, with their comments as reasons: one example per input.",
            "Decisions of models, of keys about their own steps, and those that nobody can have read in their time are left out. The live release uses a first version at once, and a later one after a comparison and a release."
          ].join(" ")
        })
      )
  )
  .prefix("/v1/reviewers")
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "Reviewers",
      description:
        "A reviewer model answers like a reviewer about steps that wait for people. Its answers are compared with their decisions before a rule can let it decide."
    })
  ) {}
