/** A group of buttons of which one is selected. */
export const Tabs = <Name extends string>({
  label,
  onSelect,
  options,
  selected
}: {
  readonly label: string
  readonly selected: Name
  readonly onSelect: (name: Name) => void
  readonly options: ReadonlyArray<readonly [Name, string]>
}) => (
  <div className="tabs" role="group" aria-label={label}>
    {options.map(([name, text]) => (
      <button key={name} type="button" aria-pressed={name === selected} onClick={() => onSelect(name)}>
        {text}
      </button>
    ))}
  </div>
)
