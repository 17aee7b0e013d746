import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { ApprovalRule } from "../domain/approvals/ApprovalRule.ts"
import { RuleId } from "../domain/Ids.ts"
import { Authentication, requires } from "./Authorization.ts"
import { RequestBody } from "./Middleware.ts"
import { RulesChanged } from "./Problems.ts"

/** The most rules an organization may have: each governed step walks the list. */
export const MAX_RULES = 1_000

/** The ordered list: the first rule that matches a step decides. */
export const ApprovalRules = Schema.Struct({
  rules: Schema.Array(ApprovalRule),
  /** Rises with every change. */
  revision: Schema.Int
}).annotate({ identifier: "ApprovalRules" })
export type ApprovalRules = typeof ApprovalRules.Type

const { effect, ...fields } = ApprovalRule.fields

/** A rule as it is written: only `effect` is needed. Without an id it is a new one. */
export const NewApprovalRule = Schema.Struct({
  id: Schema.optionalKey(RuleId),
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
}).annotate({ identifier: "NewApprovalRule" })
export type NewApprovalRule = typeof NewApprovalRule.Type

/** The whole list at once. With `revision` it replaces only the list of that revision. */
export const ReplaceApprovalRules = Schema.Struct({
  rules: Schema.Array(NewApprovalRule).check(Schema.isMaxLength(MAX_RULES)),
  revision: Schema.optionalKey(Schema.Int)
}).annotate({ identifier: "ReplaceApprovalRules" })
export type ReplaceApprovalRules = typeof ReplaceApprovalRules.Type

/** Which steps are allowed, rejected, or held for a person. */
export class ApprovalRulesApi extends HttpApiGroup.make("approval_rules")
  .add(
    HttpApiEndpoint.get("list", "/", { success: ApprovalRules })
      .middleware(requires("approvals.read"))
      .annotate(OpenApi.Description, "The rules in their order, and the revision of the list."),
    HttpApiEndpoint.put("replace", "/", {
      payload: ReplaceApprovalRules,
      success: ApprovalRules,
      error: RulesChanged
    })
      .middleware(requires("rules.write"))
      .annotate(
        OpenApi.Description,
        "Replaces the whole list, from the next step on. With `revision` only the list of that revision: otherwise 409 `RULES_CHANGED`."
      )
  )
  .prefix("/v1/approval-rules")
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "Approval rules",
      description:
        "An ordered list; the first rule that matches a step decides. Without one a person is asked."
    })
  ) {}
