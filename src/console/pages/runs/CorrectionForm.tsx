import { Effect, Exit, Result, type Schema } from "effect"
import { useRef, useState } from "react"
import { v4 } from "uuid"
import type { JsonObject } from "../../../domain/tasks/Dataset.ts"
import type { FeedbackRecord } from "../../../domain/tasks/Feedback.ts"
import type { RunRecord } from "../../../domain/tasks/Run.ts"
import { Link } from "../../app/router.tsx"
import { apiClient } from "../../state/apiClient.ts"
import { refreshAfterReview, refreshAfterReviews } from "../../state/feedback.ts"
import { useKeptWork } from "../../state/keptWork.ts"
import { refreshAfterRunReview } from "../../state/runs.ts"
import { useCan } from "../../state/session.ts"
import { Button } from "../../ui/Button.tsx"
import { Diff, jsonEquals } from "../../ui/Diff.tsx"
import { type Failure, failureOfAction, notUndoneText } from "../../ui/Failure.ts"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { KeptWorkNotice } from "../../ui/KeptWorkNotice.tsx"
import { TextAreaField } from "../../ui/TextField.tsx"
import { SchemaForm } from "../../ui/schemaForm/SchemaForm.tsx"
import {
  type DraftFault,
  emptyDraft,
  fromDraft,
  isValueDraft,
  toDraft,
  type ValueDraft
} from "../../ui/schemaForm/ValueDraft.ts"
import { showToast } from "../../ui/Toasts.tsx"

interface CorrectionWork {
  readonly draft: ValueDraft
  readonly comment: string
}

/** Where the correction is in the request, as the service names places. */
const PATH = ["correction"]

const isObject = (value: Schema.Json): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const restoreWork = (stored: unknown): CorrectionWork | undefined => {
  if (typeof stored !== "object" || stored === null || !("draft" in stored) || !("comment" in stored)) {
    return undefined
  }
  const { comment, draft } = stored
  return isValueDraft(draft) && typeof comment === "string" ? { draft, comment } : undefined
}

/** The name under which an unsaved correction of a run is kept. */
export const correctionWorkName = (run: Pick<RunRecord, "trace_id">): string => `correction ${run.trace_id}`

/** The correction that was sent, and how far it came. */
interface SentCorrection {
  readonly record: FeedbackRecord
  /** Whether it is staged. If so, the correction that it replaces is not rejected. */
  readonly isStaged: boolean
  /** Why the last step failed. */
  readonly failure: Failure | undefined
}

/** A correction that waits for review, and its value. */
export interface ReplacedCorrection {
  readonly record: Pick<FeedbackRecord, "id" | "task_id">
  readonly correction: JsonObject
}

