/** One of a few, side by side. */
export const Tabs = <Name extends string>({
  chosen,
  label,
  onChoose,
  options
}: {
  readonly label: string
  readonly chosen: Name
  readonly onChoose: (name: Name) => void
  readonly options: ReadonlyArray<readonly [Name, string]>
}) => (
  <div className="tabs" role="group" aria-label={label}>
    {options.map(([name, text]) => (
      <button key={name} type="button" aria-pressed={name === chosen} onClick={() => onChoose(name)}>
        {text}
      </button>
    ))}
  </div>
)
