import type { FormEvent } from "react"
import { Link, navigate } from "../../app/router.tsx"
import { apiClient } from "../../state/apiClient.ts"
import { useCan } from "../../state/session.ts"
import { useKeptWork } from "../../state/keptWork.ts"
import { refreshReviewers } from "../../state/reviewers.ts"
import { Button } from "../../ui/Button.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { fieldError } from "../../ui/Failure.ts"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { KeptWorkNotice } from "../../ui/KeptWorkNotice.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { TextAreaField, TextField } from "../../ui/TextField.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { useAction } from "../../ui/useAction.ts"
import { ProviderFields } from "../tasks/ProviderFields.tsx"
import { LimitsFields } from "./LimitsFields.tsx"
import {
  newReviewerDraft,
  restoreReviewer,
  type ReviewerDraft,
  toNewReviewer,
  toStoredReviewer
} from "./ReviewerDraft.ts"

const fields = ["name", "instructions", "tools", "amount", "daily_calls", "daily_tokens", "provider"]

/** Creates a reviewer model. */
export default function NewReviewer() {
  return useCan()("rules.write") ? (
    <ReviewerForm />
  ) : (
    <EmptyState title="New reviewer">
      Creating one needs the scope rules.write, which this API key lacks. Ask an admin.
    </EmptyState>
  )
}

const ReviewerForm = () => {
  const kept = useKeptWork<ReviewerDraft>({
    name: "new reviewer",
    base: "",
    initial: () => newReviewerDraft,
    toStored: toStoredReviewer,
    restore: restoreReviewer
  })
  const draft = kept.work
  const set = (change: Partial<ReviewerDraft>) => kept.setWork({ ...draft, ...change })
  const create = useAction(() => apiClient.reviewers.create({ payload: toNewReviewer(draft) }))
  const { failure } = create
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    const reviewer = await create.run()
    if (reviewer === undefined) return
    kept.forget()
    refreshReviewers()
    showToast("Reviewer created: it watches")
    navigate(`/reviewers/${reviewer.task_id}`)
  }
  return (
    <div className="stack">
      <p>
        <Link to="/reviewers">← All reviewers</Link>
      </p>
      <PageHeader title="New reviewer">
        It answers beside people from now on, and decides nothing before a rule lets it.
      </PageHeader>
      {kept.isRestored ? (
        <KeptWorkNotice onDiscard={kept.discard}>
          <p>API keys and headers of the provider are not kept: type them again.</p>
        </KeptWorkNotice>
      ) : null}
      <form className="stack" onSubmit={(event) => void submit(event)}>
        <section className="card padded stack" aria-label="Reviewer">
          <TextField
            label="Name"
            hint="Such as “Small refunds”. People see it beside its decisions."
            error={fieldError(failure, "name")}
            required
            maxLength={200}
            value={draft.name}
            onChange={(name) => set({ name })}
          />
          <LimitsFields draft={draft} failure={failure} onChange={set} />
          <div className="field-pairs">
            <TextField
              label="Amount in the arguments (optional)"
              hint="JSON Pointer to a number, such as /amount. Figures and bounds are told apart by its bands. It cannot change later."
              error={fieldError(failure, "amount")}
              maxLength={200}
              placeholder="/amount"
              spellCheck={false}
              autoCapitalize="off"
              value={draft.pointer}
              onChange={(pointer) => set({ pointer })}
            />
            <TextField
              label="Bounds between the bands"
              hint="1 to 5 numbers, ascending: 100, 1000 makes three bands."
              required={draft.pointer.trim() !== ""}
              disabled={draft.pointer.trim() === ""}
              placeholder="100, 1000"
              inputMode="decimal"
              pattern="[0-9.,; ]+"
              title="Numbers, separated by commas"
              value={draft.bounds}
              onChange={(bounds) => set({ bounds })}
            />
          </div>
          <TextAreaField
            label="Your instructions (optional)"
            hint="Your policy, after the fixed ones that treat all arguments as data. Variables are not allowed."
            error={fieldError(failure, "instructions")}
            rows={4}
            maxLength={90_000}
            value={draft.instructions}
            onChange={(instructions) => set({ instructions })}
          />
        </section>
        <section className="card padded stack" aria-label="Provider">
          <ProviderFields
            provider={draft.provider}
            hasProviderKey={false}
            hasProviderHeaders={false}
            failure={failure}
            onChange={(provider) => set({ provider })}
          />
        </section>
        <FailureNotice failure={failure} fields={fields} />
        <div className="dialog-actions">
          <Link className="button" to="/reviewers" onClick={kept.forget}>
            Cancel
          </Link>
          <Button kind="primary" type="submit" pending={create.pending}>
            Create reviewer
          </Button>
        </div>
      </form>
    </div>
  )
}
