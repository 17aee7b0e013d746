/**
 * Finds a small part of a list that still fails, by delta debugging: removes large pieces first, then smaller ones, down
 * to single items, until no single item can be removed or the time is over.
 */
export const shrink = <A>(
  list: ReadonlyArray<A>,
  fails: (part: ReadonlyArray<A>) => boolean,
  isTimeOver: () => boolean
): ReadonlyArray<A> => {
  let smallest = list
  for (let size = Math.ceil(list.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let removedSome = true; removedSome;) {
      removedSome = false
      for (let from = 0; from < smallest.length;) {
        if (isTimeOver()) return smallest
        const part = [...smallest.slice(0, from), ...smallest.slice(from + size)]
        if (fails(part)) {
          smallest = part
          removedSome = true
        } else from += size
      }
      if (size > 1) break
    }
  }
  return smallest
}
