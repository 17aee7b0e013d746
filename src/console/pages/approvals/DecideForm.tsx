import { type FormEvent, type KeyboardEvent, useEffect, useRef, useState } from "react"
import { Button } from "../../ui/Button.tsx"
import { Field } from "../../ui/Field.tsx"
import type { Verdict } from "./Detail.tsx"

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
  const input = useRef<HTMLTextAreaElement>(null)
  useEffect(() => {
    if (verdict !== undefined) input.current?.focus()
  }, [verdict])
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
  const submit = (event?: FormEvent) => {
    event?.preventDefault()
    if (!pending) void onSubmit(verdict, comment.trim())
  }
  const pressed = (event: KeyboardEvent) => {
    if (event.key === "Escape") onVerdict(undefined)
    if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) {
      event.preventDefault()
      submit()
    }
  }
  const { kind, label } = words[verdict]
  return (
    <form className="decide open" onSubmit={submit}>
      <Field
        label="Comment, if there is something to say"
        hint="Enter decides, Shift and Enter begins a line, Escape goes back."
      >
        {(field) => (
          <textarea
            {...field}
            ref={input}
            rows={2}
            maxLength={4_000}
            value={comment}
            onChange={(event) => setComment(event.target.value)}
            onKeyDown={pressed}
          />
        )}
      </Field>
      <div className="decide-buttons">
        <Button type="submit" kind={kind} pending={pending}>
          {label}
        </Button>
        <Button onClick={() => onVerdict(undefined)}>Not yet</Button>
      </div>
    </form>
  )
}
