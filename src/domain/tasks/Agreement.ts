import type { Schema } from "effect"
import type { JsonObject } from "./Dataset.ts"

/**
 * Numbers agree if they differ by at most this share of the larger one, or by this absolute amount near zero, because a fraction can be the
 * result of a calculation. Integers number and count things, so they agree only if they are equal.
 */
const RELATIVE_TOLERANCE = 1e-6
const ABSOLUTE_TOLERANCE = 1e-9

/** How an answer compares with the expected one. */
export interface Agreement {
  readonly agrees: boolean
  /** The top-level fields of either answer, sorted by name, with whether they agree. */
  readonly fields: ReadonlyArray<readonly [field: string, agrees: boolean]>
}

/** Compares two answers as JSON, in any order of keys: integers exactly, other numbers within a relative difference of 1e-6. */
export const compareAnswers = (expected: JsonObject, actual: JsonObject): Agreement => {
  const names = [...new Set([...Object.keys(expected), ...Object.keys(actual)])].toSorted()
  const fields = names.map(
    (name) =>
      [
        name,
        Object.hasOwn(expected, name) && Object.hasOwn(actual, name) && equal(expected[name], actual[name])
      ] as const
  )
  return { agrees: fields.every(([, agrees]) => agrees), fields }
}

/** Whether two JSON values agree. Recursion is safe: request validation limits the depth to 64 levels. */
const equal = (left: Schema.Json | undefined, right: Schema.Json | undefined): boolean => {
  if (typeof left === "number" && typeof right === "number") {
    if (Number.isInteger(left) && Number.isInteger(right)) return left === right
    return (
      Math.abs(left - right) <=
      Math.max(ABSOLUTE_TOLERANCE, RELATIVE_TOLERANCE * Math.max(Math.abs(left), Math.abs(right)))
    )
  }
  if (isArray(left) || isArray(right)) {
    return (
      isArray(left) &&
      isArray(right) &&
      left.length === right.length &&
      left.every((member, index) => equal(member, right[index]))
    )
  }
  if (isObject(left) && isObject(right)) {
    const keys = Object.keys(left)
    return (
      keys.length === Object.keys(right).length &&
      keys.every((key) => Object.hasOwn(right, key) && equal(left[key], right[key]))
    )
  }
  return left === right
}

type Maybe = Schema.Json | undefined

const isArray = (value: Maybe): value is Schema.JsonArray => Array.isArray(value)

const isObject = (value: Maybe): value is Schema.JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)
