import { type FormEvent, useState } from "react"
import type { ApprovalEventType } from "../../../domain/approvals/ApprovalEvent.ts"
import type { NotificationEndpoint } from "../../../domain/delivery/NotificationEndpoint.ts"
import { apiClient } from "../../state/apiClient.ts"
import { Button } from "../../ui/Button.tsx"
import { Dialog } from "../../ui/Dialog.tsx"
import { fieldError } from "../../ui/Failure.ts"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { useAction } from "../../ui/useAction.ts"
import { DescriptionField, toDescription } from "./DescriptionField.tsx"
import { EventsField } from "./EventsField.tsx"

/** A dialog that changes the description of an endpoint and which events it receives. */
export const EditEndpoint = ({
  endpoint,
  onClose
}: {
  readonly endpoint: NotificationEndpoint
  readonly onClose: () => void
}) => {
  const [description, setDescription] = useState(endpoint.description ?? "")
  const [events, setEvents] = useState<ReadonlyArray<ApprovalEventType>>(endpoint.events)
  const save = useAction(
    ([first, ...rest]: readonly [ApprovalEventType, ...ReadonlyArray<ApprovalEventType>]) =>
      apiClient.notificationEndpoints.update({
        params: { id: endpoint.id },
        payload: { description: toDescription(description), events: [first, ...rest] }
      })
  )
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    const [first, ...rest] = events
    if (first === undefined) return
    if ((await save.run([first, ...rest])) !== undefined) onClose()
  }
  return (
    <Dialog open title="Edit endpoint" onClose={onClose}>
      <form className="stack" onSubmit={(event) => void submit(event)}>
        <FailureNotice failure={save.failure} fields={["description"]} />
        <DescriptionField
          error={fieldError(save.failure, "description")}
          value={description}
          onChange={setDescription}
        />
        <EventsField events={events} onChange={setEvents} />
        <div className="dialog-actions">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" pending={save.pending} disabled={events.length === 0}>
            Save
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
