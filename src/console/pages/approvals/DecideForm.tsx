import { useState } from "react"
import { Button } from "../../ui/Button.tsx"
import { CommentForm } from "../../ui/CommentForm.tsx"
import type { Verdict } from "./ApprovalDetail.tsx"

const words: Record<Verdict, { readonly label: string; readonly kind: "good" | "bad" }> = {
  approve: { label: "Approve", kind: "good" },
  reject: { label: "Reject", kind: "bad" }
}

/** The two buttons; then, for the one that was chosen, a comment and the decision. It stays in reach of a thumb. */
export const DecideForm = ({
  onSubmit,
  onVerdict,
  pending,
  verdict
}: {
  readonly verdict: Verdict | undefined
  readonly pending: boolean
  readonly onVerdict: (verdict: Verdict | undefined) => void
  readonly onSubmit: (verdict: Verdict, comment: string) => Promise<void>
}) => {
  const [comment, setComment] = useState("")
  if (verdict === undefined) {
    return (
      <div className="decide">
        <Button kind="good" onClick={() => onVerdict("approve")}>
          Approve <kbd>a</kbd>
        </Button>
        <Button kind="bad" onClick={() => onVerdict("reject")}>
          Reject <kbd>r</kbd>
        </Button>
      </div>
    )
  }
  const { kind, label } = words[verdict]
  return (
    <CommentForm
      label="Comment, if there is something to say"
      verb="decides"
      action={label}
      kind={kind}
      pending={pending}
      remark={comment}
      onChange={setComment}
      onBack={() => onVerdict(undefined)}
      onSubmit={(said) => void onSubmit(verdict, said)}
    />
  )
}
