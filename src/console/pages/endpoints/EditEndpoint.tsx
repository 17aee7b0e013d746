import { Schema } from "effect"
import { ApprovalEventType } from "../../../domain/approvals/ApprovalEvent.ts"
import type { NotificationEndpoint } from "../../../domain/delivery/NotificationEndpoint.ts"
import { apiClient } from "../../state/apiClient.ts"
import { fieldError } from "../../ui/Failure.ts"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { FormDialog } from "../../ui/FormDialog.tsx"
import { useAction } from "../../ui/useAction.ts"
import { useFormDraft } from "../../ui/useFormDraft.ts"
import { DescriptionField, toDescription } from "./DescriptionField.tsx"
import { EventsField } from "./EventsField.tsx"

const Changes = Schema.Struct({
  description: Schema.optionalKey(Schema.String),
  events: Schema.optionalKey(Schema.Array(ApprovalEventType))
})

/** A dialog that changes the description of an endpoint and which events it receives. */
export const EditEndpoint = ({
  endpoint,
  keptAs,
  onClose
}: {
  readonly endpoint: NotificationEndpoint
  /** The name of the kept input. */
  readonly keptAs: string
  readonly onClose: () => void
}) => {
  const draft = useFormDraft<Required<typeof Changes.Type>>(keptAs, Changes, {
    description: endpoint.description ?? "",
    events: endpoint.events
  })
  const { description, events } = draft.value
  const save = useAction(
    ([first, ...rest]: readonly [ApprovalEventType, ...ReadonlyArray<ApprovalEventType>]) =>
      apiClient.notificationEndpoints.update({
        params: { id: endpoint.id },
        payload: { description: toDescription(description), events: [first, ...rest] }
      })
  )
  const submit = async () => {
    const [first, ...rest] = events
    if (first === undefined) return
    if ((await save.run([first, ...rest])) !== undefined) onClose()
  }
  return (
    <FormDialog
      title="Edit endpoint"
      draft={draft}
      submit="Save"
      pending={save.pending}
      disabled={events.length === 0}
      onSubmit={submit}
      onClose={onClose}
    >
      <FailureNotice failure={save.failure} fields={["description"]} />
      <DescriptionField
        error={fieldError(save.failure, "description")}
        value={description}
        onChange={(description) => draft.set({ description })}
      />
      <EventsField events={events} onChange={(events) => draft.set({ events })} />
    </FormDialog>
  )
}
