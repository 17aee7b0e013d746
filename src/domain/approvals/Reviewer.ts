import { Schema } from "effect"
import { documentedEnum } from "../documentedEnum.ts"
import { ApprovalId, ReleaseId, ReviewerAnswerId, SessionId, StepId, TaskId } from "../Ids.ts"
import { Actor } from "../identity/Principal.ts"
import { timestamp, Timestamp } from "../Time.ts"
import { isVisibleLine } from "../VisibleText.ts"
import { ArgumentPointer } from "./RuleCondition.ts"

/** Most reviewer models of an organization. */
export const MAX_REVIEWERS = 20

/** Most patterns of tools of one, and bounds between its bands of amounts. */
const MAX_TOOL_PATTERNS = 50
const MAX_BAND_BOUNDS = 5

/** Characters of a reason. */
export const MAX_REASON = 1_000

/** The limits of one day, unless the reviewer has its own. */
export const DEFAULT_DAILY_CALLS = 1_000
export const DEFAULT_DAILY_TOKENS = 2_000_000
const MAX_DAILY_CALLS = 1_000_000
const MAX_DAILY_TOKENS = 1_000_000_000_000

export const ReviewerDecision = documentedEnum({
  approve: "It would let the agent execute the step.",
  reject: "It would not let the agent execute the step.",
  unsure: "It leaves the decision to a person."
})
export type ReviewerDecision = typeof ReviewerDecision.Type

export const ReviewerAnswerMode = documentedEnum({
  shadow: "It answered beside people, or left the step to them, and had no part in the decision.",
  decided: "Its answer was the decision."
})
export type ReviewerAnswerMode = typeof ReviewerAnswerMode.Type

export const ReviewerState = documentedEnum({
  watching: "It answers, and decides where a rule lets it and its bounds hold.",
  stopped: "It answers, and decides nothing until a person restores it."
})
export type ReviewerState = typeof ReviewerState.Type

export const ReviewerStopReason = documentedEnum({
  by_person: "A person stopped it.",
  bound_lost: "A bound of a rule no longer held.",
  fallen: "Its newest approvals were rejected more often than the rule's bound explains.",
  reversed: "A person marked one of its decisions as wrong.",
  provider_failed: "Its provider failed several times in a row.",
  release_changed: "Its task got another release, which has to be measured first."
})
export type ReviewerStopReason = typeof ReviewerStopReason.Type

/** People's decision about a step, if it is compared with an answer. */
export const ReviewerVerdict = documentedEnum({
  approve: "A person approved the step.",
  reject: "A person rejected the step.",
  none: "No person decided, or the decision is not compared: nobody can have read the request in that time, the key decided about its own step, or the request is older than the release."
})
export type ReviewerVerdict = typeof ReviewerVerdict.Type

const Bound = Schema.Finite.check(
  Schema.isBetween({ minimum: 0, maximum: Number.MAX_VALUE }, { expected: "a number of 0 or more" })
)

/** Whether each bound is greater than the one before. */
const isAscending = (bounds: ReadonlyArray<number>): boolean =>
  bounds.every((bound, index) => index === 0 || bound > (bounds[index - 1] ?? bound))

export const ReviewerAmount = Schema.Struct({
  pointer: ArgumentPointer.annotateKey({
    description:
      "JSON Pointer to a number in the arguments. A step whose value is missing, negative or not a number has figures of its own, and is never decided by the model."
  }),
  bounds: Schema.Array(Bound)
    .check(
      Schema.isMinLength(1),
      Schema.isMaxLength(MAX_BAND_BOUNDS),
      Schema.makeFilter(isAscending, { expected: "bounds in ascending order" })
    )
    .annotateKey({
      description: `1 to ${MAX_BAND_BOUNDS} bounds between bands, ascending. \`[100, 1000]\` makes three bands: up to 100, above 100 up to 1,000, and above 1,000.`
    })
}).annotate({
  identifier: "ReviewerAmount",
  description: "A number in the arguments by whose bands figures and bounds are told apart."
})
export type ReviewerAmount = typeof ReviewerAmount.Type

export const ReviewerTools = Schema.Array(
  Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(200), isVisibleLine)
)
  .check(Schema.isMinLength(1), Schema.isMaxLength(MAX_TOOL_PATTERNS))
  .annotate({
    description: `Patterns of the tools about whose waiting steps the model is asked, 1 to ${MAX_TOOL_PATTERNS}, in which each \`*\` matches any number of characters.`
  })

