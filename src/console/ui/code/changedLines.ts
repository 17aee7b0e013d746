import type { LineChange } from "../../../domain/tasks/diffLines.ts"

/** A line of a changed text, or a number of unchanged lines that are left out. */
export type ChangedLine =
  | { readonly kind: LineChange["op"]; readonly text: string }
  | { readonly kind: "skipped"; readonly count: number }

/** Unchanged lines that are kept next to a change. */
const CONTEXT_LINES = 3

/** The lines of both texts in order. Of unchanged lines, only those next to a change are kept. */
export const changedLines = (changes: ReadonlyArray<LineChange>): ReadonlyArray<ChangedLine> =>
  changes.flatMap(({ op: kind, text }, index): ReadonlyArray<ChangedLine> => {
    const lines = text.split("\n").map((line) => ({ kind, text: line }))
    if (kind !== "same") return lines
    const before = index === 0 ? 0 : CONTEXT_LINES
    const after = index === changes.length - 1 ? 0 : CONTEXT_LINES
    const count = lines.length - before - after
    // A note takes a line itself.
    return count > 1
      ? [...lines.slice(0, before), { kind: "skipped", count }, ...lines.slice(before + count)]
      : lines
  })
