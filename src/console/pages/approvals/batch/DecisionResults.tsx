import type { DecisionResult } from "../../../../api/DecisionBatch.ts"
import type { ApprovalSnapshot } from "../../../../api/SessionStream.ts"
import { ResultList } from "../../../ui/ResultList.tsx"
import { UntrustedText } from "../../../ui/UntrustedText.tsx"
import { ClosedReason } from "../ClosedReason.tsx"
import { openOutcomeText, outcomeOf, outcomeTones, summarizeOutcomes } from "./decisionOutcome.ts"

/** The result of each approval of a request. Undecided ones come first. */
export const DecisionResults = ({
  approvals,
  onClose,
  results
}: {
  readonly approvals: ReadonlyArray<ApprovalSnapshot>
  readonly results: ReadonlyArray<DecisionResult>
  readonly onClose: () => void
}) => {
  const sent = new Map(approvals.map((approval) => [approval.approval_id, approval]))
  const refused = results.filter((result) => outcomeOf(result) === "refused").length
  return (
    <ResultList
      summary={`${summarizeOutcomes(results)}${
        refused === 0 ? "" : `. ${refused === 1 ? "It stays" : "They stay"} selected.`
      }`}
      items={results.map((result) => ({
        id: result.approval_id,
        name: (
          <>
            <UntrustedText text={sent.get(result.approval_id)?.tool ?? result.approval_id} />{" "}
            <span className="quiet">
              <UntrustedText text={sent.get(result.approval_id)?.step_id ?? ""} />
            </span>
          </>
        ),
        outcome: <OutcomeText result={result} />,
        tone: outcomeTones[outcomeOf(result)],
        done: outcomeOf(result) === "decided"
      }))}
      onClose={onClose}
    />
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
