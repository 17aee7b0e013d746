/** A run of lines that both texts have, or only one. */
export interface LineChange {
  readonly op: "same" | "added" | "removed"
  readonly text: string
}

/** Most pairs of differing lines that are compared: some 20 ms. Beyond it, all of them count as replaced. */
const MAX_PAIRS = 1_000_000

/**
 * The difference of two texts by lines: a longest common subsequence. The texts of the changes that are `same` or `removed`, joined by line
 * breaks, are the older text; the `same` and `added` ones the newer one.
 */
export const diffLines = (before: string, after: string): ReadonlyArray<LineChange> => {
  const older = linesOf(before)
  const newer = linesOf(after)
  let start = 0
  while (start < older.length && start < newer.length && older[start] === newer[start]) start++
  let end = 0
  while (
    end < older.length - start &&
    end < newer.length - start &&
    older[older.length - 1 - end] === newer[newer.length - 1 - end]
  )
    end++
  return merged([
    ...ofLines("same", older.slice(0, start)),
    ...diffMiddle(older.slice(start, older.length - end), newer.slice(start, newer.length - end)),
    ...ofLines("same", older.slice(older.length - end))
  ])
}

/** An empty text has no lines. */
const linesOf = (text: string): ReadonlyArray<string> => (text === "" ? [] : text.split("\n"))

const ofLines = (op: LineChange["op"], lines: ReadonlyArray<string>): ReadonlyArray<LineChange> =>
  lines.map((text) => ({ op, text }))

const diffMiddle = (
  older: ReadonlyArray<string>,
  newer: ReadonlyArray<string>
): ReadonlyArray<LineChange> => {
  if (older.length * newer.length > MAX_PAIRS)
    return [...ofLines("removed", older), ...ofLines("added", newer)]
  const width = newer.length + 1
  /** `lengths[i * width + j]`: the longest common subsequence of the lines from `i` and from `j` on. */
  const lengths = new Uint32Array((older.length + 1) * width)
  const lengthAt = (i: number, j: number): number => lengths[i * width + j] ?? 0
  for (let i = older.length - 1; i >= 0; i--) {
    for (let j = newer.length - 1; j >= 0; j--) {
      lengths[i * width + j] =
        older[i] === newer[j] ? lengthAt(i + 1, j + 1) + 1 : Math.max(lengthAt(i + 1, j), lengthAt(i, j + 1))
    }
  }
  const changes: Array<LineChange> = []
  let i = 0
  let j = 0
  while (i < older.length || j < newer.length) {
    const [old, fresh] = [older[i], newer[j]]
    if (old !== undefined && old === fresh) {
      changes.push({ op: "same", text: old })
      i++
      j++
    } else if (old !== undefined && (fresh === undefined || lengthAt(i + 1, j) >= lengthAt(i, j + 1))) {
      changes.push({ op: "removed", text: old })
      i++
    } else {
      changes.push({ op: "added", text: fresh ?? "" })
      j++
    }
  }
  return changes
}

/** Joins neighbours of the same kind. */
const merged = (changes: ReadonlyArray<LineChange>): ReadonlyArray<LineChange> => {
  const groups: Array<{ readonly op: LineChange["op"]; readonly lines: Array<string> }> = []
  for (const { op, text } of changes) {
    const last = groups.at(-1)
    if (last?.op === op) last.lines.push(text)
    else groups.push({ op, lines: [text] })
  }
  return groups.map(({ lines, op }) => ({ op, text: lines.join("\n") }))
}
