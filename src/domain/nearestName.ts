/** Names with a larger edit distance are not misspellings of one another; of a short name, at most a third of its letters. */
const MAX_EDITS = 4
const MAX_EDIT_SHARE = 1 / 3

/** Longer names are not compared: the work grows with the length. */
const MAX_LENGTH = 80

/** Shorter texts are part of too many names. */
const MIN_PART = 3

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

/** Whether `text` abbreviates `name`, as `args` does `arguments`: the same first letter, and all its letters in the same order. */
const isAbbreviation = (text: string, name: string): boolean => {
  let at = 0
  for (const letter of name) if (letter === text[at]) at++
  return at === text.length && name[0] === text[0]
}

/** The words of a name in lower case, in any case convention: `expiresAt` becomes `expires_at`. */
const words = (name: string): string =>
  name
    .replaceAll(/(?<=[a-z0-9])(?=[A-Z])/g, "_")
    .replaceAll(/[- ]/g, "_")
    .toLowerCase()

/**
 * The known name that a misspelt one probably stands for: the nearest within four edits and a third of its length, else one that it is part
 * of, contains or abbreviates. Undefined if there is none.
 */
export const nearestName = <Name extends string>(
  text: string,
  names: ReadonlyArray<Name>
): Name | undefined => {
  if (text.length > MAX_LENGTH) return undefined
  const given = words(text)
  const limit = Math.min(MAX_EDITS, Math.max(1, Math.round(given.length * MAX_EDIT_SHARE)))
  let best: { readonly name: Name; readonly edits: number } | undefined
  for (const name of names) {
    if (Math.abs(name.length - text.length) > MAX_EDITS + 1) continue
    const edits = editDistance(given, words(name))
    if (edits <= limit && (best === undefined || edits < best.edits)) best = { name, edits }
  }
  if (best !== undefined) return best.name
  if (given.length < MIN_PART) return undefined
  return (
    names.find(
      (name) => words(name).includes(given) || (name.length >= MIN_PART && given.includes(words(name)))
    ) ?? names.find((name) => isAbbreviation(given, words(name)))
  )
}