/** A form that corrects the answer of a run. `schema`: of the answers of its task; undefined: the correction is typed as JSON. */
export const CorrectionForm = ({
  onClose,
  replaces,
  run,
  schema
}: {
  readonly run: RunRecord
  /** The correction that the form begins with, and that is rejected once the new one is staged. */
  readonly replaces?: ReplacedCorrection
  readonly schema: Schema.Json | undefined
  readonly onClose: () => void
}) => {
  const can = useCan()
  const draftOf = (value: Schema.Json): ValueDraft =>
    schema === undefined
      ? { kind: "json", text: JSON.stringify(value, null, 2) }
      : toDraft(schema, schema, value)
  const before = replaces?.correction ?? run.answer
  const initial = (): CorrectionWork => ({
    draft: before === null && schema !== undefined ? emptyDraft(schema, schema) : draftOf(before ?? {}),
    comment: ""
  })
  const kept = useKeptWork<CorrectionWork>({
    name: replaces === undefined ? correctionWorkName(run) : `fix ${replaces.record.id}`,
    base: "",
    initial,
    toStored: (work) => (JSON.stringify(work) === JSON.stringify(initial()) ? undefined : work),
    restore: restoreWork
  })
  const { comment, draft } = kept.work
  const [faults, setFaults] = useState<ReadonlyArray<DraftFault>>([])
  const [failure, setFailure] = useState<Failure>()
  const [sent, setSent] = useState<SentCorrection>()
  const [pending, setPending] = useState<"save" | "stage">()
  const keyOf = useIdempotencyKey()
  const value = fromDraft(draft, PATH)
  const isSame = Result.isSuccess(value) && before !== null && jsonEquals(value.success, before)
  const setDraft = (next: ValueDraft) => kept.setWork({ draft: next, comment })

  const stage = async (record: FeedbackRecord) => {
    const exit = await Effect.runPromiseExit(apiClient.feedback.stage({ params: { id: record.id } }))
    const staged = Exit.isSuccess(exit) ? exit.value : record
    refreshAfterReview(staged)
    refreshAfterRunReview(run.task_id, run.trace_id)
    if (Exit.isFailure(exit)) {
      setSent({ record, isStaged: false, failure: failureOfAction(exit.cause) })
      return
    }
    if (replaces !== undefined) {
      await rejectReplaced(staged, replaces)
      return
    }
    showToast("Correction saved and staged", {
      label: "Undo",
      act: () => void takeBack(run, staged)
    })
    onClose()
  }

  const rejectReplaced = async (record: FeedbackRecord, { record: other }: ReplacedCorrection) => {
    const exit = await Effect.runPromiseExit(
      apiClient.feedback.reject({ params: { id: other.id }, payload: { note: `Replaced by ${record.id}` } })
    )
    refreshAfterReviews([other])
    refreshAfterRunReview(run.task_id, run.trace_id)
    if (Exit.isFailure(exit)) {
      setSent({ record, isStaged: true, failure: failureOfAction(exit.cause) })
      return
    }
    showToast("Correction staged; the one that it replaces is rejected")
    onClose()
  }

  const submit = async (stages: boolean) => {
    if (pending !== undefined) return
    setFailure(undefined)
    if (Result.isFailure(value)) {
      setFaults(value.failure)
      return
    }
    const correction = value.success
    if (!isObject(correction)) {
      setFaults([{ pointer: "#/correction", detail: "Must be a JSON object: { … }" }])
      return
    }
    setFaults([])
    setPending(stages ? "stage" : "save")
    const payload = {
      inference_log_id: run.trace_id,
      score: -1 as const,
      correction,
      ...(comment.trim() === "" ? {} : { comment: comment.trim() })
    }
    const exit = await Effect.runPromiseExit(
      apiClient.feedback.create({ headers: { "idempotency-key": keyOf(JSON.stringify(payload)) }, payload })
    )
    if (Exit.isFailure(exit)) {
      const found = failureOfAction(exit.cause)
      setPending(undefined)
      setFaults(found?.errors ?? [])
      setFailure(found)
      return
    }
    kept.forget()
    refreshAfterReview(exit.value)
    refreshAfterRunReview(run.task_id, run.trace_id)
    if (stages) await stage(exit.value)
    else {
      showToast("Correction saved", { label: "Undo", act: () => void takeBack(run, exit.value) })
      onClose()
    }
    setPending(undefined)
  }

  if (sent !== undefined) {
    return (
      <div className="stack" role="status">
        <ol className="step-outcomes">
          <li>
            ✓ The correction is saved: <Link to={`/feedback/${sent.record.id}`}>View it</Link>
          </li>
          {sent.isStaged ? (
            <>
              <li>✓ It is staged.</li>
              <li>✕ The correction that it replaces is not rejected.</li>
            </>
          ) : (
            <li>✕ It is not staged.</li>
          )}
        </ol>
        <FailureNotice failure={sent.failure} />
        <div className="dialog-actions">
          <Button onClick={onClose}>{sent.isStaged ? "Close" : "Leave it for a reviewer"}</Button>
          <Button
            kind="primary"
            pending={pending === "stage"}
            onClick={() => {
              setPending("stage")
              const next =
                sent.isStaged && replaces !== undefined
                  ? rejectReplaced(sent.record, replaces)
                  : stage(sent.record)
              void next.finally(() => setPending(undefined))
            }}
          >
            {sent.isStaged ? "Reject again" : "Stage again"}
          </Button>
        </div>
      </div>
    )
  }
  const isJson = draft.kind === "json"
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault()
        void submit(replaces !== undefined)
      }}
    >
      {kept.isRestored ? <KeptWorkNotice onDiscard={kept.discard} /> : null}
      <div className="change-head">
        <p className="hint">Secrets are redacted before it is stored.</p>
        {schema === undefined ? null : (
          <Button
            small
            kind="bare"
            onClick={() => {
              if (Result.isFailure(value)) {
                setFaults(value.failure)
                return
              }
              setFaults([])
              setDraft(
                isJson
                  ? draftOf(value.success)
                  : { kind: "json", text: JSON.stringify(value.success, null, 2) }
              )
            }}
          >
            {isJson ? "Edit in a form" : "Edit as JSON"}
          </Button>
        )}
      </div>
      <SchemaForm
        root={schema ?? {}}
        draft={draft}
        onChange={setDraft}
        faults={faults}
        path={PATH}
        label="Right answer"
      />
      <TextAreaField
        label="Comment (optional)"
        rows={2}
        maxLength={4_000}
        value={comment}
        onChange={(comment) => kept.setWork({ draft, comment })}
      />
      {Result.isSuccess(value) && isObject(value.success) ? (
        <section aria-label="Changes">
          <h3>Changes</h3>
          {isSame ? (
            <p className="quiet">
              None yet: the correction equals{" "}
              {replaces === undefined ? "the answer" : "the one that it replaces"}.
            </p>
          ) : (
            <Diff before={run.answer} after={value.success} beforeTitle="Answer" afterTitle="Correction" />
          )}
        </section>
      ) : null}
      <FailureNotice failure={failure} fields={["correction"]} />
      <div className="dialog-actions">
        <Button onClick={onClose}>Cancel</Button>
        {replaces === undefined ? (
          <Button
            type="submit"
            {...(can("feedback.write") ? {} : { kind: "primary" })}
            pending={pending === "save"}
            disabled={isSame || pending === "stage"}
          >
            Save correction
          </Button>
        ) : null}
        {can("feedback.write") ? (
          <Button
            kind="primary"
            pending={pending === "stage"}
            disabled={isSame || pending === "save"}
            onClick={() => void submit(true)}
          >
            Fix and stage
          </Button>
        ) : null}
      </div>
    </form>
  )
}

/** A key per content: sending the same again, after an answer was lost, saves it once. */
const useIdempotencyKey = (): ((content: string) => string) => {
  const last = useRef({ content: "", key: "" })
  return (content) => {
    if (last.current.content !== content) last.current = { content, key: v4() }
    return last.current.key
  }
}

/** Takes a correction back that was just saved. There is no way to delete one without the right to delete data, so it is rejected. */
const takeBack = async (run: RunRecord, record: FeedbackRecord): Promise<void> => {
  const exit = await Effect.runPromiseExit(
    apiClient.feedback.reject({ params: { id: record.id }, payload: { note: "Taken back by its author" } })
  )
  refreshAfterReview({
    task_id: run.task_id,
    status: Exit.isSuccess(exit) ? exit.value.status : record.status
  })
  refreshAfterReview(record)
  refreshAfterRunReview(run.task_id, run.trace_id)
  showToast(Exit.isSuccess(exit) ? "Correction taken back: it is rejected" : notUndoneText(exit.cause))
}
