import { Effect, Exit } from "effect"
import { useMemo } from "react"
import type { FeedbackRow } from "../../../api/console/FeedbackRows.ts"
import type { ReviewResult, ReviewVerdict } from "../../../api/ReviewBatch.ts"
import type { FeedbackId } from "../../../domain/Ids.ts"
import { apiClient } from "../../state/apiClient.ts"
import { refreshAfterReviews } from "../../state/feedback.ts"
import { type BatchAction, type BatchResult, BatchSheet, countOf } from "../../ui/batch/BatchSheet.tsx"
import { compareValues } from "../../ui/batch/compareValues.ts"
import { CountedFact } from "../../ui/batch/Facts.tsx"
import { RecordTable } from "../../ui/batch/RecordTable.tsx"
import type { SelectedRows } from "../../ui/selection/useSelection.ts"
import { notUndoneText } from "../../ui/Failure.ts"
import { summarizeJsonStart } from "../../ui/summarizeJson.ts"
import { showToast } from "../../ui/Toasts.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { judgementText } from "./scoreText.ts"

const nouns = ["correction", "corrections"] as const

const reject: BatchAction<ReviewVerdict> = { verb: "reject", label: "Reject", kind: "bad" }
const pendingActions: ReadonlyArray<BatchAction<ReviewVerdict>> = [
  { verb: "stage", label: "Stage", kind: "good" },
  reject
]
const stagedActions: ReadonlyArray<BatchAction<ReviewVerdict>> = [
  { verb: "unstage", label: "Undo staging of", kind: "plain" },
  reject
]

/** A dialog that compares the selected corrections and reviews them together. */
export default function ReviewSheet({
  note,
  onClose,
  onNote,
  rows,
  selection
}: {
  /** The listed corrections, among them the selected ones. */
  readonly rows: ReadonlyArray<FeedbackRow>
  readonly selection: SelectedRows<FeedbackId>
  readonly note: string
  readonly onNote: (note: string) => void
  readonly onClose: () => void
}) {
  const isStaged = rows.every(({ id, status }) => status === "staged" || !selection.ids.has(id))
  return (
    <BatchSheet
      title="Review"
      nouns={nouns}
      rows={rows}
      idOf={({ id }) => id}
      selection={selection}
      actions={isStaged ? stagedActions : pendingActions}
      comment={{
        label: "Note to the submitters (optional)",
        hint: "Recorded with each correction that you reject.",
        text: note,
        onChange: onNote
      }}
      send={(verdict, records) =>
        Effect.map(reviewMany(verdict, records, note), ({ results }) => {
          refreshAfterReviews(records)
          const sent = new Map(records.map((record) => [record.id, record]))
          return results.map((result) => toBatchResult(verdict, result, sent.get(result.feedback_id)))
        })
      }
      onClose={(verdict, done) => {
        // Once the results have been read: the offer ends after a few seconds.
        if (verdict === "stage" && done.length > 0) {
          showToast(`${countOf(done.length, nouns)} staged`, { label: "Undo", act: () => void undo(done) })
        }
        onClose()
      }}
    >
      {(records) => <ComparedCorrections records={records} selection={selection} onOpen={onClose} />}
    </BatchSheet>
  )
}

