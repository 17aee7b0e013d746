import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { documented } from "../domain/documented.ts"
import { ApprovalRule, RuleEffect } from "../domain/approvals/ApprovalRule.ts"
import { MAX_BUDGETS, RuleBudget } from "../domain/approvals/RuleBudget.ts"
import { MAX_QUORUM_PARTS, QuorumPart } from "../domain/approvals/Quorum.ts"
import { RuleReviewer } from "../domain/approvals/RuleReviewer.ts"
import { MAX_LISTED_STEPS, RuleTestLine } from "../domain/approvals/RuleTest.ts"
import { RuleWarnings } from "../domain/approvals/ruleWarnings.ts"
import { MAX_SUGGESTIONS } from "../domain/approvals/suggestRules.ts"
import { ShadowChanges, ShadowDifference } from "../domain/approvals/ShadowDifference.ts"
import { ApprovalId, RuleId, SessionId, StepId } from "../domain/Ids.ts"
import { timestamp, Timestamp } from "../domain/Time.ts"
import { Authentication, requires } from "./Authorization.ts"
import { describeLines } from "./describeLines.ts"
import { CredentialFree, RequestBody } from "./Middleware.ts"
import { page, pageQuery } from "./Pagination.ts"
import { NotFound, RateLimited, RulesChanged, RulesTooLarge, UnknownGroup } from "./Problems.ts"

/** Most rules of an organization: every governed step evaluates the list. */
export const MAX_RULES = 1_000

export const ApprovalRules = Schema.Struct({
  rules: Schema.Array(ApprovalRule)
    .check(documented({ maxItems: MAX_RULES }))
    .annotateKey({ description: "The rules, in the order of evaluation." }),
  revision: Schema.Int.annotateKey({ description: "Revision of the list. It increases with every change." }),
  warnings: RuleWarnings
}).annotate({
  identifier: "ApprovalRules",
  description: "The organization's approval rules, in order. The first rule that matches a step decides."
})
export type ApprovalRules = typeof ApprovalRules.Type

const { effect, ...fields } = ApprovalRule.fields

export const NewQuorumPart = Schema.Struct({
  count: Schema.optionalKey(QuorumPart.fields.count).annotateKey({
    description: "How many people must approve, 1 to 10. Default 1."
  }),
  group: Schema.optionalKey(QuorumPart.fields.group)
}).annotate({ identifier: "NewQuorumPart", description: "How many people, of which group, must approve." })
export type NewQuorumPart = typeof NewQuorumPart.Type

const { by, count, sum, ...budgetFields } = RuleBudget.fields

export const NewRuleBudget = Schema.Struct({
  ...budgetFields,
  count: Schema.optionalKey(count),
  sum: Schema.optionalKey(sum),
  by: Schema.optionalKey(by)
}).annotate({
  identifier: "NewRuleBudget",
  description:
    "How much a rule allows within a sliding window: `count` steps, a `sum` of a number in the arguments, or both."
})
export type NewRuleBudget = typeof NewRuleBudget.Type

const { never, sample, ...reviewerFields } = RuleReviewer.fields

export const NewRuleReviewer = Schema.Struct({
  ...reviewerFields,
  sample: Schema.optionalKey(sample),
  never: Schema.optionalKey(never)
}).annotate({
  identifier: "NewRuleReviewer",
  description:
    "Lets a reviewer model decide steps of the rule while it has earned it. Steps that it does not decide wait for a person as without it."
})
export type NewRuleReviewer = typeof NewRuleReviewer.Type

