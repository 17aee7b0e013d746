/** Names further apart than this are no typing errors of one another. */
const MAX_EDITS = 4

/** Longest name that is compared: the work grows with its length. */
const MAX_LENGTH = 80

/** How many letters must be inserted, removed or replaced to make one text of the other (Levenshtein). */
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

/** The known name that a misspelt one was probably meant to be; none where no name is near. */
export const nearestName = <Name extends string>(
  text: string,
  names: ReadonlyArray<Name>
): Name | undefined => {
  if (text.length > MAX_LENGTH) return undefined
  let best: { readonly name: Name; readonly edits: number } | undefined
  for (const name of names) {
    const edits = editDistance(text, name)
    if (edits <= MAX_EDITS && (best === undefined || edits < best.edits)) best = { name, edits }
  }
  return best?.name
}
