import type { ReactNode } from "react"
import type { SessionEvent } from "../../../api/SessionStream.ts"
import { Link } from "../../app/router.tsx"
import { Badge } from "../../ui/Badge.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { TimeOfDay, Countdown } from "../../ui/Time.tsx"
import { ApprovalStatusBadge } from "../approvals/ApprovalStatusBadge.tsx"

/** What happened to one step, in order. */
export interface StepHistory {
  readonly step_id: string
  readonly events: ReadonlyArray<SessionEvent>
}

/** One step of a session's timeline. */
export const Step = ({ story }: { readonly story: StepHistory }) => {
  const governed = story.events.findLast((event) => event.type === "step:governed")
  const told = story.events.findLast((event) => "approval" in event)
  const done = story.events.findLast((event) => event.type === "tool:outcome")
  const approval = told !== undefined && "approval" in told ? told.approval : undefined
  const tool = governed?.tool ?? approval?.tool ?? done?.tool ?? ""
  return (
    <li className="card step">
      <div className="step-head">
        <div>
          <h3 className="tool-name">
            <UntrustedText text={tool} />
          </h3>
          <p className="quiet small">
            <UntrustedText text={story.step_id} />
          </p>
        </div>
        {approval !== undefined ? (
          <ApprovalStatusBadge approval={approval} />
        ) : governed?.decision === "allow" ? (
          <Badge tone="good">allowed</Badge>
        ) : governed?.decision === "reject" ? (
          <Badge tone="bad">rejected</Badge>
        ) : null}
      </div>
      {governed === undefined ? null : (
        <p>
          <UntrustedText text={governed.reason} />
        </p>
      )}
      {approval === undefined ? null : (
        <p>
          <Link to={`/approvals/${approval.approval_id}`}>The approval</Link>
          {approval.status === "pending" ? (
            <>
              {" "}
              closes in <Countdown from={approval.requested_at} until={approval.expires_at} />
            </>
          ) : approval.decided_by === null ? null : (
            <>
              {" "}
              was decided by <UntrustedText text={approval.decided_by.name} />
            </>
          )}
        </p>
      )}
      <ol className="step-events">
        {story.events.map((event) => (
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

const askedFor = {
  allow: "asked for, and allowed",
  reject: "asked for, and rejected",
  pending: "asked for; a person decides"
} as const

const describeEvent = (event: SessionEvent): ReactNode => {
  switch (event.type) {
    case "step:governed":
      return askedFor[event.decision]
    case "tool:outcome":
      return event.status === "succeeded" ? (
        "✓ the tool succeeded"
      ) : (
        <>
          ✕ the tool failed{event.error === null ? null : ": "}
          <UntrustedText text={event.error ?? ""} />
        </>
      )
    case "approval:requested":
      return "an approval was requested"
    case "approval:expiring":
      return "the deadline is near"
    case "approval:escalated":
      return "it went to the admins"
    case "approval:decided":
      return event.approval.decided_by === null ? (
        "it closed without a person"
      ) : (
        <>
          {event.approval.status} by <UntrustedText text={event.approval.decided_by.name} />
          {event.approval.comment === null || event.approval.comment === "" ? null : (
            <>
              : <UntrustedText text={event.approval.comment} />
            </>
          )}
        </>
      )
    case "session:closed":
      return "the session was closed"
  }
}
