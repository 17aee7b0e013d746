import type { ReactNode } from "react"
import type { SessionEvent } from "../../../api/SessionStream.ts"
import { describeProgress } from "../../../domain/approvals/Quorum.ts"
import { Link } from "../../app/router.tsx"
import { Badge } from "../../ui/Badge.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { TimeOfDay, Countdown } from "../../ui/Time.tsx"
import { ApprovalStatusBadge } from "../approvals/ApprovalStatusBadge.tsx"
import { verdictOf } from "../approvals/verdictOf.ts"
import { ReviewerLink } from "../reviewers/ReviewerLink.tsx"

/** The events of one step, in order. */
export interface StepHistory {
  readonly step_id: string
  readonly events: ReadonlyArray<SessionEvent>
}

/** One step of a session's timeline. */
export const Step = ({ history }: { readonly history: StepHistory }) => {
  const governed = history.events.findLast((event) => event.type === "step:governed")
  const lastApprovalEvent = history.events.findLast((event) => "approval" in event)
  const outcome = history.events.findLast((event) => event.type === "tool:outcome")
  const approval =
    lastApprovalEvent !== undefined && "approval" in lastApprovalEvent
      ? lastApprovalEvent.approval
      : undefined
  const grantId = governed?.grant_id ?? null
  const tool = governed?.tool ?? approval?.tool ?? outcome?.tool ?? ""
  return (
    <li className="card step">
      <div className="step-head">
        <div>
          <h3 className="tool-name">
            <UntrustedText text={tool} />
          </h3>
          <p className="quiet small">
            <UntrustedText text={history.step_id} />
          </p>
        </div>
        {approval !== undefined ? (
          <ApprovalStatusBadge approval={approval} />
        ) : governed?.decision === "allow" ? (
          <Badge tone="good">Allowed</Badge>
        ) : governed?.decision === "reject" ? (
          <Badge tone="bad">Rejected</Badge>
        ) : null}
      </div>
      {governed === undefined ? null : (
        <p>
          <UntrustedText text={governed.reason} />
        </p>
      )}
      {governed?.decision_source !== "counter_proposal" || governed.approval_id === null ? null : (
        <p>
          <Link to={`/approvals/${governed.approval_id}`}>Rejected approval with the proposal</Link>
        </p>
      )}
      {governed?.reviewer === undefined ? null : (
        <p>
          Decided by the model <ReviewerLink id={governed.reviewer.task_id} />, release{" "}
          <span className="id">{governed.reviewer.release_id}</span>
          {governed.reviewer.reason === "" ? null : (
            <>
              . Its reason: <UntrustedText text={governed.reviewer.reason} />
            </>
          )}
        </p>
      )}
      {grantId === null ? null : (
        <p>
          <Link to={`/grants/${grantId}`}>Standing grant</Link>
        </p>
      )}
      {approval === undefined ? null : (
        <p>
          <Link to={`/approvals/${approval.approval_id}`}>Approval</Link>
          {approval.status === "pending" ? (
            <>
              {" "}
              due in <Countdown from={approval.requested_at} until={approval.expires_at} />
            </>
          ) : approval.decided_by === null ? null : (
            <>
              {" "}
              decided by <UntrustedText text={approval.decided_by.name} />
            </>
          )}
        </p>
      )}
      <ol className="step-events">
        {history.events.map((event) => (
          <li key={event.id}>
            <span>{describeEvent(event)}</span>
            <span className="quiet small">
              <TimeOfDay time={event.occurred_at} />
            </span>
          </li>
        ))}
      </ol>
    </li>
  )
}

const governedTexts = {
  allow: "Step requested: allowed",
  reject: "Step requested: rejected",
  pending: "Step requested: approval required"
} as const

const describeEvent = (event: SessionEvent): ReactNode => {
  switch (event.type) {
    case "step:governed":
      return governedTexts[event.decision]
    case "tool:outcome":
      return event.status === "succeeded" ? (
        "✓ Tool succeeded"
      ) : (
        <>
          ✕ Tool failed{event.error === null ? null : ": "}
          <UntrustedText text={event.error ?? ""} />
        </>
      )
    case "tool:claimed":
      return event.attempt === 1 ? "Claimed for execution" : `Claimed for execution, attempt ${event.attempt}`
    case "tool:unknown":
      return "Claim ended without an outcome: it is unknown whether the step was executed"
    case "tool:retry_allowed":
      return "Another attempt allowed"
    case "approval:requested":
      return "Approval requested"
    case "approval:expiring":
      return "Deadline approaching"
    case "approval:escalated":
      return "Escalated to admins"
    case "approval:vote_recorded": {
      const voter = event.approval.votes?.at(-1)?.voted_by
      return voter === undefined ? (
        "Approved by one of several people"
      ) : (
        <>
          Approved by <UntrustedText text={voter.name} />, {describeProgress(event.approval)}
        </>
      )
    }
    case "approval:message":
      return (
        <>
          {event.message.sender === "agent" ? "Agent" : <UntrustedText text={event.message.sent_by.name} />}:{" "}
          <UntrustedText text={event.message.text} />
        </>
      )
    case "approval:decided":
      return event.approval.decided_by === null ? (
        "Closed without a decision"
      ) : (
        <>
          {verdictOf(event.approval)} by <UntrustedText text={event.approval.decided_by.name} />
          {event.approval.proposal === null ? null : ", proposing other arguments"}
          {event.approval.comment === null || event.approval.comment === "" ? null : (
            <>
              : <UntrustedText text={event.approval.comment} />
            </>
          )}
        </>
      )
    case "session:closed":
      return "Session closed"
  }
}
