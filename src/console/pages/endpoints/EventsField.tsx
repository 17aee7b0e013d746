import { type ApprovalEventType, approvalEventTypes } from "../../../domain/approvals/ApprovalEvent.ts"

const meanings: Record<ApprovalEventType, string> = {
  "approval.requested": "a step waits for a person",
  "approval.expiring": "the deadline is near",
  "approval.escalated": "the admins decide now",
  "approval.approved": "a person approved",
  "approval.rejected": "a person rejected",
  "approval.expired": "nobody decided in time"
}

/** Which events are sent: at least one. */
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
    {events.length === 0 ? <p className="fault">Choose at least one</p> : null}
  </fieldset>
)
