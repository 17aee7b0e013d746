/** A field for a day. `onChange` gets undefined when it is cleared. */
export const DayField = ({
  day,
  label,
  onChange
}: {
  readonly label: string
  /** `2026-01-31`. */
  readonly day: string | undefined
  readonly onChange: (day: string | undefined) => void
}) => (
  <label className="inline-field">
    <span>{label}</span>
    <input
      type="date"
      value={day ?? ""}
      onChange={({ target }) => onChange(target.value === "" ? undefined : target.value)}
    />
  </label>
)
