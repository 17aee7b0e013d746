import { type ComponentProps, type ReactNode, useId } from "react"
import { Field } from "./Field.tsx"

/** What a select may choose. Null or undefined stand for no value. */
type Selectable = string | number | null | undefined

/** A choice of one of several values, which are listed with their texts. */
interface Choice<Value extends Selectable> {
  readonly options: ReadonlyArray<readonly [value: NoInfer<Value>, text: string]>
  readonly value: Value
  readonly onChange: (value: NoInfer<Value>) => void
}

/** A select without a label. A value that is not among the options, such as a removed record, is shown too. */
export const Select = <Value extends Selectable>({
  onChange,
  options,
  value,
  ...attributes
}: Choice<Value> & Omit<ComponentProps<"select">, "value" | "onChange">) => (
  <select
    {...attributes}
    value={value ?? ""}
    onChange={({ target }) => {
      const found = options.find(([one]) => String(one ?? "") === target.value)
      if (found !== undefined) onChange(found[0])
    }}
  >
    {options.some(([one]) => one === value) ? null : <option value={value ?? ""}>{value}</option>}
    {options.map(([one, text]) => (
      <option key={String(one)} value={one ?? ""}>
        {text}
      </option>
    ))}
  </select>
)

/** A select of a form, with a label, a hint and an error. */
export const SelectField = <Value extends Selectable>({
  disabled = false,
  error,
  hint,
  label,
  ...choice
}: Choice<Value> & {
  readonly label: ReactNode
  readonly hint?: ReactNode
  readonly error?: string | undefined
  readonly disabled?: boolean
}) => (
  <Field label={label} hint={hint} error={error}>
    {(field) => <Select {...field} {...choice} disabled={disabled} />}
  </Field>
)

/**
 * A select in a line, such as a filter. The label is beside the select, not around it: otherwise its name would contain every option.
 */
export const InlineSelect = <Value extends Selectable>({
  className,
  isLabelHidden = false,
  label,
  ...choice
}: Choice<Value> & {
  readonly label: string
  /** Whether only screen readers get the label, because the options speak for themselves. */
  readonly isLabelHidden?: boolean
  readonly className?: string
}) => {
  const id = useId()
  return (
    <div className="inline-field">
      <label htmlFor={id} className={isLabelHidden ? "visually-hidden" : undefined}>
        {label}
      </label>
      <Select {...choice} id={id} className={className} />
    </div>
  )
}
