import { type FormEvent, type KeyboardEvent, useEffect, useRef } from "react"
import { Button } from "./Button.tsx"
import { Field } from "./Field.tsx"

/** What a decision is given along, and the decision itself: it takes the focus, so that a few words and Enter are enough. */
export const CommentForm = ({
  action,
  kind,
  label,
  onBack,
  onChange,
  onSubmit,
  pending,
  remark,
  verb
}: {
  readonly label: string
  /** What Enter does, as a verb of the third person. */
  readonly verb: string
  readonly action: string
  readonly kind: "good" | "bad"
  readonly pending: boolean
  /** The words so far: kept by the caller, so that going back loses none. */
  readonly remark: string
  readonly onChange: (remark: string) => void
  readonly onBack: () => void
  readonly onSubmit: (remark: string) => void
}) => {
  const input = useRef<HTMLTextAreaElement>(null)
  useEffect(() => input.current?.focus(), [])
  const submit = (event?: FormEvent) => {
    event?.preventDefault()
    if (!pending) onSubmit(remark.trim())
  }
  const pressed = (event: KeyboardEvent) => {
    if (event.key === "Escape") onBack()
    if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) {
      event.preventDefault()
      submit()
    }
  }
  return (
    <form className="decide open" onSubmit={submit}>
      <Field label={label} hint={`Enter ${verb}, Shift and Enter begins a line, Escape goes back.`}>
        {(field) => (
          <textarea
            {...field}
            ref={input}
            rows={2}
            maxLength={4_000}
            value={remark}
            onChange={(event) => onChange(event.target.value)}
            onKeyDown={pressed}
          />
        )}
      </Field>
      <div className="decide-buttons">
        <Button type="submit" kind={kind} pending={pending}>
          {action}
        </Button>
        <Button onClick={onBack}>Not yet</Button>
      </div>
    </form>
  )
}
