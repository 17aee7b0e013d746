import type { ComparisonResult, Outcome } from "../../../domain/tasks/Comparison.ts"
import { Badge } from "../../ui/Badge.tsx"
import { Button } from "../../ui/Button.tsx"
import { Diff } from "../../ui/Diff.tsx"
import { summarizeJson } from "../../ui/summarizeJson.ts"
import { JsonTree } from "../../ui/JsonTree.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"

/** One example of a comparison, with the answers of both sides. A key without `datasets.read` gets only whether they agree. */
export const ResultCard = ({
  onToggle,
  open,
  result
}: {
  readonly result: ComparisonResult
  readonly open: boolean
  readonly onToggle: () => void
}) => (
  <li className="card padded stack" data-example={result.example_id}>
    <div className="change-head">
      <div className="result-sides">
        <span>
          Candidate <AgreementBadge outcome={result.candidate} />
        </span>
        <span>
          Live <AgreementBadge outcome={result.live} />
        </span>
      </div>
      {result.input === null ? null : (
        <Button small aria-expanded={open} onClick={onToggle}>
          {open ? "Hide details" : "View details"}
        </Button>
      )}
    </div>
    {result.input === null ? null : open ? (
      <>
        <h3>Input</h3>
        <JsonTree label="Input" value={result.input} />
        <h3>Candidate answer</h3>
        <AnswerDiff outcome={result.candidate} result={result} />
        <JudgeVerdict outcome={result.candidate} />
        <h3>Live answer</h3>
        <AnswerDiff outcome={result.live} result={result} />
        <JudgeVerdict outcome={result.live} />
      </>
    ) : (
      <p className="row-class quiet">
        <UntrustedText text={summarizeJson(result.input).join(" · ")} />
      </p>
    )}
  </li>
)

const AgreementBadge = ({ outcome }: { readonly outcome: Outcome }) =>
  outcome.failure !== null ? (
    <Badge tone="bad">Failed</Badge>
  ) : outcome.agrees ? (
    <Badge tone="good">{outcome.verdict === null ? "Agrees" : "Agrees, says the judge"}</Badge>
  ) : (
    <Badge tone="wait">
      Differs in {outcome.disagreeing.length === 1 ? "1 field" : `${outcome.disagreeing.length} fields`}
    </Badge>
  )

const JudgeVerdict = ({ outcome: { verdict } }: { readonly outcome: Outcome }) =>
  verdict === null ? null : (
    <p className="quiet small">
      {verdict.failure === null
        ? `Judge: ${verdict.agrees ? "agrees" : "differs"}. `
        : "The judge has no verdict: "}
      <UntrustedText text={verdict.failure ?? verdict.reason} />
    </p>
  )

const AnswerDiff = ({ outcome, result }: { readonly outcome: Outcome; readonly result: ComparisonResult }) =>
  outcome.answer === null ? (
    <p className="notice bad">
      <UntrustedText text={outcome.failure ?? "No answer"} />
    </p>
  ) : (
    <Diff
      before={result.expected}
      after={outcome.answer}
      beforeTitle="Expected answer"
      afterTitle="Actual answer"
    />
  )
