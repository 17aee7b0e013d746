import { Schema } from "effect"
import type { ApiKey } from "../../../domain/identity/ApiKey.ts"
import { apiClient } from "../../state/apiClient.ts"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { FormDialog } from "../../ui/FormDialog.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { useAction } from "../../ui/useAction.ts"
import { useFormDraft } from "../../ui/useFormDraft.ts"
import { KeyEmailField, KeyNameField } from "./KeyFields.tsx"

const Changes = Schema.Struct({
  name: Schema.optionalKey(Schema.String),
  email: Schema.optionalKey(Schema.String)
})

/** A dialog that changes the name of a key and the address of its approval emails. */
export const EditKey = ({
  apiKey,
  keptAs,
  onChanged,
  onClose
}: {
  readonly apiKey: ApiKey
  /** The name of the kept input. */
  readonly keptAs: string
  readonly onChanged: () => void
  readonly onClose: () => void
}) => {
  const draft = useFormDraft(keptAs, Changes, { name: apiKey.name, email: apiKey.email ?? "" })
  const { email, name } = draft.value
  const address = email.trim() === "" ? null : email.trim()
  // Only the members that were changed here: another person may have changed the others meanwhile.
  const change = {
    ...(name.trim() === apiKey.name ? {} : { name: name.trim() }),
    ...(address === apiKey.email ? {} : { email: address })
  }
  const update = useAction(() => apiClient.apiKeys.update({ params: { id: apiKey.id }, payload: change }))
  const submit = async () => {
    const changed = await update.run()
    if (changed === undefined) return
    showToast(
      "email" in change && changed.email_awaits_verification
        ? "API key changed. Its new address awaits verification."
        : "API key changed"
    )
    onChanged()
  }
  return (
    <FormDialog
      title="Edit API key"
      draft={draft}
      submit="Save"
      pending={update.pending}
      disabled={Object.keys(change).length === 0}
      onSubmit={submit}
      onClose={onClose}
    >
      <FailureNotice failure={update.failure} />
      <KeyNameField
        hint="Records of earlier actions keep the name of their time."
        failure={update.failure}
        value={name}
        onChange={(name) => draft.set({ name })}
      />
      <KeyEmailField
        hint="Optional. A new address is unverified until its owner confirms it by a link."
        failure={update.failure}
        value={email}
        onChange={(email) => draft.set({ email })}
      />
      <p className="quiet small">
        Scopes, groups, expiry and networks do not change. Create another key for that.
      </p>
    </FormDialog>
  )
}
