import { type FormEvent, type KeyboardEvent, type ReactNode, useEffect, useRef } from "react"
import { Button } from "./Button.tsx"
import { TextAreaField } from "./TextField.tsx"

/** A comment field with a submit button. It takes the focus, so that typing and Enter complete the decision. */
export const CommentForm = ({
  action,
  children,
  disabled = false,
  kind,
  label,
  onBack,
  onChange,
  onSubmit,
  pending,
  required = false,
  comment
}: {
  readonly label: string
  readonly action: string
  /** Further fields, above the comment. */
  readonly children?: ReactNode
  /** Whether a further field has a fault, so that nothing can be submitted. */
  readonly disabled?: boolean
  readonly kind: "good" | "bad"
  readonly pending: boolean
  /** Whether nothing can be submitted without a comment. */
  readonly required?: boolean
  /** The comment so far. The caller keeps it, so that Escape does not lose it. */
  readonly comment: string
  readonly onChange: (comment: string) => void
  readonly onBack: () => void
  readonly onSubmit: (comment: string) => void
}) => {
  const input = useRef<HTMLTextAreaElement>(null)
  useEffect(() => input.current?.focus(), [])
  const submit = (event?: FormEvent) => {
    event?.preventDefault()
    if (!pending && !disabled) onSubmit(comment.trim())
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape") onBack()
    if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) {
      event.preventDefault()
      // The key that opened the form may still be down.
      if (!event.repeat) submit()
    }
  }
  return (
    <form className="decide open" onSubmit={submit}>
      {children}
      <TextAreaField
        label={label}
        hint={`Press Enter to ${action.toLowerCase()}, Shift+Enter for a new line, Escape to cancel.`}
        ref={input}
        aria-required={required}
        rows={2}
        maxLength={4_000}
        readOnly={pending}
        value={comment}
        onChange={onChange}
        onKeyDown={onKeyDown}
      />
      <div className="decide-buttons">
        <Button type="submit" kind={kind} pending={pending} disabled={disabled}>
          {action}
        </Button>
        <Button onClick={onBack}>Cancel</Button>
      </div>
    </form>
  )
}
