import { type ApprovalEventType, approvalEventTypes } from "../../../domain/approvals/ApprovalEvent.ts"

const meanings: Record<ApprovalEventType, string> = {
  "approval.requested": "a step requires approval",
  "approval.expiring": "the deadline is approaching",
  "approval.escalated": "the approval was escalated to admins",
  "approval.vote_recorded": "someone approved, and more approvals are needed",
  "approval.approved": "the step was approved",
  "approval.rejected": "the step was rejected",
  "approval.expired": "the deadline passed without a decision"
}

/** Checkboxes for the events that an endpoint receives. At least one is required. */
export const EventsField = ({
  events,
  onChange
}: {
  readonly events: ReadonlyArray<ApprovalEventType>
  readonly onChange: (events: ReadonlyArray<ApprovalEventType>) => void
}) => (
  <fieldset className="field">
    <legend className="legend">Events</legend>
    {approvalEventTypes.map((type) => (
      <label key={type} className="check">
        <input
          type="checkbox"
          checked={events.includes(type)}
          onChange={({ target }) =>
            onChange(
              approvalEventTypes.filter((one) => (one === type ? target.checked : events.includes(one)))
            )
          }
        />
        <span>
          <code>{type}</code> <span className="quiet">{meanings[type]}</span>
        </span>
      </label>
    ))}
    {events.length === 0 ? <p className="field-error">Select at least one event.</p> : null}
  </fieldset>
)