export const DailyCalls = Schema.Int.check(
  Schema.isBetween(
    { minimum: 0, maximum: MAX_DAILY_CALLS },
    { expected: `a whole number from 0 to ${MAX_DAILY_CALLS}` }
  )
)

export const DailyTokens = Schema.Int.check(
  Schema.isBetween(
    { minimum: 0, maximum: MAX_DAILY_TOKENS },
    { expected: `a whole number from 0 to ${MAX_DAILY_TOKENS}` }
  )
)

export const BoundedShare = Schema.Struct({
  count: Schema.Int.annotateKey({ description: "Answers that it counts." }),
  of: Schema.Int.annotateKey({ description: "Answers that were compared." }),
  bound: Schema.Finite.annotateKey({
    description:
      "The least share that is likely for agreement, the greatest for false answers. It holds with a chance of 95 % at all times together, however often it is looked at."
  })
}).annotate({ identifier: "BoundedShare", description: "A share of compared answers with its bound." })

export const ReviewerBand = Schema.Struct({
  above: Schema.NullOr(Schema.Finite).annotateKey({
    description: "Amounts above this. Null: the lowest band."
  }),
  up_to: Schema.NullOr(Schema.Finite).annotateKey({
    description: "Amounts up to this. Null: the highest band."
  })
}).annotate({ identifier: "ReviewerBand", description: "A band of amounts." })
export type ReviewerBand = typeof ReviewerBand.Type

export const StandingFault = documentedEnum({
  agreement: "The bound of the agreement with people is too low.",
  false_approvals: "The bound of its approvals that people rejected is too high.",
  fallen: "Its newest approvals were rejected more often than the bound explains."
})
export type StandingFault = typeof StandingFault.Type

export const ReviewerWeek = Schema.Struct({
  week: Schema.String.annotate({ format: "date" }).annotateKey({
    description: "The Monday with which the week begins, in UTC."
  }),
  agreed: Schema.Int.annotateKey({ description: "Answers with which people agreed." }),
  false_approvals: Schema.Int.annotateKey({ description: "Its approvals that people rejected." }),
  false_rejections: Schema.Int.annotateKey({ description: "Its rejections that people approved." }),
  unsure: Schema.Int.annotateKey({ description: "Answers that left the decision to people." })
}).annotate({
  identifier: "ReviewerWeek",
  description: "The compared answers of one week, by the time of the decision."
})
export type ReviewerWeek = typeof ReviewerWeek.Type

export const ReviewerFigures = Schema.Struct({
  tool: Schema.String.annotateKey({ description: "The tool." }),
  band: Schema.NullOr(ReviewerBand).annotateKey({
    description:
      "The band of amounts. Null: the reviewer has none, or the steps have no number where it looks for one (`has_amount`)."
  }),
  has_amount: Schema.Boolean.annotateKey({
    description: "False for steps without the number that the reviewer looks for: it decides none of them."
  }),
  agreement: BoundedShare.annotateKey({
    description: "Answers with which people agreed, without those that were unsure."
  }),
  false_approvals: BoundedShare.annotateKey({
    description: "Its approvals that people rejected, of all its approvals."
  }),
  false_rejections: BoundedShare.annotateKey({
    description: "Its rejections that people approved, of all its rejections."
  }),
  unsure: Schema.Int.annotateKey({ description: "Answers that left the decision to people." }),
  approve: Schema.NullOr(StandingFault).annotateKey({
    description: "Why it may not approve within the bounds of the query. Null: it may."
  }),
  reject: Schema.NullOr(StandingFault).annotateKey({
    description: "Why it may not reject within the bounds of the query. Null: it may."
  }),
  missing: Schema.NullOr(Schema.Int).annotateKey({
    description:
      "How many further approvals, each with people's agreement, the bounds of the query need at least before it may approve. 0: they hold. Null: more than 100,000."
  }),
  weeks: Schema.Array(ReviewerWeek).annotateKey({
    description: "The same answers by week, newest first: at most the newest 26 weeks with decisions."
  })
}).annotate({
  identifier: "ReviewerFigures",
  description:
    "The answers of the live release about one tool and one band of amounts, beside the decisions of people."
})
export type ReviewerFigures = typeof ReviewerFigures.Type

