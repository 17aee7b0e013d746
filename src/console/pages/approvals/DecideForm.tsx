import { useState } from "react"
import { Button } from "../../ui/Button.tsx"
import { CommentForm } from "../../ui/CommentForm.tsx"
import type { Verdict } from "./ApprovalDetail.tsx"

const choices: Record<Verdict, { readonly label: string; readonly kind: "good" | "bad" }> = {
  approve: { label: "Approve", kind: "good" },
  reject: { label: "Reject", kind: "bad" }
}

/** The Approve and Reject buttons; after a choice, a comment field and the final submit. On a phone it sticks to the bottom. */
export const DecideForm = ({
  canApprove,
  onSubmit,
  onVerdict,
  pending,
  verdict
}: {
  readonly canApprove: boolean
  readonly verdict: Verdict | undefined
  readonly pending: boolean
  readonly onVerdict: (verdict: Verdict | undefined) => void
  readonly onSubmit: (verdict: Verdict, comment: string) => Promise<void>
}) => {
  const [comment, setComment] = useState("")
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
  return (
    <CommentForm
      label="Comment (optional)"
      action={label}
      kind={kind}
      pending={pending}
      comment={comment}
      onChange={setComment}
      onBack={() => onVerdict(undefined)}
      onSubmit={(text) => void onSubmit(verdict, text)}
    />
  )
}
