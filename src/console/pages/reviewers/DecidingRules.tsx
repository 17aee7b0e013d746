import { useState } from "react"
import type { ApprovalRules } from "../../../api/ApprovalRules.ts"
import type { Reviewer } from "../../../domain/approvals/Reviewer.ts"
import { describeRuleReviewer } from "../../../domain/approvals/RuleReviewer.ts"
import { Link } from "../../app/router.tsx"
import { refresh } from "../../state/atoms.ts"
import { rulesAtom } from "../../state/rules.ts"
import { useCan } from "../../state/session.ts"
import { Button } from "../../ui/Button.tsx"
import { ConfirmButton } from "../../ui/ConfirmButton.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { describeCondition } from "../rules/ConditionDraft.ts"
import { saveReviewerOfRule } from "./saveReviewerOfRule.ts"
import { SwitchDialog } from "./SwitchDialog.tsx"
import { rulesOf } from "./termsOfRules.ts"

/** The rules that let a reviewer model decide, and the switch for another one. */
export const DecidingRules = ({
  onChange,
  reviewer,
  rules
}: {
  readonly reviewer: Reviewer
  readonly rules: ApprovalRules
  readonly onChange: () => void
}) => {
  const can = useCan()
  const [isOpen, setOpen] = useState(false)
  const named = rulesOf(rules.rules, reviewer.task_id)
  const onSaved = (message: string) => {
    showToast(message)
    refresh(rulesAtom)
    onChange()
  }
  return (
    <section className="card padded stack" aria-labelledby="decides">
      <div className="change-head">
        <h2 id="decides">Where it decides</h2>
        {can("rules.write") ? (
          <Button kind={named.length === 0 ? "primary" : "plain"} onClick={() => setOpen(true)}>
            Let it decide…
          </Button>
        ) : null}
      </div>
      {named.length === 0 ? (
        <p className="quiet">No rule lets it decide. It answers beside people, and delays nobody.</p>
      ) : (
        <ul className="deciding-rules">
          {named.map(({ number, reviewer: terms, rule }) => (
            <li key={rule.id} className="change-head">
              <div>
                <p>
                  <Link to={`/rules?rule=${rule.id}`}>Rule {number}</Link>, <UntrustedText text={rule.tool} />
                  : {describeRuleReviewer(terms)}
                </p>
                {terms.never.length === 0 ? null : (
                  <ul className="conditions small">
                    {terms.never.map((condition) => {
                      const text = describeCondition(condition)
                      return (
                        <li key={text}>
                          never if <UntrustedText text={text} />
                        </li>
                      )
                    })}
                  </ul>
                )}
              </div>
              {can("rules.write") ? (
                <ConfirmButton
                  label="Remove"
                  title={`Remove the reviewer from rule ${number}?`}
                  act={() => saveReviewerOfRule(rules, rule.id, null)}
                  onDone={() => onSaved("People decide the steps of the rule again")}
                >
                  <p>People decide its steps again. The figures stay.</p>
                </ConfirmButton>
              ) : null}
            </li>
          ))}
        </ul>
      )}
      {isOpen ? (
        <SwitchDialog
          reviewer={reviewer}
          rules={rules}
          onClose={() => setOpen(false)}
          onSaved={() => {
            setOpen(false)
            onSaved("It decides steps of the rule where its bounds hold")
          }}
        />
      ) : null}
    </section>
  )
}
