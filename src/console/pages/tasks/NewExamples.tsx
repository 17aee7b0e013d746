import { Result } from "effect"
import { type FormEvent, useState } from "react"
import type { Task } from "../../../domain/tasks/Task.ts"
import { refresh } from "../../state/atoms.ts"
import { apiClient } from "../../state/apiClient.ts"
import { datasetsAtom, taskAtom } from "../../state/tasks.ts"
import { Button } from "../../ui/Button.tsx"
import { Dialog } from "../../ui/Dialog.tsx"
import { Field } from "../../ui/Field.tsx"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { useAction } from "../../ui/useAction.ts"
import { exampleError, parseExamples } from "./parseExamples.ts"

/** Examples of right answers make the first version of a task's dataset, or the next one. */
export const NewExamples = ({ onClose, task }: { readonly task: Task; readonly onClose: () => void }) => {
  const [text, setText] = useState("")
  const [fault, setFault] = useState<string>()
  // The base as it was when this was opened: a version that somebody makes meanwhile is said, not written over.
  const [base] = useState(task.dataset_id)
  const create = useAction(
    (examples: Parameters<typeof apiClient.datasets.create>[0]["payload"]["examples"]) =>
      apiClient.datasets.create({
        params: { task_id: task.id },
        payload: { base_dataset_id: base, examples }
      })
  )
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    const read = parseExamples(text)
    setFault(Result.isFailure(read) ? read.failure : undefined)
    if (Result.isFailure(read)) return
    const made = await create.run(read.success)
    // Where somebody else made a version meanwhile, opening this again begins from theirs.
    refresh(taskAtom(task.id))
    refresh(datasetsAtom(task.id))
    if (made === undefined) return
    showToast(`Version ${made.version} is made`)
    onClose()
  }
  const load = async (file: File | undefined) => {
    if (file !== undefined) setText(await file.text())
  }
  return (
    <Dialog open title="Add examples" onClose={onClose}>
      <form className="stack" onSubmit={(event) => void submit(event)}>
        <p className="quiet">
          {base === null
            ? "They become version 1. What is live answers by it from then on."
            : "They and the examples of the newest version become the next one; one with the very same input takes the place of the older. What is live stays."}
        </p>
        <Field
          label="Examples"
          hint={'One a line: {"input": {…}, "answer": {…}}. Or a JSON array of them.'}
          fault={fault ?? exampleError(create.failure)}
        >
          {(field) => (
            <textarea
              {...field}
              className="code"
              rows={10}
              required
              spellCheck={false}
              value={text}
              onChange={({ target }) => setText(target.value)}
            />
          )}
        </Field>
        <Field label="Or from a file">
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
        <div className="dialog-actions">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" pending={create.pending}>
            Make the version
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
