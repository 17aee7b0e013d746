import { useId } from "react"

/**
 * A choice of one of several values, or of none if `none` names that. The label is beside the select, not around it: otherwise its name
 * would contain every option.
 */
export const SelectField = <Value extends string | number>({
  label,
  none,
  onChange,
  options,
  value
}: {
  /** Heard by screen readers; the options speak for themselves. */
  readonly label: string
  readonly options: ReadonlyArray<readonly [value: Value, text: string]>
  readonly value: Value | undefined
  readonly none?: string
  readonly onChange: (value: Value | undefined) => void
}) => {
  const id = useId()
  return (
    <div className="inline-field">
      <label htmlFor={id} className="visually-hidden">
        {label}
      </label>
      <select
        id={id}
        value={value ?? ""}
        onChange={({ target }) => onChange(options.find(([one]) => String(one) === target.value)?.[0])}
      >
        {none === undefined ? null : <option value="">{none}</option>}
        {options.map(([one, text]) => (
          <option key={one} value={one}>
            {text}
          </option>
        ))}
      </select>
    </div>
  )
}
