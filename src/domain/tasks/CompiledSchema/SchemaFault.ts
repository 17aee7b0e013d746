import { JsonPointer } from "effect"

/** One invalid place: a JSON Pointer in URI fragment form (RFC 6901, section 6), and a message that never contains a value. */
export interface SchemaFault {
  readonly pointer: string
  readonly detail: string
}

/** Longest pointer, and longest name in a pointer. Beyond them the pointer is that of the closest ancestor within the limits. */
const MAX_POINTER = 1_024
const MAX_NAME = 256

/** Extends the pointer `at` by these names. */
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
