import { useId } from "react"

/** A choice of one of a few values, which are all in sight, each with its text and an explanation. */
export const RadioField = <Value extends string>({
  isLegendHidden = false,
  legend,
  onChange,
  options,
  value
}: {
  readonly legend: string
  /** Whether only screen readers get the legend, because a title says the same. */
  readonly isLegendHidden?: boolean
  readonly options: ReadonlyArray<readonly [value: NoInfer<Value>, text: string, explanation?: string]>
  readonly value: Value | undefined
  readonly onChange: (value: NoInfer<Value>) => void
}) => {
  const name = useId()
  return (
    <fieldset className="field">
      <legend className={isLegendHidden ? "visually-hidden" : "legend"}>{legend}</legend>
      {options.map(([one, text, explanation]) => (
        <label key={one} className="check">
          <input type="radio" name={name} checked={value === one} onChange={() => onChange(one)} />
          {explanation === undefined ? (
            text
          ) : (
            <span>
              <strong>{text}</strong> <span className="quiet">{explanation}</span>
            </span>
          )}
        </label>
      ))}
    </fieldset>
  )
}