/** What corrections have in common and where they differ, by task. */
const ComparedCorrections = ({
  onOpen,
  records,
  selection
}: {
  readonly records: ReadonlyArray<FeedbackRow>
  readonly selection: SelectedRows<FeedbackId>
  readonly onOpen: () => void
}) => {
  const listed = records.map(({ id }) => id).join()
  // A correction never changes, and the list is read again every few seconds.
  // oxlint-disable-next-line react/exhaustive-deps -- `listed` stands for the records
  const tasks = useMemo(() => compareByTask(records), [listed])
  const incomplete = tasks.reduce((sum, { comparison }) => sum + comparison.incomplete.size, 0)
  return (
    <>
      <dl className="facts">
        <CountedFact name="Tasks" values={records.map(({ task_name }) => task_name)} />
        <CountedFact name="Scores" values={records.map(judgementText)} />
        <CountedFact name="Given by" values={records.map(({ created_by }) => created_by.name)} />
      </dl>
      {incomplete === 0 ? null : (
        <p className="notice warn">
          {incomplete === 1 ? "1 correction is" : `${incomplete} corrections are`} too long, or differ in too
          much, to be shown here. Open them one by one to read them.
        </p>
      )}
      {tasks.map(({ comparison, corrected, id, name }) => (
        <section key={id} aria-label={`Corrections of ${name}`}>
          <h3>
            <UntrustedText text={name} /> <span className="quiet">{countOf(corrected.length, nouns)}</span>
          </h3>
          <RecordTable
            label={name}
            noun="Correction"
            whole="The whole answer"
            comparison={comparison}
            selection={selection}
            onOpen={onOpen}
            records={corrected.map((record) => ({
              id: record.id,
              label: inputText(record),
              to: `/feedback/${record.id}`,
              name: <UntrustedText text={inputText(record)} />
            }))}
          />
        </section>
      ))}
    </>
  )
}

const compareByTask = (records: ReadonlyArray<FeedbackRow>) =>
  [...Map.groupBy(records, ({ task_id }) => task_id)].map(([id, corrected]) => ({
    id,
    name: corrected[0]?.task_name ?? id,
    corrected,
    comparison: compareValues(
      corrected.map((record) => ({ id: record.id, value: record.correction ?? undefined }))
    )
  }))

/** The start of the input, which tells a correction from others of its task. */
const inputText = ({ input_start }: FeedbackRow): string =>
  input_start === null ? "large input" : summarizeJsonStart(input_start)

const reviewMany = (verdict: ReviewVerdict, records: ReadonlyArray<FeedbackRow>, note: string) =>
  apiClient.feedback.reviewMany({
    payload: {
      feedback_ids: records.map(({ id }) => id),
      verdict,
      ...(verdict === "reject" ? { note: note.trim() === "" ? null : note.trim() } : {})
    }
  })

/** Makes corrections that were just staged pending again. */
const undo = async (records: ReadonlyArray<FeedbackRow>): Promise<void> => {
  const exit = await Effect.runPromiseExit(reviewMany("unstage", records, ""))
  refreshAfterReviews(records)
  if (Exit.isFailure(exit)) return showToast(notUndoneText(exit.cause))
  const { results } = exit.value
  const undone = results.filter(({ problem }) => problem === null).length
  const text = `${countOf(undone, nouns)} pending again`
  showToast(undone === results.length ? text : `${text}, ${results.length - undone} not`)
}

const doneTexts: Record<ReviewVerdict, string> = {
  stage: "staged",
  unstage: "made pending again",
  reject: "rejected"
}

const toBatchResult = (
  verdict: ReviewVerdict,
  { feedback_id, problem, status }: ReviewResult,
  record: FeedbackRow | undefined
): BatchResult<FeedbackId> => {
  const common = {
    id: feedback_id,
    name:
      record === undefined ? (
        <span className="id">{feedback_id}</span>
      ) : (
        <>
          <UntrustedText text={record.task_name} />{" "}
          <span className="quiet">
            <UntrustedText text={inputText(record)} />
          </span>
        </>
      )
  }
  if (problem === null) {
    const summary = doneTexts[verdict]
    return { ...common, summary, outcome: summary, tone: "good", isDone: true, isSelected: false }
  }
  const isSelected = problem.code === "SELF_REVIEW" || problem.code === "LIMIT_REACHED"
  return {
    ...common,
    summary:
      problem.code === "NOT_FOUND"
        ? "deleted"
        : problem.code === "FEEDBACK_NOT_PENDING"
          ? `${status ?? "reviewed"} before`
          : problem.code === "SELF_REVIEW"
            ? "not permitted"
            : "over the limit",
    outcome: <UntrustedText text={`${problem.title}: ${problem.detail}`} />,
    tone: isSelected ? "bad" : "quiet",
    isDone: false,
    isSelected
  }
}