export const NewApprovalRule = Schema.Struct({
  id: Schema.optionalKey(RuleId).annotateKey({
    description: "ID of an existing rule to keep. Absent for a new rule."
  }),
  tool: Schema.optionalKey(fields.tool),
  action_class: Schema.optionalKey(fields.action_class),
  task_id: Schema.optionalKey(fields.task_id),
  when: Schema.optionalKey(fields.when).annotateKey({
    description:
      "Conditions on the step's arguments, at most 20. The rule matches only if all hold. Default: none. Required, if need be empty, for a rule with an `id` whose stored version has conditions."
  }),
  budget: Schema.optionalKey(NewRuleBudget).annotateKey({
    description:
      "The budget of a rule with one, short for `budgets` with one element. Not together with `budgets`."
  }),
  budgets: Schema.optionalKey(Schema.Array(NewRuleBudget).check(Schema.isMaxLength(MAX_BUDGETS))).annotateKey(
    {
      description: `Budgets of a rule that allows, at most ${MAX_BUDGETS}: it matches only while a step still fits all of them. Default: none. Required, if need be empty, for a rule with an \`id\` whose stored version has budgets.`
    }
  ),
  effect,
  review_seconds: Schema.optionalKey(fields.review_seconds),
  expiring_seconds: Schema.optionalKey(fields.expiring_seconds),
  escalation_seconds: Schema.optionalKey(fields.escalation_seconds),
  timeout_action: Schema.optionalKey(fields.timeout_action),
  self_approval: Schema.optionalKey(fields.self_approval),
  quorum: Schema.optionalKey(
    Schema.Array(NewQuorumPart).check(Schema.isMinLength(1), Schema.isMaxLength(MAX_QUORUM_PARTS))
  ).annotateKey({
    description: `The approvals that a step needs: those of every part, of which there are at most ${MAX_QUORUM_PARTS}, and at most 10 in all. A person counts once, and for one part. Each group has one part, and a usable key with \`approvals.decide\` must have it. Default: one approval by anyone who may decide.`
  }),
  require_comment: Schema.optionalKey(fields.require_comment),
  retry_unknown: Schema.optionalKey(fields.retry_unknown),
  reviewer: Schema.optionalKey(Schema.NullOr(NewRuleReviewer)).annotateKey({
    description:
      "The reviewer model that may decide steps of this rule. Only with `require_approval`, without a quorum, and if the timeout rejects. Null or absent: people decide every step."
  }),
  reason: Schema.optionalKey(fields.reason),
  summary_template: Schema.optionalKey(fields.summary_template)
}).annotate({ identifier: "NewApprovalRule", description: "An approval rule. Only `effect` is required." })
export type NewApprovalRule = typeof NewApprovalRule.Type

export const ReplaceApprovalRules = Schema.Struct({
  rules: Schema.Array(NewApprovalRule)
    .check(documented({ maxItems: MAX_RULES }))
    .annotateKey({
      description:
        "All rules, in the order of evaluation. At most 1,000, with at most 10,000 conditions and 500 different patterns in all. An empty list is allowed."
    }),
  revision: Schema.optionalKey(Schema.Int).annotateKey({
    description:
      "The revision that is to be replaced. If it is no longer current, the request fails. Absent: any."
  })
}).annotate({ identifier: "ReplaceApprovalRules", description: "The complete list of rules." })
export type ReplaceApprovalRules = typeof ReplaceApprovalRules.Type

/** Days before its end at which the window of a test starts by default. */
export const DEFAULT_TEST_DAYS = 30

/** Tests of rules that an organization can run at once on each replica. */
export const MAX_RULE_TESTS = 2

export const TestApprovalRules = Schema.Struct({
  rules: Schema.Array(NewApprovalRule)
    .check(documented({ maxItems: MAX_RULES }))
    .annotateKey({
      description:
        "The rules to test, in the order of evaluation. They are checked as when the list is replaced."
    }),
  since: Schema.optionalKey(
    timestamp(`Start of the window. Default: ${DEFAULT_TEST_DAYS} days before its end.`)
  ),
  until: Schema.optionalKey(timestamp("End of the window, which is not part of it. Default: now."))
}).annotate({ identifier: "TestApprovalRules", description: "Rules, and the steps to test them on." })
export type TestApprovalRules = typeof TestApprovalRules.Type

/** Newest decisions that suggestions are made from. */
export const MAX_SAMPLED_DECISIONS = 5_000

/** Largest arguments that suggestions look into, in bytes. */
export const MAX_SAMPLED_BYTES = 4_096

/** Most exceptions that are listed for each suggestion. */
export const MAX_LISTED_EXCEPTIONS = 10

/** The upper bound of the error that a suggestion may have by default. */
export const DEFAULT_MAX_ERROR = 0.1

/** Limits of that bound. */
export const MAX_ERROR_LIMITS = { minimum: 0.01, maximum: 0.5 }

