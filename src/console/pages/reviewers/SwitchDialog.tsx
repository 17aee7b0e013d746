import { AsyncResult } from "effect/reactivity"
import { useState } from "react"
import type { ApprovalRules } from "../../../api/ApprovalRules.ts"
import type { ReviewerBacktest } from "../../../api/Reviewers.ts"
import type { ApprovalRule } from "../../../domain/approvals/ApprovalRule.ts"
import type { Reviewer } from "../../../domain/approvals/Reviewer.ts"
import { Link } from "../../app/router.tsx"
import { useAtomValue } from "../../state/atoms.ts"
import { backtestAtom, type TestedTerms } from "../../state/reviewers.ts"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { Dialog } from "../../ui/Dialog.tsx"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { FormDialog } from "../../ui/FormDialog.tsx"
import { plainLine } from "../../ui/plainLine.ts"
import { SelectField } from "../../ui/Select.tsx"
import { AbsoluteTime } from "../../ui/Time.tsx"
import { useAction } from "../../ui/useAction.ts"
import { percentage, percentText } from "../overview/figures.ts"
import { fromTermsDraft, ReviewerTermsFields, termsFault, toTermsDraft } from "./ReviewerTermsFields.tsx"
import { saveReviewerOfRule } from "./saveReviewerOfRule.ts"
import { takesReviewer } from "./termsOfRules.ts"

/** The most characters of a tool in the choice of rules. */
const MAX_TOOL = 60

const TITLE = "Let it decide"

interface Option {
  readonly rule: ApprovalRule
  readonly number: number
}

interface SwitchProps {
  readonly reviewer: Reviewer
  readonly rules: ApprovalRules
  readonly onClose: () => void
  readonly onSaved: () => void
}

/** The dialog that lets a reviewer model decide steps of a rule, once its user has seen what it would have done. */
export const SwitchDialog = (props: SwitchProps) => {
  const { onClose, reviewer, rules } = props
  const options = rules.rules.flatMap((rule, index): ReadonlyArray<Option> =>
    takesReviewer(rule) && (rule.reviewer === null || rule.reviewer.task_id === reviewer.task_id)
      ? [{ rule, number: index + 1 }]
      : []
  )
  const [first] = options
  if (first !== undefined) return <SwitchForm {...props} first={first} options={options} />
  return (
    <Dialog open title={TITLE} onClose={onClose}>
      <p>
        No rule can let it decide: it takes one that requires the approval of one person, and rejects on a
        timeout.
      </p>
      <div className="dialog-actions">
        <Link className="button primary" to="/rules?new=rule">
          New rule
        </Link>
      </div>
    </Dialog>
  )
}

const SwitchForm = ({
  first,
  onClose,
  onSaved,
  options,
  reviewer: { task_id },
  rules
}: SwitchProps & { readonly first: Option; readonly options: ReadonlyArray<Option> }) => {
  const [{ rule }, choose] = useState(first)
  const [draft, setDraft] = useState(() => toTermsDraft(rule.reviewer ?? undefined))
  const chosen = fromTermsDraft(draft, task_id, rule.reviewer?.never ?? [])
  const { max_false_approvals, min_lower_bound, sample } = chosen
  const terms: TestedTerms = { task_id, min_lower_bound, max_false_approvals, sample }
  /** The terms that the shown backtest tries. */
  const [tested, setTested] = useState(terms)
  const atom = backtestAtom(tested)
  const backtest = useAtomValue(atom)
  const save = useAction(() => saveReviewerOfRule(rules, rule.id, chosen))
  const isTested = JSON.stringify(tested) === JSON.stringify(terms)
  const isReady = isTested && AsyncResult.isSuccess(backtest)
  const isValid = termsFault(draft) === undefined
  const submit = async () => {
    if (!isValid) return
    if (!isTested) setTested(terms)
    else if (isReady && (await save.run()) !== undefined) onSaved()
  }
  return (
    <FormDialog
      title={TITLE}
      submit={isTested ? "Let it decide" : "What would it have done?"}
      pending={save.pending}
      disabled={!isValid || (isTested && !isReady)}
      onSubmit={submit}
      onClose={onClose}
    >
      <SelectField
        label="Rule"
        hint="Listed are rules that require the approval of one person, reject on a timeout, and have no other reviewer."
        value={rule.id}
        onChange={(id) => {
          const found = options.find((option) => option.rule.id === id)
          if (found === undefined) return
          choose(found)
          if (found.rule.reviewer !== null) setDraft(toTermsDraft(found.rule.reviewer))
        }}
        options={options.map((option) => [
          option.rule.id,
          `Rule ${option.number}: ${plainLine(option.rule.tool, MAX_TOOL)}`
        ])}
      />
      <ReviewerTermsFields draft={draft} onChange={setDraft} />
      <AsyncContent atom={atom}>
        {(result) => <Backtest result={result} isOutdated={!isTested} />}
      </AsyncContent>
      <FailureNotice failure={save.failure} />
    </FormDialog>
  )
}

/** What the reviewer would have decided in the past. */
const Backtest = ({
  isOutdated,
  result
}: {
  readonly result: ReviewerBacktest
  /** Whether the terms have changed since. */
  readonly isOutdated: boolean
}) => {
  const { compared, decided, false_approvals, false_rejections, first_decided_at, since, truncated } = result
  return (
    <div className={false_approvals > 0 ? "notice warn" : "notice"} role="status">
      <p className="notice-title">
        {decided === 0
          ? "It would have decided nothing"
          : `It would have decided ${decided.toLocaleString("en")} of ${compared.toLocaleString("en")} steps (${percentText(percentage(decided, compared))})`}
      </p>
      <ul>
        {decided === 0 ? null : (
          <>
            <li>
              {false_approvals.toLocaleString("en")} approved that people rejected,{" "}
              {false_rejections.toLocaleString("en")} rejected that people approved
            </li>
            {first_decided_at === null ? null : (
              <li>
                first <AbsoluteTime time={first_decided_at} />
              </li>
            )}
          </>
        )}
        <li>
          to people: {result.not_earned.toLocaleString("en")} not earned at that time,{" "}
          {result.unsure.toLocaleString("en")} unsure, {result.sampled.toLocaleString("en")} as the sample
        </li>
      </ul>
      <p className="quiet small">
        From its answers since <AbsoluteTime time={since} /> that were compared with people, of its live
        release.
        {truncated ? " The newest are left out: there are more than 50,000." : ""}
        {isOutdated ? " The values have changed since." : ""}
      </p>
    </div>
  )
}
