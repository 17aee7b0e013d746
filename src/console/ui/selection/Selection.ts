/** The rows of a list that are selected for one action, at most a number of them. */
export interface Selection<Id> {
  readonly ids: ReadonlySet<Id>
  /** The row that was selected last: ranges begin at it. */
  readonly anchor: Id | undefined
}

export const emptySelection: Selection<never> = { ids: new Set(), anchor: undefined }

/** Selects a row, or deselects it. A full selection stays as it is. */
export const toggle = <Id>({ ids }: Selection<Id>, id: Id, max: number): Selection<Id> => {
  if (ids.has(id)) return { ids: new Set([...ids].filter((one) => one !== id)), anchor: id }
  return { ids: ids.size < max ? new Set([...ids, id]) : ids, anchor: id }
}

/**
 * Selects the range of the list from `start`, by default the anchor, to a row, in that direction until the selection is full. If that is
 * not in the list, only the row.
 */
export const extendTo = <Id>(
  { anchor, ids }: Selection<Id>,
  list: ReadonlyArray<Id>,
  id: Id,
  max: number,
  start?: Id
): Selection<Id> => {
  const to = list.indexOf(id)
  if (to < 0) return { ids, anchor }
  const begin = start ?? anchor
  const beginAt = begin === undefined ? -1 : list.indexOf(begin)
  const from = beginAt < 0 ? to : beginAt
  const range = from <= to ? list.slice(from, to + 1) : list.slice(to, from + 1).toReversed()
  return { ids: union(ids, range, max), anchor: list[from] }
}

/** Selects these rows besides the selected ones, in their order until the selection is full. */
export const selectAll = <Id>(
  { anchor, ids }: Selection<Id>,
  list: ReadonlyArray<Id>,
  max: number
): Selection<Id> => ({
  ids: union(ids, list, max),
  anchor
})

/** Deselects rows. */
export const deselect = <Id>({ anchor, ids }: Selection<Id>, removed: ReadonlySet<Id>): Selection<Id> => ({
  ids: new Set([...ids].filter((id) => !removed.has(id))),
  anchor
})

const union = <Id>(ids: ReadonlySet<Id>, added: ReadonlyArray<Id>, max: number): ReadonlySet<Id> =>
  new Set([...new Set([...ids, ...added])].slice(0, max))
