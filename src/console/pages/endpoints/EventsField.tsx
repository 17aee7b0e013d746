import { type ApprovalEventType, approvalEventTypes } from "../../../domain/approvals/ApprovalEvent.ts"
import { Checkbox } from "../../ui/Checkbox.tsx"

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
      <Checkbox
        key={type}
        checked={events.includes(type)}
        onChange={(isChecked) =>
          onChange(approvalEventTypes.filter((one) => (one === type ? isChecked : events.includes(one))))
        }
      >
        <code>{type}</code> <span className="quiet">{meanings[type]}</span>
      </Checkbox>
    ))}
    {events.length === 0 ? <p className="field-error">Select at least one event.</p> : null}
  </fieldset>
)
