import { Result, Schema } from "effect"
import { useState } from "react"
import type { TaskId } from "../../../domain/Ids.ts"
import type { Task } from "../../../domain/tasks/Task.ts"
import { refresh } from "../../state/atoms.ts"
import { apiClient } from "../../state/apiClient.ts"
import { datasetsAtom, taskAtom } from "../../state/tasks.ts"
import { Field } from "../../ui/Field.tsx"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { FormDialog } from "../../ui/FormDialog.tsx"
import { TextAreaField } from "../../ui/TextField.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { useAction } from "../../ui/useAction.ts"
import { useFormDraft } from "../../ui/useFormDraft.ts"
import { exampleError, type ParsedExample, parseExamples } from "./parseExamples.ts"

const Changes = Schema.Struct({ text: Schema.optionalKey(Schema.String) })

/** The name of the dialog's kept input. */
export const newExamplesOf = (task: TaskId): string => `examples ${task}`

/** A dialog that creates the next version of a task's dataset, or the first, from pasted or uploaded examples. */
export const NewExamples = ({ onClose, task }: { readonly task: Task; readonly onClose: () => void }) => {
  const draft = useFormDraft(newExamplesOf(task.id), Changes, { text: "" })
  const { text } = draft.value
  const [parseError, setParseError] = useState<string>()
  // The newest version as of opening the dialog: a version created in the meantime causes a conflict instead of being overwritten.
  const [base] = useState(task.dataset_id)
  const create = useAction((examples: ReadonlyArray<ParsedExample>) =>
    apiClient.datasets.create({
      params: { id: task.id },
      payload: { base_dataset_id: base, examples }
    })
  )
  const submit = async () => {
    const parsed = parseExamples(text)
    setParseError(Result.isFailure(parsed) ? parsed.failure : undefined)
    if (Result.isFailure(parsed)) return
    const created = await create.run(parsed.success)
    // After a conflict, the reopened dialog starts from the newer version.
    refresh(taskAtom(task.id))
    refresh(datasetsAtom(task.id))
    if (created === undefined) return
    showToast(`Version ${created.version} created`)
    onClose()
  }
  const load = async (file: File | undefined) => {
    if (file !== undefined) draft.set({ text: await file.text() })
  }
  return (
    <FormDialog
      title="Add examples"
      draft={draft}
      submit="Create version"
      pending={create.pending}
      onSubmit={submit}
      onClose={onClose}
    >
      <p className="quiet">
        {base === null
          ? "Creates version 1. The live release uses it from then on."
          : "Adds these examples to the newest version. An example with an identical input replaces the older one. " +
            "The live release does not change."}
      </p>
      <TextAreaField
        label="Examples"
        hint={'One JSON object per line, {"input": {…}, "answer": {…}}, or a JSON array of them.'}
        error={parseError ?? exampleError(create.failure)}
        className="code"
        rows={10}
        required
        spellCheck={false}
        value={text}
        onChange={(text) => draft.set({ text })}
      />
      <Field label="Or upload a file">
        {(field) => (
          <input
            {...field}
            type="file"
            accept=".json,.jsonl,.ndjson,application/json"
            onChange={({ target }) => void load(target.files?.[0])}
          />
        )}
      </Field>
      <FailureNotice failure={exampleError(create.failure) === undefined ? create.failure : undefined} />
    </FormDialog>
  )
}