export const SuggestedApprovalRule = Schema.Struct({
  tool: fields.tool,
  action_class: fields.action_class,
  task_id: fields.task_id,
  when: fields.when,
  effect
}).annotate({
  identifier: "SuggestedApprovalRule",
  description: "The part of an approval rule that a suggestion decides."
})
export type SuggestedApprovalRule = typeof SuggestedApprovalRule.Type

export const RuleSuggestion = Schema.Struct({
  rule: SuggestedApprovalRule.annotateKey({ description: "The rule. It is not saved." }),
  before_rule_id: Schema.NullOr(RuleId).annotateKey({
    description:
      "The current rule that asks about these steps: put the new one before it, so that the rules above still win. Null if none matches them: put it last."
  }),
  decisions: Schema.Int.annotateKey({
    description: "Decisions of people about steps that the rule matches."
  }),
  exceptions: Schema.Int.annotateKey({ description: "How many of them were decided otherwise." }),
  exception_ids: Schema.Array(ApprovalId)
    .check(documented({ maxItems: MAX_LISTED_EXCEPTIONS }))
    .annotateKey({ description: `Approvals of the newest exceptions, at most ${MAX_LISTED_EXCEPTIONS}.` }),
  measured: Schema.Int.annotateKey({
    description:
      "Decisions that the error was measured on. A rule with a condition is found in the older half of the decisions and measured in the newer half."
  }),
  error_upper_bound: Schema.Finite.annotateKey({
    description:
      "Upper bound of the share of steps that people would decide otherwise: of the 95 % confidence interval (Wilson) of the measured decisions."
  }),
  people: Schema.Int.annotateKey({ description: "How many API keys made the decisions." }),
  first_at: timestamp("When the oldest of the steps was submitted."),
  last_at: timestamp("When the newest of the steps was submitted.")
}).annotate({
  identifier: "RuleSuggestion",
  description: "A rule that would have decided like the people who were asked."
})
export type RuleSuggestion = typeof RuleSuggestion.Type

export const RuleSuggestions = Schema.Struct({
  suggestions: Schema.Array(RuleSuggestion)
    .check(documented({ maxItems: MAX_SUGGESTIONS }))
    .annotateKey({ description: "The suggested rules, those with the most decisions first." }),
  revision: Schema.Int.annotateKey({
    description: "Revision of the current rules, which the suggestions are made for."
  }),
  looked_at: Schema.Int.annotateKey({
    description: `Decisions that were looked at: the newest ${MAX_SAMPLED_DECISIONS.toLocaleString("en-US")} at most.`
  }),
  unread: Schema.Int.annotateKey({
    description:
      "How many of them count for nothing, because they were made faster than a person can read the request: 1 second, and 1 second for 70 characters of the arguments, 30 seconds at most. Decisions of one key share its time, of which it can save up 10 minutes."
  }),
  already_decided: Schema.Int.annotateKey({
    description: "How many of them are about steps that the current rules decide without asking."
  }),
  without_arguments: Schema.Int.annotateKey({
    description: `How many of them have arguments of more than ${MAX_SAMPLED_BYTES.toLocaleString("en-US")} bytes, which were not looked into.`
  }),
  oldest_at: Schema.NullOr(Timestamp).annotateKey({
    description: "When the oldest step was submitted that was looked at. Null without decisions."
  })
}).annotate({ identifier: "RuleSuggestions", description: "Suggested rules, and what they are made from." })
export type RuleSuggestions = typeof RuleSuggestions.Type

export const suggestionQuery = {
  max_error: Schema.optionalKey(
    Schema.Finite.check(Schema.isBetween(MAX_ERROR_LIMITS, { expected: "a number from 0.01 to 0.5" }))
  ).annotateKey({
    description: `Largest \`error_upper_bound\`, 0.01 to 0.5. Default ${DEFAULT_MAX_ERROR}: 35 decisions without exception, or more with some.`
  })
}
export type SuggestionQuery = Schema.Struct.Type<typeof suggestionQuery>

const { revision: _, ...replaced } = ReplaceApprovalRules.fields

