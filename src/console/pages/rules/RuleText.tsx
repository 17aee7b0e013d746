import type { CommentRequirement } from "../../../domain/approvals/Approval.ts"
import type { ApprovalRule } from "../../../domain/approvals/ApprovalRule.ts"
import { describeBudget } from "../../../domain/approvals/RuleBudget.ts"
import { describeQuorum, isDefaultQuorum } from "../../../domain/approvals/Quorum.ts"
import { describeRuleReviewer } from "../../../domain/approvals/RuleReviewer.ts"
import { formatSeconds } from "../../ui/Time.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { ReviewerLink } from "../reviewers/ReviewerLink.tsx"
import { describeCondition } from "./ConditionDraft.ts"
import { EffectBadge } from "./EffectBadge.tsx"

const requirementTexts: Readonly<Record<Exclude<CommentRequirement, "never">, string>> = {
  reject: "comment required to reject",
  always: "comment required"
}

/** A rule in words, with a warning about it. */
export const RuleText = ({
  rule,
  warning
}: {
  readonly rule: ApprovalRule
  readonly warning?: string | undefined
}) => (
  <div className="rule-text">
    <p>
      <EffectBadge effect={rule.effect} />{" "}
      {rule.tool === "*" ? (
        "any tool"
      ) : (
        <code>
          <UntrustedText text={rule.tool} />
        </code>
      )}
      {rule.action_class === "*" ? null : (
        <>
          {" "}
          <span className="quiet">with class</span>{" "}
          <code>
            <UntrustedText text={rule.action_class} />
          </code>
        </>
      )}
      {rule.task_id === null ? null : (
        <>
          {" "}
          <span className="quiet">task</span> <span className="id">{rule.task_id}</span>
        </>
      )}
    </p>
    {rule.when.length === 0 ? null : (
      <ul className="conditions small" aria-label="Conditions">
        {rule.when.map((condition) => {
          const text = describeCondition(condition)
          return (
            <li key={text}>
              <UntrustedText text={text} />
            </li>
          )
        })}
      </ul>
    )}
    {rule.budgets.length === 0 ? null : (
      <ul className="conditions small" aria-label="Budgets">
        {rule.budgets.map((budget) => {
          const text = describeBudget(budget)
          return (
            <li key={text}>
              <UntrustedText text={text} />
            </li>
          )
        })}
      </ul>
    )}
    {rule.reviewer === null ? null : (
      <>
        <p className="small">
          Reviewer model <ReviewerLink id={rule.reviewer.task_id} /> decides{" "}
          {describeRuleReviewer(rule.reviewer)}
        </p>
        {rule.reviewer.never.length === 0 ? null : (
          <ul className="conditions small" aria-label="Never decided by the model">
            {rule.reviewer.never.map((condition) => {
              const text = describeCondition(condition)
              return (
                <li key={text}>
                  never if <UntrustedText text={text} />
                </li>
              )
            })}
          </ul>
        )}
      </>
    )}
    {rule.reason === "" ? null : (
      <p className="small">
        <UntrustedText text={rule.reason} />
      </p>
    )}
    {rule.effect === "require_approval" && rule.summary_template !== null ? (
      <p className="small">
        <span className="quiet">Summary:</span> <UntrustedText text={rule.summary_template} />
      </p>
    ) : null}
    {rule.effect === "require_approval" ? (
      <p className="quiet small">
        {isDefaultQuorum(rule.quorum) ? "" : `Approval by ${describeQuorum(rule.quorum)} · `}
        Review window {formatSeconds(rule.review_seconds)}
        {rule.escalation_seconds === null
          ? ""
          : ` · escalation window ${formatSeconds(rule.escalation_seconds)}`}{" "}
        · on timeout: {rule.timeout_action === "allow" ? "allow" : "reject"}
        {rule.self_approval ? " · self-approval allowed" : ""}
        {rule.require_comment === "never" ? "" : ` · ${requirementTexts[rule.require_comment]}`}
      </p>
    ) : null}
    {warning === undefined ? null : <p className="notice warn small">{warning}</p>}
  </div>
)
