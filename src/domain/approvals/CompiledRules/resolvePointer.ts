import { JsonPointer, type Schema } from "effect"

/** The segments of a JSON Pointer, unescaped. */
export const pointerSegments = (text: string): ReadonlyArray<string> =>
  text.split("/").slice(1).map(JsonPointer.unescapeToken)

/** A place in arguments that cannot be reached, because a value before it is neither an object nor an array. */
export const UNREACHABLE = Symbol("unreachable")

/** A value; undefined if there is none. */
export type Resolved = Schema.Json | undefined | typeof UNREACHABLE

/** Array index of RFC 6901: no sign, no leading zero. */
const INDEX = /^(?:0|[1-9]\d{0,8})$/

/**
 * The value at a JSON Pointer. Reads own properties only, so `__proto__` and `constructor` are names like any other. An array has indexes
 * and no other members.
 */
export const resolvePointer = (root: Schema.Json | undefined, segments: ReadonlyArray<string>): Resolved => {
  let value = root
  for (const segment of segments) {
    if (value === undefined) return undefined
    if (typeof value !== "object" || value === null) return UNREACHABLE
    if (isArray(value)) {
      if (!INDEX.test(segment)) return UNREACHABLE
      value = value[Number(segment)]
    } else {
      value = Object.hasOwn(value, segment) ? value[segment] : undefined
    }
  }
  return value
}

/** `Array.isArray` does not narrow a readonly array. */
export const isArray = (value: Resolved): value is Schema.JsonArray => Array.isArray(value)