export const ShadowApprovalRules = Schema.Struct({
  active: Schema.Boolean.annotateKey({
    description: "Whether there are shadow rules. An empty list is one too: it asks about every step."
  }),
  rules: ApprovalRules.fields.rules,
  revision: Schema.Int.annotateKey({
    description: "Revision of the shadow rules. It increases with every change, also when they are removed."
  }),
  since: Schema.NullOr(Timestamp).annotateKey({
    description: "When these rules were stored. Steps since then are compared. Null if there are none."
  }),
  warnings: RuleWarnings
}).annotate({
  identifier: "ShadowApprovalRules",
  description: "Rules that are evaluated for each new step beside the live rules, and not enforced."
})
export type ShadowApprovalRules = typeof ShadowApprovalRules.Type

export const ReplaceShadowRules = Schema.Struct({
  ...replaced,
  revision: Schema.optionalKey(Schema.Int).annotateKey({
    description:
      "The revision of the shadow rules that is to be replaced. If it is no longer current, the request fails. Absent: any."
  })
}).annotate({ identifier: "ReplaceShadowRules", description: "The complete list of shadow rules." })
export type ReplaceShadowRules = typeof ReplaceShadowRules.Type

export const PromoteShadowRules = Schema.Struct({
  revision: Schema.optionalKey(Schema.Int).annotateKey({
    description:
      "The revision of the live rules that are to be replaced. If it is no longer current, the request fails. Absent: any."
  }),
  shadow_revision: Schema.optionalKey(Schema.Int).annotateKey({
    description:
      "The revision of the shadow rules to promote. If it is no longer current, the request fails. Absent: any."
  })
}).annotate({ identifier: "PromoteShadowRules", description: "The revisions that a promotion is made for." })
export type PromoteShadowRules = typeof PromoteShadowRules.Type

const isSessionId = Schema.is(SessionId)
const isStepId = Schema.is(StepId)

/** The place of a difference in its list: time in milliseconds, session and step. */
export const ShadowCursor = Schema.String.check(
  Schema.makeFilter(
    (text) => {
      const [, session_id, step_id] = /^\d{1,15} (\S+) ([^]+)$/u.exec(text) ?? []
      return isSessionId(session_id) && isStepId(step_id)
    },
    { expected: "a cursor of this list" }
  )
)
export type ShadowCursor = typeof ShadowCursor.Type

export const shadowDifferencesQuery = {
  live: Schema.optionalKey(RuleEffect).annotateKey({
    description: "Only steps with this effect of the live rules. Absent: any."
  }),
  shadow: Schema.optionalKey(RuleEffect).annotateKey({
    description: "Only steps with this effect of the shadow rules. Absent: any."
  }),
  ...pageQuery(ShadowCursor)
}
export type ShadowDifferencesQuery = Schema.Struct.Type<typeof shadowDifferencesQuery>

const differencesPage = page("differences", ShadowDifference, ShadowCursor)

export const ShadowDifferences = Schema.Struct({
  ...differencesPage.fields,
  revision: Schema.Int.annotateKey({
    description: "Revision of the shadow rules. The differences are those of this revision."
  }),
  changes: Schema.NullOr(ShadowChanges).annotateKey({
    description:
      "The number of differences by both effects, whatever the query selects. Null on the pages after the first."
  })
}).annotate({ identifier: "ShadowDifferences", description: "One page of the differences, newest first." })
export type ShadowDifferences = typeof ShadowDifferences.Type

