import { useEffect, useRef } from "react"
import type { DecisionResult } from "../../../../api/DecisionBatch.ts"
import type { ApprovalSnapshot } from "../../../../api/SessionStream.ts"
import { Badge } from "../../../ui/Badge.tsx"
import { Button } from "../../../ui/Button.tsx"
import { UntrustedText } from "../../../ui/UntrustedText.tsx"
import { ClosedReason } from "../ClosedReason.tsx"
import { openOutcomeText, outcomeOf, outcomeTones, summarizeOutcomes } from "./decisionOutcome.ts"

/** What became of each approval of a request. Those that were not decided come first. */
export const DecisionResults = ({
  approvals,
  onClose,
  results
}: {
  readonly approvals: ReadonlyArray<ApprovalSnapshot>
  readonly results: ReadonlyArray<DecisionResult>
  readonly onClose: () => void
}) => {
  const summary = useRef<HTMLParagraphElement>(null)
  // The button that had the focus is gone.
  useEffect(() => summary.current?.focus(), [])
  const sent = new Map(approvals.map((approval) => [approval.approval_id, approval]))
  const refused = results.filter((result) => outcomeOf(result) === "refused").length
  const isDecided = (result: DecisionResult) => outcomeOf(result) === "decided"
  const listed = [...results.filter((result) => !isDecided(result)), ...results.filter(isDecided)]
  return (
    <>
      <p ref={summary} tabIndex={-1} className="notice-title sheet-summary">
        {summarizeOutcomes(results)}
        {refused === 0 ? "" : `. ${refused === 1 ? "It stays" : "They stay"} selected.`}
      </p>
      <ul className="sheet-items" aria-label="Results">
        {listed.map((result) => (
          <li key={result.approval_id} className="sheet-item">
            <span className="sheet-item-name">
              <UntrustedText text={sent.get(result.approval_id)?.tool ?? result.approval_id} />{" "}
              <span className="quiet">
                <UntrustedText text={sent.get(result.approval_id)?.step_id ?? ""} />
              </span>
            </span>
            <Badge tone={outcomeTones[outcomeOf(result)]}>
              <OutcomeText result={result} />
            </Badge>
          </li>
        ))}
      </ul>
      <div className="dialog-actions">
        <Button kind="primary" onClick={onClose}>
          Close
        </Button>
      </div>
    </>
  )
}

const OutcomeText = ({ result }: { readonly result: DecisionResult }) => {
  const text = openOutcomeText(result)
  if (text !== undefined || result.approval === null) return <UntrustedText text={text ?? ""} />
  return result.problem === null ? (
    <ClosedReason approval={result.approval} />
  ) : (
    <>
      Ended before: <ClosedReason approval={result.approval} />
    </>
  )
}