export const ReviewerUse = Schema.Struct({
  calls: Schema.Int.annotateKey({ description: "Calls to the model today, in UTC." }),
  tokens: Schema.Int.annotateKey({
    description: "Tokens of these calls, as far as the model server reports them."
  }),
  used_up: Schema.Boolean.annotateKey({
    description:
      "Whether a limit of the day is reached: the model is not called before midnight, and is not asked about the requests of that time later."
  })
}).annotate({ identifier: "ReviewerUse", description: "What a reviewer model has used of its daily limits." })

export const Reviewer = Schema.Struct({
  task_id: TaskId.annotateKey({ description: "The task that answers: the reviewer's ID." }),
  name: Schema.String.annotateKey({ description: "The task's name." }),
  release_id: ReleaseId.annotateKey({
    description: "The task's live release, which answers. Figures count its answers alone."
  }),
  state: ReviewerState.annotateKey({ description: "Whether it can decide anything." }),
  stopped_at: Schema.NullOr(Timestamp).annotateKey({
    description: "When it was stopped. Null if it is not."
  }),
  stopped_reason: Schema.NullOr(ReviewerStopReason).annotateKey({
    description: "Why it was stopped. Null if it is not."
  }),
  stopped_by: Schema.NullOr(Actor).annotateKey({
    description: "The API key that stopped it. Null if it is not stopped, or the service stopped it."
  }),
  tools: ReviewerTools,
  amount: Schema.NullOr(ReviewerAmount).annotateKey({
    description: "The number by whose bands its figures are told apart. Null: there are no bands."
  }),
  daily_calls: DailyCalls.annotateKey({ description: "Calls to the model per day (UTC) at most." }),
  daily_tokens: DailyTokens.annotateKey({
    description: "Tokens per day (UTC) after which the model is not called."
  }),
  used: ReviewerUse.annotateKey({ description: "What it has used of these limits." }),
  failures: Schema.Int.annotateKey({
    description: "Requests in a row that the model left without an answer."
  }),
  created_at: timestamp("When it was created."),
  created_by: Actor.annotateKey({ description: "The API key that created it." })
}).annotate({
  identifier: "Reviewer",
  description:
    "A model that answers like a reviewer about steps that wait for people, and is measured against them."
})
export type Reviewer = typeof Reviewer.Type

export const ReviewerAnswer = Schema.Struct({
  id: ReviewerAnswerId.annotateKey({ description: "The answer's ID." }),
  task_id: TaskId.annotateKey({ description: "The reviewer model." }),
  release_id: ReleaseId.annotateKey({ description: "The release that answered." }),
  session_id: SessionId.annotateKey({ description: "The agent session of the step." }),
  step_id: StepId.annotateKey({ description: "The step." }),
  approval_id: Schema.NullOr(ApprovalId).annotateKey({
    description: "The approval that people decided. Null if the model decided."
  }),
  tool: Schema.String.annotateKey({ description: "The tool of the step." }),
  band: Schema.NullOr(ReviewerBand).annotateKey({
    description: "The band of its amount. Null without bands, or without a number."
  }),
  mode: ReviewerAnswerMode.annotateKey({ description: "What part the answer had in the decision." }),
  decision: Schema.NullOr(ReviewerDecision).annotateKey({
    description: "The answer. Null if the model gave none."
  }),
  reason: Schema.String.annotateKey({
    description:
      "The model's reason, redacted, at most 1,000 characters. Without an answer: why there is none, in words of the service."
  }),
  verdict: Schema.NullOr(ReviewerVerdict).annotateKey({
    description: "What people decided. Null if the model decided, or the answers are about to be compared."
  }),
  tokens: Schema.Int.annotateKey({ description: "Tokens that the answer took." }),
  created_at: timestamp("When it was given."),
  decided_at: Schema.NullOr(Timestamp).annotateKey({
    description: "When the approval was closed. Null if the model decided."
  }),
  wrong_at: Schema.NullOr(Timestamp).annotateKey({
    description: "When a person marked the model's decision as wrong. Null if nobody did."
  }),
  wrong_by: Schema.NullOr(Actor).annotateKey({
    description: "The API key that marked it. Null if nobody did."
  })
}).annotate({
  identifier: "ReviewerAnswer",
  description:
    "The answer of a reviewer model about one step, beside the decision of people. It is shown once people have decided, so that it does not influence them."
})
export type ReviewerAnswer = typeof ReviewerAnswer.Type

/** Bounds for which figures are computed if a request names none. */
export const DEFAULT_TERMS = { min_lower_bound: 0.95, max_false_approvals: 0.02 }