export class ApprovalRulesApi extends HttpApiGroup.make("approvalRules")
  .add(
    HttpApiEndpoint.get("get", "/", { success: ApprovalRules })
      .middleware(requires("approvals.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "listApprovalRules",
          summary: "List approval rules",
          description: "Returns all rules in the order of evaluation, with the revision of the list."
        })
      ),
    HttpApiEndpoint.put("replace", "/", {
      payload: ReplaceApprovalRules,
      success: ApprovalRules,
      error: [RulesChanged, RulesTooLarge, UnknownGroup]
    })
      .middleware(CredentialFree)
      .middleware(requires("rules.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "replaceApprovalRules",
          summary: "Replace the approval rules",
          description:
            "Replaces the complete list. It applies from the next step on. With `revision`, fails with 409 `RULES_CHANGED` if the rules changed since. A list beyond a limit gets 422 `RULES_TOO_LARGE`."
        })
      ),
    HttpApiEndpoint.post("test", "/test", {
      payload: TestApprovalRules,
      success: HttpApiSchema.StreamNdjson({ schema: RuleTestLine }),
      error: [RulesTooLarge, UnknownGroup, RateLimited]
    })
      .middleware(requires("approvals.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "testApprovalRules",
          summary: "Test rules on past steps",
          description: `Evaluates rules on every step that was submitted in a window of time, and compares their decisions with the recorded ones. Changes nothing. Returns JSON Lines: \`step\` for each step about which a person decided otherwise (at most ${MAX_LISTED_STEPS.toLocaleString("en-US")} for each finding, newest first, or oldest first if a rule has budgets), \`progress\` from time to time, and last \`result\` with the totals. Without that line the test is incomplete. Budgets are unused at the start of the window. A step counts with its first decision and with what became of its approval; a time-out and the end of a session are no person's decision. An organization can run ${MAX_RULE_TESTS} tests at a time on each replica; a further one fails with 429 \`RATE_LIMITED\`.`,
          transform: describeLines("Findings, progress and the result.", { component: "RuleTestReport" })
        })
      ),
    HttpApiEndpoint.get("suggest", "/suggestions", {
      query: suggestionQuery,
      success: RuleSuggestions
    })
      .middleware(requires("approvals.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "suggestApprovalRules",
          summary: "Suggest rules from decisions",
          description:
            "Suggests rules that would have decided like people did, for steps that the current rules ask about. Each says how many decisions it is made from, its exceptions, and an upper bound of its error. Decisions that nobody can have read do not count. Changes nothing: test a suggestion, then save the list with it."
        })
      ),
    HttpApiEndpoint.get("getShadow", "/shadow", { success: ShadowApprovalRules })
      .middleware(requires("approvals.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "getShadowRules",
          summary: "Get the shadow rules",
          description:
            "Returns the rules that are evaluated for each new step beside the live ones and not enforced."
        })
      ),
    HttpApiEndpoint.put("replaceShadow", "/shadow", {
      payload: ReplaceShadowRules,
      success: ShadowApprovalRules,
      error: [RulesChanged, RulesTooLarge, UnknownGroup]
    })
      .middleware(CredentialFree)
      .middleware(requires("rules.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "replaceShadowRules",
          summary: "Replace the shadow rules",
          description:
            "Replaces the complete list of shadow rules, with the same checks and limits as the live list. They are evaluated from the next step on, and decide nothing. Counting starts again: the differences of the previous list are no longer returned. With `revision`, fails with 409 `RULES_CHANGED` if the shadow rules changed since."
        })
      ),
    HttpApiEndpoint.delete("removeShadow", "/shadow", {})
      .middleware(requires("rules.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "removeShadowRules",
          summary: "Remove the shadow rules",
          description: "Removes the shadow rules; their differences are no longer returned. Idempotent."
        })
      ),
    HttpApiEndpoint.post("promoteShadow", "/shadow/promote", {
      payload: PromoteShadowRules,
      success: ApprovalRules,
      error: [NotFound, RulesChanged, RulesTooLarge, UnknownGroup]
    })
      .middleware(requires("rules.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "promoteShadowRules",
          summary: "Promote the shadow rules",
          description:
            "Replaces the live rules with the shadow rules, and removes those. Returns the live rules. With `revision` or `shadow_revision`, fails with 409 `RULES_CHANGED` if that list changed since; `current_revision` is the one of the list that changed."
        })
      ),
    HttpApiEndpoint.get("listShadowDifferences", "/shadow/differences", {
      query: shadowDifferencesQuery,
      success: ShadowDifferences
    })
      .middleware(requires("approvals.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "listShadowDifferences",
          summary: "List differences of the shadow rules",
          description:
            "Lists the steps, newest first, for which the current shadow rules have another effect than the first decision, and counts them by both effects. A step is compared when it is first submitted. Deleting a session removes its differences."
        })
      )
  )
  .prefix("/v1/approval-rules")
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "Approval rules",
      description:
        "An ordered list of rules that allow a step, reject it, or require approval. The first rule that matches decides. With no match, approval by a person is required, within one hour."
    })
  ) {}
