import { Result, type Schema } from "effect"
import { useState } from "react"
import type { JsonObject } from "../../../domain/tasks/Dataset.ts"
import { Button } from "../../ui/Button.tsx"
import { CommentForm } from "../../ui/CommentForm.tsx"
import type { Verdict } from "./ApprovalDetail.tsx"
import { proposableArguments, ProposalField, readProposal } from "./ProposalField.tsx"

const choices: Record<Verdict, { readonly label: string; readonly kind: "good" | "bad" }> = {
  approve: { label: "Approve", kind: "good" },
  reject: { label: "Reject", kind: "bad" }
}

/**
 * The Approve and Reject buttons; after a choice, a comment field and the final submit. A rejection can propose other arguments. On a phone
 * it sticks to the bottom.
 */
export const DecideForm = ({
  canApprove,
  onSubmit,
  onVerdict,
  pending,
  stepArguments,
  verdict
}: {
  readonly stepArguments: Schema.Json | undefined
  readonly canApprove: boolean
  readonly verdict: Verdict | undefined
  readonly pending: boolean
  readonly onVerdict: (verdict: Verdict | undefined) => void
  readonly onSubmit: (verdict: Verdict, comment: string, proposed: JsonObject | undefined) => Promise<void>
}) => {
  const [comment, setComment] = useState("")
  const [proposalText, setProposalText] = useState<string>()
  if (verdict === undefined) {
    return (
      <div className="decide">
        {canApprove ? (
          <Button kind="good" onClick={() => onVerdict("approve")}>
            Approve <kbd>a</kbd>
          </Button>
        ) : null}
        <Button kind="bad" onClick={() => onVerdict("reject")}>
          Reject <kbd>r</kbd>
        </Button>
      </div>
    )
  }
  const { kind, label } = choices[verdict]
  const original = verdict === "reject" ? proposableArguments(stepArguments) : undefined
  const proposal =
    original === undefined || proposalText === undefined ? undefined : readProposal(proposalText, original)
  return (
    <CommentForm
      label="Comment (optional)"
      action={label}
      kind={kind}
      pending={pending}
      disabled={proposal !== undefined && Result.isFailure(proposal)}
      comment={comment}
      onChange={setComment}
      onBack={() => onVerdict(undefined)}
      onSubmit={(text) =>
        void onSubmit(verdict, text, proposal === undefined ? undefined : Result.getOrUndefined(proposal))
      }
    >
      {original === undefined ? null : (
        <ProposalField original={original} text={proposalText} onChange={setProposalText} />
      )}
    </CommentForm>
  )
}
