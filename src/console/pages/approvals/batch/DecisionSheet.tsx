import { Effect, Schema } from "effect"
import { Atom } from "effect/reactivity"
import { useState } from "react"
import type { InboxApproval } from "../../../../api/Console.ts"
import type { DecisionResult } from "../../../../api/DecisionBatch.ts"
import { type Decision, needsComment } from "../../../../domain/approvals/Approval.ts"
import { describeProgress } from "../../../../domain/approvals/Quorum.ts"
import { ApprovalId } from "../../../../domain/Ids.ts"
import { hasVisibleText } from "../../../../domain/VisibleText.ts"
import { apiClient } from "../../../state/apiClient.ts"
import { consoleClient } from "../../../state/consoleClient.ts"
import { applyApproval, type InboxState } from "../../../state/inbox.ts"
import { AsyncContent } from "../../../ui/AsyncContent.tsx"
import { type BatchAction, type BatchResult, BatchSheet } from "../../../ui/batch/BatchSheet.tsx"
import { UntrustedText } from "../../../ui/UntrustedText.tsx"
import { ApprovalName } from "../ApprovalName.tsx"
import { ClosedReason } from "../ClosedReason.tsx"
import { ComparedApprovals } from "./ComparedApprovals.tsx"
import { EndedApprovals } from "./EndedApprovals.tsx"
import type { SelectedApprovals } from "./useSelectedApprovals.ts"

const isApprovalId = Schema.is(ApprovalId)

/** The compared parts of approvals, by their ids with spaces between them. */
const comparedAtom = Atom.family((ids: string) =>
  Atom.make(consoleClient.inbox.compare({ payload: { approval_ids: ids.split(" ").filter(isApprovalId) } }))
)

const actions: ReadonlyArray<BatchAction<Decision>> = [
  { verb: "approve", label: "Approve", kind: "good", needsReading: true },
  { verb: "reject", label: "Reject", kind: "bad" }
]

/** A dialog that compares the selected approvals and decides them together. Refused ones stay selected. */
export default function DecisionSheet({
  comment,
  inbox,
  onClose,
  onComment,
  selection
}: {
  readonly inbox: InboxState
  readonly selection: SelectedApprovals
  readonly comment: string
  readonly onComment: (comment: string) => void
  readonly onClose: () => void
}) {
  // The compared parts of an approval never change, so they are read once.
  const [opened] = useState(() => selection.pending.map(({ approval_id }) => approval_id).join(" "))
  const atom = comparedAtom(opened)
  const isRequired = (decision: Decision) =>
    selection.pending.some(({ require_comment }) => needsComment(require_comment, decision))
  const lacksComment = !hasVisibleText(comment)
  return (
    <BatchSheet
      title="Decide"
      nouns={["approval", "approvals"]}
      rows={inbox.pending}
      idOf={({ approval_id }) => approval_id}
      selection={selection}
      actions={actions.map((action) => ({ ...action, isDisabled: lacksComment && isRequired(action.verb) }))}
      comment={{
        label: isRequired("approve")
          ? "Comment (required by a rule)"
          : isRequired("reject")
            ? "Comment (required by a rule to reject)"
            : "Comment (optional)",
        hint: "Recorded with each of them.",
        text: comment,
        onChange: onComment
      }}
      send={(decision, approvals) =>
        apiClient.approvals
          .decideMany({
            payload: {
              approval_ids: approvals.map(({ approval_id }) => approval_id),
              decision,
              comment: comment.trim() === "" ? null : comment.trim()
            }
          })
          .pipe(
            Effect.map(({ results }) => {
              for (const { approval } of results) if (approval !== null) applyApproval(approval)
              const sent = new Map(approvals.map((approval) => [approval.approval_id, approval]))
              return results.map((result) => toBatchResult(result, sent.get(result.approval_id)))
            })
          )
      }
      onClose={onClose}
    >
      {(approvals, isSending) => (
        <>
          {isSending || selection.ended.length === 0 ? null : (
            <div role="status" className="notice warn">
              <EndedApprovals ended={selection.ended} />
            </div>
          )}
          <AsyncContent atom={atom}>
            {({ items }) => (
              <ComparedApprovals approvals={approvals} items={items} selection={selection} onOpen={onClose} />
            )}
          </AsyncContent>
        </>
      )}
    </BatchSheet>
  )
}

/**
 * The result of a decision on one approval. It waits: the decision counts, and the quorum needs more. It ended before. Refused: this key may
 * not decide it, and it is still pending.
 */
const toBatchResult = (
  { approval, approval_id, problem }: DecisionResult,
  sent: InboxApproval | undefined
): BatchResult<ApprovalId> => {
  const common = {
    id: approval_id,
    name: sent === undefined ? approval_id : <ApprovalName approval={sent} showsTool />,
    isDone: false,
    isSelected: false
  }
  if (approval !== null) {
    const reason = <ClosedReason approval={approval} />
    if (problem !== null) {
      return { ...common, summary: "ended before", tone: "quiet", outcome: <>Ended before: {reason}</> }
    }
    return approval.status === "pending"
      ? {
          ...common,
          summary: "waiting for others",
          tone: "wait",
          outcome: <UntrustedText text={`Your approval counts: ${describeProgress(approval)}`} />
        }
      : { ...common, summary: "decided", tone: "good", outcome: reason, isDone: true }
  }
  const outcome = <UntrustedText text={problem === null ? "" : `${problem.title}: ${problem.detail}`} />
  if (problem?.code === "NOT_FOUND") return { ...common, summary: "deleted", tone: "quiet", outcome }
  const summary = problem?.code === "COMMENT_REQUIRED" ? "without the required comment" : "not permitted"
  return { ...common, summary, tone: "bad", outcome, isSelected: true }
}
