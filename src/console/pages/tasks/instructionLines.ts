import type { ReleaseChanges } from "../../../domain/tasks/ReleaseChanges.ts"

/** A line of changed instructions, or a number of unchanged lines that are left out. */
export type InstructionLine =
  | { readonly kind: "same" | "added" | "removed"; readonly text: string }
  | { readonly kind: "skipped"; readonly count: number }

/** Unchanged lines that are kept next to a change. */
const CONTEXT_LINES = 3

/** The lines of both instructions in order. Of unchanged lines, only those next to a change are kept. */
export const instructionLines = (
  instructions: ReleaseChanges["instructions"]
): ReadonlyArray<InstructionLine> =>
  instructions.flatMap(({ op: kind, text }, index): ReadonlyArray<InstructionLine> => {
    const lines = text.split("\n").map((line) => ({ kind, text: line }))
    if (kind !== "same") return lines
    const before = index === 0 ? 0 : CONTEXT_LINES
    const after = index === instructions.length - 1 ? 0 : CONTEXT_LINES
    const count = lines.length - before - after
    // A note takes a line itself.
    return count > 1
      ? [...lines.slice(0, before), { kind: "skipped", count }, ...lines.slice(before + count)]
      : lines
  })
