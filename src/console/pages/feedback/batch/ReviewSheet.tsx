import { Effect } from "effect"
import { useState } from "react"
import type { FeedbackRow } from "../../../../api/console/FeedbackRows.ts"
import type { ReviewResult, ReviewVerdict } from "../../../../api/ReviewBatch.ts"
import type { FeedbackId } from "../../../../domain/Ids.ts"
import { refreshAfterReviews } from "../../../state/feedback.ts"
import { apiClient } from "../../../state/apiClient.ts"
import { Dialog } from "../../../ui/Dialog.tsx"
import { type ItemResult, ResultList, summarizeResults } from "../../../ui/ResultList.tsx"
import { showToast } from "../../../ui/Toasts.tsx"
import { UntrustedText } from "../../../ui/UntrustedText.tsx"
import { useAction } from "../../../ui/useAction.ts"
import { CorrectionsReview } from "./CorrectionsReview.tsx"
import { RecordName } from "./RecordName.tsx"

/** The corrections of a request, and what became of each. */
interface ReviewedBatch {
  readonly verdict: ReviewVerdict
  readonly records: ReadonlyArray<FeedbackRow>
  readonly results: ReadonlyArray<ReviewResult>
}

const doneTexts: Record<ReviewVerdict, string> = {
  stage: "staged",
  unstage: "made pending again",
  reject: "rejected"
}

/** What became of a correction, in a few words. */
const outcomeText = (verdict: ReviewVerdict, { problem, status }: ReviewResult): string => {
  if (problem === null) return doneTexts[verdict]
  if (problem.code === "NOT_FOUND") return "deleted"
  if (problem.code === "FEEDBACK_NOT_PENDING") return `${status ?? "reviewed"} before`
  return problem.code === "SELF_REVIEW" ? "not permitted" : "over the limit"
}

/** Whether a correction that was not reviewed can be reviewed by another try. */
const staysSelected = ({ problem }: ReviewResult): boolean =>
  problem?.code === "SELF_REVIEW" || problem?.code === "LIMIT_REACHED"

/**
 * A dialog that shows what the selected corrections have in common and where they differ, reviews them together, and then shows what became
 * of each.
 */
export default function ReviewSheet({
  note,
  onClose,
  onNote,
  onRemove,
  selected
}: {
  readonly selected: ReadonlyArray<FeedbackRow>
  /** The note so far. The caller keeps it, so that closing does not lose it. */
  readonly note: string
  readonly onNote: (note: string) => void
  readonly onRemove: (ids: ReadonlyArray<FeedbackId>) => void
  readonly onClose: () => void
}) {
  /** The corrections of the running request: the list may change before its response. */
  const [sent, setSent] = useState<ReadonlyArray<FeedbackRow>>()
  const [reviewed, setReviewed] = useState<ReviewedBatch>()
  const [sentVerdict, setSentVerdict] = useState<ReviewVerdict>("stage")
  const review = useAction((verdict: ReviewVerdict, records: ReadonlyArray<FeedbackRow>) =>
    Effect.tap(reviewMany(verdict, records, note), () => Effect.sync(() => refreshAfterReviews(records)))
  )
  const submit = async (verdict: ReviewVerdict) => {
    setSentVerdict(verdict)
    setSent(selected)
    const response = await review.run(verdict, selected)
    setSent(undefined)
    if (response === undefined) return
    const { results } = response
    setReviewed({ verdict, records: selected, results })
    onRemove(results.filter((result) => !staysSelected(result)).map(({ feedback_id }) => feedback_id))
    onNote("")
  }
  /** Offers to undo a staging once its results have been read: the offer ends after a few seconds. */
  const close = () => {
    if (reviewed?.verdict === "stage") {
      const done = new Set(
        reviewed.results.filter(({ problem }) => problem === null).map(({ feedback_id }) => feedback_id)
      )
      const undoable = reviewed.records.filter(({ id }) => done.has(id))
      if (undoable.length > 0) {
        showToast(countText(undoable.length, "staged"), { label: "Undo", act: () => void undo(undoable) })
      }
    }
    onClose()
  }
  const count = reviewed?.records.length ?? (sent ?? selected).length
  return (
    <Dialog
      open
      title={`${reviewed === undefined ? "Review" : "Results of"} ${count === 1 ? "1 correction" : `${count} corrections`}`}
      className="sheet"
      explicitClose={review.pending}
      onClose={close}
    >
      {reviewed === undefined ? (
        <CorrectionsReview
          records={sent ?? selected}
          note={note}
          pending={review.pending ? sentVerdict : undefined}
          failure={review.failure}
          onNote={onNote}
          onRemove={(id) => onRemove([id])}
          onSubmit={(verdict) => void submit(verdict)}
          onClose={close}
        />
      ) : (
        <ResultList summary={summaryOf(reviewed)} items={itemsOf(reviewed)} onClose={close} />
      )}
    </Dialog>
  )
}

const countText = (count: number, text: string): string =>
  `${count === 1 ? "1 correction" : `${count} corrections`} ${text}`

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
  const response = await Effect.runPromise(Effect.option(reviewMany("unstage", records, "")))
  refreshAfterReviews(records)
  if (response._tag === "None") return showToast("Not undone: the service did not answer. Try again.")
  const { results } = response.value
  const undone = results.filter(({ problem }) => problem === null).length
  showToast(
    undone === results.length
      ? countText(undone, "pending again")
      : `${countText(undone, "pending again")}, ${results.length - undone} not`
  )
}

const summaryOf = ({ results, verdict }: ReviewedBatch): string => {
  const staying = results.filter(staysSelected).length
  const text = summarizeResults(results, (result) => outcomeText(verdict, result))
  return staying === 0 ? text : `${text}. ${staying === 1 ? "It stays" : "They stay"} selected.`
}

const itemsOf = ({ records, results, verdict }: ReviewedBatch): ReadonlyArray<ItemResult> => {
  const byId = new Map(records.map((record) => [record.id, record]))
  return results.map((result) => {
    const record = byId.get(result.feedback_id)
    const { problem } = result
    return {
      id: result.feedback_id,
      name:
        record === undefined ? (
          <span className="id">{result.feedback_id}</span>
        ) : (
          <RecordName record={record} />
        ),
      outcome: (
        <UntrustedText
          text={problem === null ? outcomeText(verdict, result) : `${problem.title}: ${problem.detail}`}
        />
      ),
      tone: problem === null ? "good" : staysSelected(result) ? "bad" : "quiet",
      done: problem === null
    }
  })
}
