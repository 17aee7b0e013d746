import { Schema } from "effect"
import { documentedEnum } from "../documentedEnum.ts"
import { MAX_BUDGETS, RuleBudget } from "./RuleBudget.ts"
import type { BudgetSpend } from "./BudgetMeter.ts"
import type { ApprovalTerms } from "./ApprovalState.ts"
import { ApprovalOutcome, CommentRequirement } from "./Approval.ts"
import { RuleId, TaskId } from "../Ids.ts"
import { MAX_QUORUM_PARTS, QuorumPart } from "./Quorum.ts"
import { isVisibleLine } from "../VisibleText.ts"
import { RuleConditions } from "./RuleCondition.ts"
import { RuleReviewer } from "./RuleReviewer.ts"
import { MAX_TEMPLATE, type SummaryTemplate } from "./SummaryTemplate.ts"

export const RuleEffect = documentedEnum({
  allow: "The agent may execute the step.",
  reject:
    "The agent must not execute the step. A rule that rejects also overrides earlier approvals of the step.",
  require_approval: "The step waits for a person."
})
export type RuleEffect = typeof RuleEffect.Type

/** Shortest and longest window, in seconds. */
const WINDOW = { minimum: 1, maximum: 30 * 24 * 3600 }

const Window = Schema.Int.check(
  Schema.isBetween(WINDOW, { expected: `a whole number of seconds from 1 to ${WINDOW.maximum} (30 days)` })
)

/** Matched exactly, except that each `*` matches any number of characters. */
const Pattern = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(200), isVisibleLine)

export const ApprovalRule = Schema.Struct({
  id: RuleId.annotateKey({
    description: "The rule's ID. It stays the same when the list is replaced with it."
  }),
  tool: Pattern.annotateKey({
    description:
      "Pattern for the step's tool: 1 to 200 characters, in which each `*` matches any number of characters. Default `*`, any tool."
  }),
  action_class: Pattern.annotateKey({
    description:
      "Pattern for the step's action class: 1 to 200 characters, in which each `*` matches any number of characters. Default `*`, any class."
  }),
  task_id: Schema.NullOr(TaskId).annotateKey({
    description:
      "Matches only steps of this task. Null, the default, matches every step, also without a task."
  }),
  when: RuleConditions,
  budgets: Schema.Array(RuleBudget)
    .check(Schema.isMaxLength(MAX_BUDGETS))
    .annotateKey({
      description: `Budgets of a rule that allows, at most ${MAX_BUDGETS}: it matches only while a step still fits all of them. A step that does not fit goes on to the next rule. Default: none.`
    }),
  effect: RuleEffect.annotateKey({ description: "The rule's effect on a step that it matches." }),
  review_seconds: Window.annotateKey({
    description: "Length of the reviewers' window in seconds, 1 to 2,592,000 (30 days). Default 3,600."
  }),
  expiring_seconds: Schema.NullOr(
    Schema.Int.check(
      Schema.isBetween(
        { minimum: 0, maximum: WINDOW.maximum },
        { expected: `a whole number of seconds from 0 to ${WINDOW.maximum} (30 days)` }
      )
    )
  ).annotateKey({
    description:
      "How many seconds before the end of a window `approval.expiring` is sent; less than `review_seconds`. Null, the default, means a quarter of the window; 0 means never."
  }),
  escalation_seconds: Schema.NullOr(Window).annotateKey({
    description:
      "Length of the admins' escalation window after the reviewers' window, in seconds, 1 to 2,592,000. Null, the default, means no escalation."
  }),
  timeout_action: ApprovalOutcome.annotateKey({
    description: "The outcome if the last window ends without a decision. Default `reject`."
  }),
  self_approval: Schema.Boolean.annotateKey({
    description: "Whether the key that submitted the step may decide it. Default false."
  }),
  quorum: Schema.Array(QuorumPart)
    .check(Schema.isMinLength(1), Schema.isMaxLength(MAX_QUORUM_PARTS))
    .annotateKey({
      description:
        "The approvals that a step needs: those of every part. A person counts once, and for one part. One rejection is enough to reject the step."
    }),
  require_comment: CommentRequirement.annotateKey({
    description:
      "Which decisions of people need a comment: `never`, the default, `reject` or `always`. It stays with an approval when the rules change."
  }),
  retry_unknown: Schema.Boolean.annotateKey({
    description:
      "Whether an agent may claim a step once more after an attempt whose outcome is unknown, because executing it twice does no harm: a step that this rule decided, and still matches. Default false: a person decides."
  }),
  reviewer: Schema.NullOr(RuleReviewer).annotateKey({
    description:
      "The reviewer model that may decide steps of this rule. Only with `require_approval`, without a quorum, and if the timeout rejects. Null, the default: people decide every step."
  }),
  reason: Schema.String.check(Schema.isMaxLength(1_000)).annotateKey({
    description: "Shown to the agent and to reviewers. At most 1,000 characters. Default: empty."
  }),
  summary_template: Schema.NullOr(
    Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(MAX_TEMPLATE), isVisibleLine)
  ).annotateKey({
    description:
      "Template of the sentence that tells people what a waiting step does, such as `Refund {amount_cents|money:currency} on order {order}`: 1 to 300 characters. Placeholders name arguments by a path or a JSON Pointer, with the formats `number`, `date`, `count` and `money:` with a currency code or a path. A value that is missing or has another type is shown as such. Null, the default, means none."
  })
}).annotate({
  identifier: "ApprovalRule",
  description: "One rule of the organization's ordered list. The first rule that matches a step decides."
})
export type ApprovalRule = typeof ApprovalRule.Type

/** Default reviewers' window. */
export const DEFAULT_REVIEW_SECONDS = 3600

/** The decision of the rules about one step. */
export interface Ruling {
  /** Null if no rule matched, so that the built-in rule applies. */
  readonly rule_id: RuleId | null
  readonly effect: RuleEffect
  readonly reason: string
  readonly terms: ApprovalTerms
  /** Set if a rule that rejects or asks could not be judged: a person must see this step, and no standing grant allows it. */
  readonly unjudged?: true
  /** The use of the budgets of the rule that allows the step. Absent: the rule has none. */
  readonly spends?: ReadonlyArray<BudgetSpend>
  /** The reviewer model that may decide the step in place of people. Absent: the rule has none, or never for this step. */
  readonly reviewer?: RuleReviewer
  /** Describes the step to people. Absent: the rule has no template. It has no part in the decision. */
  readonly summary?: SummaryTemplate
}

/** The facts about a step that rules match without its arguments. */
export interface RuleTarget {
  readonly tool: string
  readonly action_class: string
  readonly task_id: TaskId | null
}

/** The facts about a step that rules match. */
export interface RuleInput extends RuleTarget {
  /** Undefined if the agent sent none. Required, because a condition such as `absent` would hold for arguments that were left out. */
  readonly arguments: Schema.Json | undefined
}
