import { calendarDay, isUtcDay } from "../state/queryState.ts"

/** A field for a day. `onChange` gets undefined when it is cleared. */
export const DayField = ({
  day,
  label,
  onChange
}: {
  readonly label: string
  /** `2026-01-31`, or `2026-01-31Z` for a day in UTC. */
  readonly day: string | undefined
  readonly onChange: (day: string | undefined) => void
}) => (
  <label className="inline-field">
    <span>
      {label}
      {day !== undefined && isUtcDay(day) ? " (UTC)" : ""}
    </span>
    <input
      type="date"
      value={day === undefined ? "" : calendarDay(day)}
      onChange={({ target }) => onChange(target.value === "" ? undefined : target.value)}
    />
  </label>
)
