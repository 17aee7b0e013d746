import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { documented } from "../domain/documented.ts"
import { ApprovalRule } from "../domain/approvals/ApprovalRule.ts"
import { RuleId } from "../domain/Ids.ts"
import { Authentication, requires } from "./Authorization.ts"
import { RequestBody } from "./Middleware.ts"
import { RulesChanged } from "./Problems.ts"

/** Most rules of an organization: every governed step evaluates the list. */
export const MAX_RULES = 1_000

export const ApprovalRules = Schema.Struct({
  rules: Schema.Array(ApprovalRule)
    .check(documented({ maxItems: MAX_RULES }))
    .annotateKey({ description: "The rules, in the order of evaluation." }),
  revision: Schema.Int.annotateKey({ description: "Revision of the list. It increases with every change." })
}).annotate({
  identifier: "ApprovalRules",
  description: "The organization's approval rules, in order. The first rule that matches a step decides."
})
export type ApprovalRules = typeof ApprovalRules.Type

const { effect, ...fields } = ApprovalRule.fields

export const NewApprovalRule = Schema.Struct({
  id: Schema.optionalKey(RuleId).annotateKey({
    description: "ID of an existing rule to keep. Absent for a new rule."
  }),
  tool: Schema.optionalKey(fields.tool),
  action_class: Schema.optionalKey(fields.action_class),
  task_id: Schema.optionalKey(fields.task_id),
  effect,
  review_seconds: Schema.optionalKey(fields.review_seconds),
  expiring_seconds: Schema.optionalKey(fields.expiring_seconds),
  escalation_seconds: Schema.optionalKey(fields.escalation_seconds),
  timeout_action: Schema.optionalKey(fields.timeout_action),
  self_approval: Schema.optionalKey(fields.self_approval),
  reason: Schema.optionalKey(fields.reason)
}).annotate({ identifier: "NewApprovalRule", description: "An approval rule. Only `effect` is required." })
export type NewApprovalRule = typeof NewApprovalRule.Type

export const ReplaceApprovalRules = Schema.Struct({
  rules: Schema.Array(NewApprovalRule).check(Schema.isMaxLength(MAX_RULES)).annotateKey({
    description: "All rules, in the order of evaluation. At most 1,000. An empty list is allowed."
  }),
  revision: Schema.optionalKey(Schema.Int).annotateKey({
    description:
      "The revision that is to be replaced. If it is no longer current, the request fails. Absent: any."
  })
}).annotate({ identifier: "ReplaceApprovalRules", description: "The complete list of rules." })
export type ReplaceApprovalRules = typeof ReplaceApprovalRules.Type

export class ApprovalRulesApi extends HttpApiGroup.make("approval_rules")
  .add(
    HttpApiEndpoint.get("list", "/", { success: ApprovalRules })
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
      error: RulesChanged
    })
      .middleware(requires("rules.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "replaceApprovalRules",
          summary: "Replace the approval rules",
          description:
            "Replaces the complete list. It applies from the next step on. With `revision`, fails with 409 `RULES_CHANGED` if the rules changed since."
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
