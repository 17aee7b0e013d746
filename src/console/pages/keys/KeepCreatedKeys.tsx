import { Checkbox } from "../../ui/Checkbox.tsx"

/** Whether the API keys that a key or person created stay usable after its end. */
export const KeepCreatedKeys = ({
  count,
  isChecked,
  onChange
}: {
  /** How many there are; undefined if that is not known. */
  readonly count?: number
  readonly isChecked: boolean
  readonly onChange: (isChecked: boolean) => void
}) => (
  <Checkbox checked={isChecked} onChange={onChange}>
    {count === undefined
      ? "Keep the API keys that it created"
      : `Keep ${count === 1 ? "the API key" : `the ${count} API keys`} that they created`}
  </Checkbox>
)
