import { openInNewTab } from "../app/router.tsx"

/**
 * A group of buttons of which one is selected. `hrefOf`: the page of each, which a click with Ctrl or the middle button opens in a new tab of
 * the browser.
 */
export const Tabs = <Name extends string>({
  hrefOf,
  label,
  onSelect,
  options,
  selected
}: {
  readonly label: string
  readonly selected: Name
  readonly onSelect: (name: Name) => void
  readonly hrefOf?: (name: Name) => string
  readonly options: ReadonlyArray<readonly [Name, string]>
}) => (
  <div className="tabs" role="group" aria-label={label}>
    {options.map(([name, text]) => (
      <button
        key={name}
        type="button"
        aria-pressed={name === selected}
        onClick={({ ctrlKey, metaKey }) => {
          if (hrefOf !== undefined && (ctrlKey || metaKey)) openInNewTab(hrefOf(name))
          else onSelect(name)
        }}
        onAuxClick={({ button }) => {
          if (hrefOf !== undefined && button === 1) openInNewTab(hrefOf(name))
        }}
      >
        {text}
      </button>
    ))}
  </div>
)
