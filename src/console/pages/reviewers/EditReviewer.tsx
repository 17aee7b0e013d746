import { Schema } from "effect"
import type { Reviewer } from "../../../domain/approvals/Reviewer.ts"
import { Link } from "../../app/router.tsx"
import { apiClient } from "../../state/apiClient.ts"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { FormDialog } from "../../ui/FormDialog.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { useAction } from "../../ui/useAction.ts"
import { useFormDraft } from "../../ui/useFormDraft.ts"
import { LimitsFields } from "./LimitsFields.tsx"
import { fromLimitsDraft, type LimitsDraft, toLimitsDraft } from "./ReviewerDraft.ts"

const Changes = Schema.Struct({
  tools: Schema.optionalKey(Schema.String),
  daily_calls: Schema.optionalKey(Schema.String),
  daily_tokens: Schema.optionalKey(Schema.String)
})

/** The dialog that changes the tools and limits of a reviewer model. */
export const EditReviewer = ({
  keptAs,
  onClose,
  onSaved,
  reviewer
}: {
  readonly reviewer: Reviewer
  /** The name of the kept input. */
  readonly keptAs: string
  readonly onClose: () => void
  readonly onSaved: () => void
}) => {
  const { task_id } = reviewer
  const draft = useFormDraft<LimitsDraft>(keptAs, Changes, toLimitsDraft(reviewer))
  const save = useAction(() =>
    apiClient.reviewers.update({ params: { task_id }, payload: fromLimitsDraft(draft.value) })
  )
  const submit = async () => {
    if ((await save.run()) === undefined) return
    showToast("Reviewer saved")
    onSaved()
  }
  return (
    <FormDialog
      title="Edit reviewer"
      draft={draft}
      submit="Save"
      pending={save.pending}
      onSubmit={submit}
      onClose={onClose}
    >
      <LimitsFields draft={draft.value} failure={save.failure} onChange={draft.set} />
      <p className="quiet">
        Name, instructions and provider belong to the task:{" "}
        <Link to={`/tasks/${task_id}/edit`}>edit its working copy</Link>, compare it and release it. Another
        release has to earn the right again.
      </p>
      <FailureNotice failure={save.failure} fields={["tools", "daily_calls", "daily_tokens"]} />
    </FormDialog>
  )
}
