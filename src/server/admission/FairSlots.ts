/** A process's slots for long-lived resources, such as streams, shared fairly by keys, such as organizations. */
export interface FairSlots<Key, A extends object> {
  /** Slots in use. */
  readonly size: () => number
  /** Slots that a key uses. */
  readonly sizeOf: (key: Key) => number
  /** Whether a key can get another slot: one is free, or another key has to give one up. */
  readonly hasSlotFor: (key: Key) => boolean
  /** Takes a slot. If none is free, a holder of the key with the most slots is removed and ended. */
  readonly add: (key: Key, holder: A) => void
  /** Returns a holder's slot, if it still has one. */
  readonly remove: (key: Key, holder: A) => void
}

/**
 * One key may use all `max` slots while others do not need them. When all are in use, a key takes a slot from the key
 * with the most, until both have as many. So two organizations cannot exclude the others.
 */
export const makeFairSlots = <Key, A extends object>(options: {
  readonly max: number
  readonly end: (holder: A) => void
  /** Whether a slot of a key can be revoked. Default: every slot. */
  readonly mayLose?: (key: Key) => boolean
  /** The holder of a key that loses its slot first. Default: the newest. */
  readonly firstToEnd?: (holders: ReadonlyArray<A>) => A | undefined
}): FairSlots<Key, A> => {
  const { end, firstToEnd, max, mayLose } = options
  const holders = new Map<Key, Set<A>>()
  let size = 0

  const sizeOf = (key: Key): number => holders.get(key)?.size ?? 0

  /**
   * The key with the most slots, from which `other` takes one. Undefined if `other` would then have the most: the two
   * would take slots from each other without end.
   */
  const donorFor = (other: Key): Key | undefined => {
    let largest: { readonly key: Key; readonly size: number } | undefined
    for (const [key, { size }] of holders)
      if (size > (largest?.size ?? 0) && mayLose?.(key) !== false) largest = { key, size }
    return largest === undefined || largest.size <= sizeOf(other) + 1 ? undefined : largest.key
  }

  const remove = (key: Key, holder: A): void => {
    const ofKey = holders.get(key)
    if (ofKey === undefined || !ofKey.delete(holder)) return
    size--
    if (ofKey.size === 0) holders.delete(key)
  }

  return {
    size: () => size,
    sizeOf,
    hasSlotFor: (key) => size < max || donorFor(key) !== undefined,
    add: (key, holder) => {
      const from = size < max ? undefined : donorFor(key)
      const ofDonor = from === undefined ? [] : [...(holders.get(from) ?? [])]
      const replaced = firstToEnd?.(ofDonor) ?? ofDonor.at(-1)
      if (from !== undefined && replaced !== undefined) {
        remove(from, replaced)
        end(replaced)
      }
      const ofKey = holders.get(key) ?? new Set()
      holders.set(key, ofKey)
      if (!ofKey.has(holder)) size++
      ofKey.add(holder)
    },
    remove
  }
}
