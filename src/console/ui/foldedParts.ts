/** The parts that a JSON tree collapses at first, and how much of a value that hides. */
import type { Schema } from "effect"

/** Characters of a string that are shown before it is expanded. */
export const SHOWN_CHARACTERS = 600

/** Members of one array or object that are shown before it is expanded. */
export const SHOWN_MEMBERS = 50

/** The most members of one array or object that are shown without a further click: more would block the page. */
export const MAX_UNFOLDED_MEMBERS = 2_000

/** Nesting levels that are expanded initially. */
export const OPEN_LEVELS = 3

/** The number of parts that a tree collapses at first: long texts, deep arrays and objects, and long lists. */
export const countFoldedParts = (value: Schema.Json | undefined, level = 0): number => {
  if (typeof value === "string") return value.length > SHOWN_CHARACTERS ? 1 : 0
  if (typeof value !== "object" || value === null) return 0
  const members: ReadonlyArray<Schema.Json> = Object.values(value)
  if (members.length === 0) return 0
  if (level >= OPEN_LEVELS) return 1
  return members
    .slice(0, SHOWN_MEMBERS)
    .reduce<number>(
      (count, member) => count + countFoldedParts(member, level + 1),
      members.length > SHOWN_MEMBERS ? 1 : 0
    )
}
