/** Names with a larger edit distance are not misspellings of one another; of a short name, at most a third of its letters. */
const MAX_EDITS = 4
const MAX_EDIT_SHARE = 1 / 3

/** Longer names are not compared: the work grows with the length. */
const MAX_LENGTH = 80

/** The Levenshtein distance of two texts. */
const editDistance = (left: string, right: string): number => {
  let row = Array.from({ length: right.length + 1 }, (_, index) => index)
  for (const [i, letter] of [...left].entries()) {
    const next = [i + 1]
    for (const [j, other] of [...right].entries()) {
      const replaced = (row[j] ?? 0) + (letter === other ? 0 : 1)
      next.push(Math.min(replaced, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1))
    }
    row = next
  }
  return row[right.length] ?? 0
}

/** The known name nearest to a misspelt one, or undefined if none is within four edits and a third of its length. */
export const nearestName = <Name extends string>(
  text: string,
  names: ReadonlyArray<Name>
): Name | undefined => {
  if (text.length > MAX_LENGTH) return undefined
  const limit = Math.min(MAX_EDITS, Math.max(1, Math.floor(text.length * MAX_EDIT_SHARE)))
  let best: { readonly name: Name; readonly edits: number } | undefined
  for (const name of names) {
    const edits = editDistance(text, name)
    if (edits <= limit && (best === undefined || edits < best.edits)) best = { name, edits }
  }
  return best?.name
}
