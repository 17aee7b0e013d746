import { useId } from "react"

/** A choice of one value or any. Its label is beside it, so that its name does not contain every option. */
export const Choice = ({
  label,
  onChoose,
  options,
  value
}: {
  readonly label: string
  readonly value: string | undefined
  readonly options: ReadonlyArray<readonly [value: string, text: string]>
  readonly onChoose: (value: string | undefined) => void
}) => {
  const id = useId()
  return (
    <div className="inline-field">
      <span id={id}>{label}</span>
      <select
        aria-labelledby={id}
        value={value ?? ""}
        onChange={({ target }) => onChoose(target.value === "" ? undefined : target.value)}
      >
        <option value="">any</option>
        {options.map(([name, text]) => (
          <option key={name} value={name}>
            {text}
          </option>
        ))}
      </select>
    </div>
  )
}
