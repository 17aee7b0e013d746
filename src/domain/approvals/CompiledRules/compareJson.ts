import type { Schema } from "effect"
import { isArray } from "./resolvePointer.ts"

/** Whether a value is equal to an expected one. `mistyped`: a part has another type than expected, and all others are equal. */
export type Comparison = "equal" | "different" | "mistyped"

/** Counts the members of an object, which can be large. */
export type CountMembers = (value: Schema.JsonObject) => number

export type JsonType = "null" | "boolean" | "number" | "string" | "array" | "object"

export const typeOfJson = (value: Schema.Json): JsonType => {
  switch (typeof value) {
    case "boolean":
      return "boolean"
    case "number":
      return "number"
    case "string":
      return "string"
    default:
      if (value === null) return "null"
      return isArray(value) ? "array" : "object"
  }
}

/**
 * Compares a value with an expected one, whose depth is limited. Values of different types are not simply different: a tool may read
 * `"100"` or `["100"]` as 100. Null is a type of its own; a comparison with an expected null is always possible.
 */
export const compareJson = (
  expected: Schema.Json,
  value: Schema.Json,
  countMembers: CountMembers
): Comparison => {
  if (expected === value) return "equal"
  if (expected === null) return "different"
  if (typeOfJson(expected) !== typeOfJson(value)) return "mistyped"
  if (isArray(expected) && isArray(value)) return compareArrays(expected, value, countMembers)
  if (isObject(expected) && isObject(value)) return compareObjects(expected, value, countMembers)
  return "different"
}

const isObject = (value: Schema.Json): value is Schema.JsonObject =>
  typeof value === "object" && value !== null && !isArray(value)

const compareArrays = (
  expected: Schema.JsonArray,
  value: Schema.JsonArray,
  countMembers: CountMembers
): Comparison => {
  if (expected.length !== value.length) return "different"
  let result: Comparison = "equal"
  for (const [index, item] of expected.entries()) {
    const compared = compareJson(item, value[index] ?? null, countMembers)
    if (compared === "different") return "different"
    if (compared === "mistyped") result = "mistyped"
  }
  return result
}

const compareObjects = (
  expected: Schema.JsonObject,
  value: Schema.JsonObject,
  countMembers: CountMembers
): Comparison => {
  const names = Object.keys(expected)
  let result: Comparison = "equal"
  let found = 0
  for (const name of names) {
    if (!Object.hasOwn(value, name)) {
      result = "mistyped"
      continue
    }
    found += 1
    const compared = compareJson(expected[name] ?? null, value[name] ?? null, countMembers)
    if (compared === "different") return "different"
    if (compared === "mistyped") result = "mistyped"
  }
  return countMembers(value) > found ? "different" : result
}
