import { useState } from "react"
import { useKeyboardShortcuts } from "../useKeyboardShortcuts.ts"
import type { SelectedRows } from "./useSelection.ts"

/**
 * The keys of a list of records beside the open one: `j`, `k` and the arrows open the next and the previous record. `x` selects the open
 * record, `X` the records up to it, arrows with Shift the records on the way, and Escape selects none. `keys`
 * open the sheet that acts on the selected records together.
 */
export const useReviewList = <Id extends string>({
  focusedId,
  isSelectable = () => true,
  keys,
  list,
  onOpen,
  open,
  selection
}: {
  /** The records in their order; undefined: another list has the keys. */
  readonly list: ReadonlyArray<Id> | undefined
  /** The open record. */
  readonly open: Id | undefined
  /** Finds the open record when a key is pressed, in a list whose focus moves and which opens nothing. */
  readonly focusedId?: () => Id | undefined
  readonly onOpen: (id: Id) => void
  readonly selection: SelectedRows<Id>
  readonly isSelectable?: (id: Id) => boolean
  /** The keys that open the sheet; none while it has nothing to act on. */
  readonly keys: ReadonlyArray<string>
}) => {
  const [isSheetOpen, setSheetOpen] = useState(false)
  const [comment, setComment] = useState("")
  const indexOf = (id: Id | undefined) => (id === undefined || list === undefined ? -1 : list.indexOf(id))
  const index = indexOf(open)
  // After the open record has left the list, the next record moves up to its place.
  const [last, setLast] = useState(0)
  if (index >= 0 && index !== last) setLast(index)
  const openNow = () => (focusedId === undefined ? open : focusedId())

  const move = (by: number): Id | undefined => {
    if (list === undefined || list.length === 0) return undefined
    const from = openNow()
    const at = indexOf(from)
    const to = at >= 0 ? at + by : from === undefined ? 0 : last + Math.min(by, 0)
    const next = list[Math.min(Math.max(to, 0), list.length - 1)]
    if (next !== undefined) onOpen(next)
    return next
  }
  const extend = (by: number) => {
    const from = openNow()
    const next = move(by)
    if (next === undefined || !isSelectable(next)) return
    selection.extendTo(
      next,
      from !== undefined && indexOf(from) >= 0 && isSelectable(from) ? from : undefined
    )
  }
  const onSelectable = (act: (id: Id) => void) => {
    const id = openNow()
    if (id !== undefined && isSelectable(id)) act(id)
  }
  const toggle = () => onSelectable((id) => (indexOf(id) >= 0 ? selection.toggle(id) : undefined))
  const next = () => void move(1)
  const previous = () => void move(-1)
  const openSheet = () => setSheetOpen(true)
  useKeyboardShortcuts({
    ...(list === undefined ? {} : { j: next, k: previous, ArrowDown: next, ArrowUp: previous }),
    "Shift+ArrowDown": () => extend(1),
    "Shift+ArrowUp": () => extend(-1),
    x: toggle,
    X: () => onSelectable((id) => selection.extendTo(id)),
    ...Object.fromEntries(keys.map((key) => [key, openSheet])),
    Escape: selection.ids.size > 0 ? selection.clear : undefined
  })
  return {
    move,
    toggle,
    isSheetOpen,
    openSheet,
    closeSheet: () => setSheetOpen(false),
    /** The comment so far, so that closing the sheet does not lose it. */
    comment,
    setComment
  }
}
