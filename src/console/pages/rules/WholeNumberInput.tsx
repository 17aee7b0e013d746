import { type ComponentProps, useState } from "react"

/**
 * An input for a whole number. It shows the text as it is typed, and passes on only numbers from `min` to `max`: the
 * browser reports the rest when the form is submitted.
 */
export const WholeNumberInput = ({
  onChange,
  onClear,
  value,
  ...input
}: Omit<ComponentProps<"input">, "onChange" | "required" | "step" | "type" | "value"> & {
  readonly min: number
  readonly max: number
  /** Null: it is empty. */
  readonly value: number | null
  readonly onChange: (value: number) => void
  /** Called when it is emptied. Without it, a number is required. */
  readonly onClear?: (() => void) | undefined
}) => {
  /** The typed text, which is shown until another value than the one of the typing is given. */
  const [typed, setTyped] = useState<{ readonly text: string; readonly value: number | null }>()
  return (
    <input
      {...input}
      type="number"
      step={1}
      required={onClear === undefined}
      value={typed?.value === value ? typed.text : (value ?? "")}
      onChange={({ target }) => {
        const number = target.value === "" ? null : target.valueAsNumber
        const next = target.validity.valid ? number : value
        setTyped({ text: target.value, value: next })
        if (next === value) return
        if (next === null) onClear?.()
        else onChange(next)
      }}
    />
  )
}
