import { useState } from "react"
import { showToast } from "../Toasts.tsx"
import { deselect, emptySelection, extendTo, type Selection, selectAll, toggle } from "./Selection.ts"

/** The selected rows of a list, and what changes them. */
export interface SelectedRows<Id> {
  readonly ids: ReadonlySet<Id>
  /** Selects a row, or deselects it. */
  readonly toggle: (id: Id) => void
  /** Selects from `start`, by default the row that was selected last, to this one. */
  readonly extendTo: (id: Id, start?: Id) => void
  /** Selects these rows, by default the list's, until the selection is full. */
  readonly selectAll: (list?: ReadonlyArray<Id>) => void
  readonly remove: (ids: Iterable<Id>) => void
  readonly clear: () => void
}

/**
 * Selection of rows for one action. `list`: the rows in their order. Rows that leave the list stay selected until their page removes them.
 * The selection begins empty whenever `scope` changes, such as the filter of the list.
 */
export const useSelection = <Id>({
  list,
  max,
  noun,
  scope = ""
}: {
  readonly list: ReadonlyArray<Id>
  /** The most rows that the action takes. */
  readonly max: number
  /** The noun of the rows, in the plural: `approvals`. */
  readonly noun: string
  readonly scope?: string
}): SelectedRows<Id> => {
  const [selection, setSelection] = useState<Selection<Id>>(emptySelection)
  const [selectedIn, setSelectedIn] = useState(scope)
  if (selectedIn !== scope) {
    setSelectedIn(scope)
    setSelection(emptySelection)
  }
  const announceLimit = () => showToast(`At most ${max} ${noun} can be selected.`)
  const change = (next: Selection<Id>, wanted: Id) => {
    setSelection(next)
    if (next.ids.size >= max && !next.ids.has(wanted) && !selection.ids.has(wanted)) announceLimit()
  }
  return {
    ids: selection.ids,
    toggle: (id) => change(toggle(selection, id, max), id),
    extendTo: (id, start) => change(extendTo(selection, list, id, max, start), id),
    selectAll: (given = list) => {
      const next = selectAll(selection, given, max)
      setSelection(next)
      if (given.some((id) => !next.ids.has(id))) announceLimit()
    },
    remove: (removed) => {
      const gone = new Set(removed)
      setSelection((current) => deselect(current, gone))
    },
    clear: () => setSelection(emptySelection)
  }
}
