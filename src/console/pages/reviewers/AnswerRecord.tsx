import type { ReactNode } from "react"
import type { ReviewerAnswerRow } from "../../../api/console/ReviewerAnswers.ts"
import type { ReviewerAnswer } from "../../../domain/approvals/Reviewer.ts"
import { Link } from "../../app/router.tsx"
import { useCan } from "../../state/session.ts"
import { Badge } from "../../ui/Badge.tsx"
import { JsonTree } from "../../ui/JsonTree.tsx"
import { parseStored } from "../../ui/jsonText.ts"
import { AbsoluteTime } from "../../ui/Time.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { answerTexts, bandText } from "./reviewerTexts.ts"

/** An answer of a reviewer model beside the decision of people, with the arguments of the step. */
export const AnswerRecord = ({
  answer,
  children
}: {
  readonly answer: ReviewerAnswerRow
  /** What its user can say about a decision of the model. */
  readonly children?: ReactNode
}) => {
  const { approval_id, band, created_at, mode, session_id, step, step_id, tool } = answer
  const can = useCan()
  return (
    <article className="card padded stack answer-record" aria-label={`${tool}, ${step_id}`}>
      <header className="change-head">
        <h2 className="tool-name">
          <UntrustedText text={tool} />
        </h2>
        <span className="quiet small">
          {band === null ? "" : `Amount ${bandText(band)} · `}
          <AbsoluteTime time={created_at} />
        </span>
      </header>
      {step?.rule_summary === null || step === null ? null : (
        <p>
          <UntrustedText text={step.rule_summary} />
        </p>
      )}
      <div className="side-by-side">
        <section aria-label="People">
          <h3>People</h3>
          {mode === "decided" ? <Reversal answer={answer}>{children}</Reversal> : <Verdict answer={answer} />}
        </section>
        <section aria-label="Reviewer model">
          <h3>Reviewer model</h3>
          <ModelAnswer answer={answer} />
          {mode === "shadow" ? null : (
            <p className="quiet small">
              {mode === "decided"
                ? "Its answer was the decision."
                : "It could have decided; the step went to people as a sample."}
            </p>
          )}
        </section>
      </div>
      {step === null ? (
        <p className="quiet">The step is being deleted.</p>
      ) : step.arguments_too_large ? (
        <p className="quiet">The arguments are too large to show here.</p>
      ) : (
        <JsonTree label={`Arguments of ${step_id}`} value={parseStored(step.arguments_json)} />
      )}
      <p className="small">
        {approval_id === null ? null : (
          <>
            <Link to={`/approvals/${approval_id}`}>Approval</Link> ·{" "}
          </>
        )}
        {can("sessions.read") ? <Link to={`/sessions/${session_id}`}>Session</Link> : null}
      </p>
    </article>
  )
}

/** The answer of a model with its reason. */
export const ModelAnswer = ({ answer: { decision, reason } }: { readonly answer: ReviewerAnswer }) => {
  const [tone, label] = decision === null ? (["quiet", "No answer"] as const) : answerTexts[decision]
  return (
    <>
      <p>
        <Badge tone={tone}>{label}</Badge>
      </p>
      {reason === "" ? null : (
        <blockquote>
          <UntrustedText text={reason} />
        </blockquote>
      )}
    </>
  )
}

const verdicts = { approve: ["good", "Approved"], reject: ["bad", "Rejected"] } as const

/** The decision of the person. */
const Verdict = ({ answer: { step, verdict } }: { readonly answer: ReviewerAnswerRow }) => {
  if (verdict === null || verdict === "none")
    return (
      <p className="quiet">
        Not compared: no person decided, or nobody can have read the request in the time.
      </p>
    )
  const [tone, label] = verdicts[verdict]
  const person = step?.decided_by ?? null
  return (
    <>
      <p>
        <Badge tone={tone}>{label}</Badge>
        {person === null ? null : (
          <>
            {" "}
            by <UntrustedText text={person.name} />
          </>
        )}
      </p>
      {step === null || step.comment === null || step.comment === "" ? null : (
        <blockquote>
          <UntrustedText text={step.comment} />
        </blockquote>
      )}
    </>
  )
}

/** What people say about a decision of the model. */
const Reversal = ({
  answer: { wrong_at, wrong_by },
  children
}: {
  readonly answer: ReviewerAnswerRow
  readonly children: ReactNode
}) =>
  wrong_at === null ? (
    <>
      <p className="quiet">No person decided this step.</p>
      {children}
    </>
  ) : (
    <p>
      <Badge tone="bad">Would have decided otherwise</Badge> by{" "}
      <UntrustedText text={wrong_by?.name ?? "a person"} />, <AbsoluteTime time={wrong_at} />
    </p>
  )
