import type { SelectedRows } from "./useSelection.ts"

/**
 * The keys that select rows, for `useKeyboardShortcuts`: `x` selects the open row, `X` the rows up to it, arrows with Shift move on and
 * select the rows on the way, Escape selects none.
 */
export const selectionShortcuts = <Id>({
  move,
  open,
  selection
}: {
  readonly selection: SelectedRows<Id>
  /** The row that is open or has the focus, if it is listed. */
  readonly open: Id | undefined
  /** Opens the row so many rows below, and returns it. */
  readonly move: (by: number) => Id | undefined
}) => {
  const extend = (by: number) => {
    const next = move(by)
    if (next !== undefined) selection.extendTo(next, open)
  }
  return {
    x: () => {
      if (open !== undefined) selection.toggle(open)
    },
    X: () => {
      if (open !== undefined) selection.extendTo(open)
    },
    "Shift+ArrowDown": () => extend(1),
    "Shift+ArrowUp": () => extend(-1),
    Escape: selection.clear
  }
}
