import { Effect, Schema } from "effect"
import { Atom } from "effect/reactivity"
import { useState } from "react"
import type { DecisionResult } from "../../../../api/DecisionBatch.ts"
import type { ApprovalSnapshot } from "../../../../api/SessionStream.ts"
import { ApprovalId } from "../../../../domain/Ids.ts"
import { apiClient } from "../../../state/apiClient.ts"
import { useAtomValue } from "../../../state/atoms.ts"
import { consoleClient } from "../../../state/consoleClient.ts"
import { applyApproval } from "../../../state/inbox.ts"
import { AsyncContent } from "../../../ui/AsyncContent.tsx"
import { Dialog } from "../../../ui/Dialog.tsx"
import { useAction } from "../../../ui/useAction.ts"
import type { Verdict } from "../ApprovalDetail.tsx"
import { outcomeOf } from "./decisionOutcome.ts"
import { DecisionResults } from "./DecisionResults.tsx"
import { SelectionReview } from "./SelectionReview.tsx"
import type { SelectedApprovals } from "./useSelectedApprovals.ts"

/** The approvals of a request, and what became of each. */
interface DecidedBatch {
  readonly approvals: ReadonlyArray<ApprovalSnapshot>
  readonly results: ReadonlyArray<DecisionResult>
}

const isApprovalId = Schema.is(ApprovalId)

/** The compared parts of approvals, by their ids with spaces between them. */
const comparedAtom = Atom.family((ids: string) =>
  Atom.make(consoleClient.inbox.compare({ payload: { approval_ids: ids.split(" ").filter(isApprovalId) } }))
)

/**
 * A dialog that shows what the selected approvals have in common and where they differ, decides them together, and then shows the result of
 * each. Refused ones stay selected.
 */
export default function DecisionSheet({
  comment,
  onClose,
  onComment,
  selection
}: {
  readonly selection: SelectedApprovals
  /** The comment so far. The caller keeps it, so that closing does not lose it. */
  readonly comment: string
  readonly onComment: (comment: string) => void
  readonly onClose: () => void
}) {
  // The compared parts of an approval never change, so it is not read again when others leave the selection.
  const [opened] = useState(() => selection.pending.map(({ approval_id }) => approval_id).join(" "))
  const atom = comparedAtom(opened)
  const compared = useAtomValue(atom)
  /** The approvals of the running request: its changes may arrive on the stream before its response. */
  const [sent, setSent] = useState<ReadonlyArray<ApprovalSnapshot>>()
  const [decided, setDecided] = useState<DecidedBatch>()
  const decide = useAction((verdict: Verdict, approvals: ReadonlyArray<ApprovalSnapshot>) =>
    apiClient.approvals
      .decideMany({
        payload: {
          approval_ids: approvals.map(({ approval_id }) => approval_id),
          decision: verdict,
          comment: comment.trim() === "" ? null : comment.trim()
        }
      })
      .pipe(
        Effect.tap(({ results }) =>
          Effect.sync(() => {
            for (const { approval } of results) if (approval !== null) applyApproval(approval)
          })
        )
      )
  )
  const submit = async (verdict: Verdict) => {
    const approvals = selection.pending
    setSent(approvals)
    const response = await decide.run(verdict, approvals)
    setSent(undefined)
    if (response === undefined) return
    const { results } = response
    setDecided({ approvals, results })
    selection.remove(
      results.filter((result) => outcomeOf(result) !== "refused").map(({ approval_id }) => approval_id)
    )
    onComment("")
  }
  const count = decided?.approvals.length ?? (sent ?? selection.pending).length
  return (
    <Dialog
      open
      title={`${decided === undefined ? "Decide" : "Results of"} ${count === 1 ? "1 approval" : `${count} approvals`}`}
      className="sheet"
      explicitClose={decide.pending}
      onClose={onClose}
    >
      {decided === undefined ? (
        <AsyncContent result={compared} atom={atom}>
          {({ items }) => (
            <SelectionReview
              approvals={sent ?? selection.pending}
              ended={sent === undefined ? selection.ended : []}
              items={items}
              comment={comment}
              pending={decide.pending}
              failure={decide.failure}
              onComment={onComment}
              onRemove={(id) => selection.remove([id])}
              onSubmit={(verdict) => void submit(verdict)}
              onClose={onClose}
            />
          )}
        </AsyncContent>
      ) : (
        <DecisionResults approvals={decided.approvals} results={decided.results} onClose={onClose} />
      )}
    </Dialog>
  )
}
