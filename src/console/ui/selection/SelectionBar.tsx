import { type ReactNode, useState } from "react"
import { Button } from "../Button.tsx"
import type { SelectedRows } from "./useSelection.ts"

/** The number of selected rows, buttons to select all and none, and the actions on the selected ones. */
export const SelectionBar = <Id,>({
  actions,
  all,
  children,
  count,
  selection
}: {
  readonly selection: SelectedRows<Id>
  /** How many selected rows the actions take, if that is not all of them. */
  readonly count?: number
  /** The rows of the filter; a page that has not loaded them all loads them here, up to the bound. */
  readonly all?: {
    readonly label: string
    readonly load: () => Promise<ReadonlyArray<Id>> | ReadonlyArray<Id>
  }
  /** Buttons that act on the selected rows. */
  readonly actions: ReactNode
  /** Notes beside the number, announced when they change. */
  readonly children?: ReactNode
}) => {
  const [loading, setLoading] = useState(false)
  const { clear, ids, selectAll } = selection
  const isEmpty = ids.size === 0
  const selectEvery = async () => {
    if (all === undefined) return
    setLoading(true)
    const every = await all.load()
    setLoading(false)
    selectAll(every)
  }
  return (
    <div className={isEmpty ? "selection-bar empty-bar" : "selection-bar"}>
      {/* Always rendered: screen readers announce only changes of a region that they know. */}
      <div role="status" className="selection-status">
        {isEmpty ? null : <strong>{(count ?? ids.size).toLocaleString("en")} selected</strong>}
        {children}
      </div>
      {isEmpty ? null : (
        <div className="selection-actions">
          {all === undefined ? null : (
            <Button small pending={loading} onClick={() => void selectEvery()}>
              {all.label}
            </Button>
          )}
          <Button small onClick={clear}>
            Clear <kbd>Esc</kbd>
          </Button>
          {actions}
        </div>
      )}
    </div>
  )
}
