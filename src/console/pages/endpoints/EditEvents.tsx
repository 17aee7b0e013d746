import { useState } from "react"
import type { ApprovalEventType } from "../../../domain/approvals/ApprovalEvent.ts"
import type { NotificationEndpoint } from "../../../domain/delivery/NotificationEndpoint.ts"
import { apiClient } from "../../state/apiClient.ts"
import { Button } from "../../ui/Button.tsx"
import { Dialog } from "../../ui/Dialog.tsx"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { useAction } from "../../ui/useAction.ts"
import { EventsField } from "./EventsField.tsx"

/** A dialog that changes which events an endpoint receives. */
export const EditEvents = ({
  endpoint,
  onClose
}: {
  readonly endpoint: NotificationEndpoint
  readonly onClose: () => void
}) => {
  const [events, setEvents] = useState<ReadonlyArray<ApprovalEventType>>(endpoint.events)
  const save = useAction(
    ([first, ...rest]: readonly [ApprovalEventType, ...ReadonlyArray<ApprovalEventType>]) =>
      apiClient.notification_endpoints.update({
        params: { id: endpoint.id },
        payload: { events: [first, ...rest] }
      })
  )
  const submit = async () => {
    const [first, ...rest] = events
    if (first === undefined) return
    if ((await save.run([first, ...rest])) !== undefined) onClose()
  }
  return (
    <Dialog open title="Edit events" onClose={onClose}>
      <FailureNotice failure={save.failure} />
      <EventsField events={events} onChange={setEvents} />
      <div className="dialog-actions">
        <Button onClick={onClose}>Cancel</Button>
        <Button
          kind="primary"
          pending={save.pending}
          disabled={events.length === 0}
          onClick={() => void submit()}
        >
          Save
        </Button>
      </div>
    </Dialog>
  )
}
