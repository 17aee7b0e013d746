import { useState } from "react"
import { Field } from "../../ui/Field.tsx"
import { Select } from "../../ui/Select.tsx"
import { WholeNumberInput } from "./WholeNumberInput.tsx"

const units = [
  ["seconds", 1],
  ["minutes", 60],
  ["hours", 3_600],
  ["days", 86_400]
] as const

type Unit = (typeof units)[number][0]

const factorOf = (unit: Unit): number => units.find(([name]) => name === unit)?.[1] ?? 1

/** The largest unit that divides the duration evenly. */
const unitOf = (seconds: number | null): Unit =>
  seconds === null || seconds === 0
    ? "minutes"
    : (units.findLast(([, factor]) => seconds % factor === 0)?.[0] ?? "seconds")

/** The longest duration that the API accepts: 30 days. */
const MAX_SECONDS = 30 * 86_400

/** A duration as a number and a unit. */
export const DurationField = ({
  hint,
  label,
  onChange,
  onClear,
  seconds
}: {
  readonly label: string
  readonly hint?: string
  readonly seconds: number | null
  readonly onChange: (seconds: number) => void
  /** Called when it is emptied. Without it, a duration is required. */
  readonly onClear?: () => void
}) => {
  const [unit, setUnit] = useState(() => unitOf(seconds))
  const factor = factorOf(unit)
  return (
    <Field label={label} {...(hint === undefined ? {} : { hint })}>
      {(field) => (
        <div className="duration">
          <WholeNumberInput
            {...field}
            min={onClear === undefined ? 1 : 0}
            max={Math.floor(MAX_SECONDS / factor)}
            value={seconds === null ? null : Math.round((seconds / factor) * 100) / 100}
            onChange={(number) => onChange(number * factor)}
            onClear={onClear}
          />
          <Select
            aria-label={`${label}, unit`}
            value={unit}
            options={units.map(([name]) => [name, name])}
            onChange={(chosen) => {
              // Choosing another unit keeps the number and so changes the duration.
              if (seconds !== null)
                onChange(Math.min(MAX_SECONDS, Math.round((seconds / factor) * factorOf(chosen))))
              setUnit(chosen)
            }}
          />
        </div>
      )}
    </Field>
  )
}
