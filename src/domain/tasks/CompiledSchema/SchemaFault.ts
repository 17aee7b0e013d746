import { JsonPointer } from "effect"

/** One place that is at fault: a JSON Pointer in URI fragment form (RFC 6901, 6), and a sentence that never holds a value. */
export interface SchemaFault {
  readonly pointer: string
  readonly detail: string
}

/** Longest pointer that is given, and longest name in one. Past them it is that of the closest ancestor that fits. */
const MAX_POINTER = 1_024
const MAX_NAME = 256

/** The pointer from `at` on through these names. */
export const formatPointer = (at: string, place: ReadonlyArray<string>): string => {
  let pointer = at
  for (const token of place) {
    if (token.length > MAX_NAME) break
    const longer = pointer + JsonPointer.formatUriFragment([token.toWellFormed()]).slice(1)
    if (longer.length > MAX_POINTER) break
    pointer = longer
  }
  return pointer
}
