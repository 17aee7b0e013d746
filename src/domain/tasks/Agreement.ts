import type { Schema } from "effect"
import type { JsonObject } from "./Dataset.ts"

/**
 * Two numbers agree when they differ by less than this share of the larger, or by less than this much at zero: a fraction may come out of
 * a calculation. Whole numbers number and count things, and agree when they are the same.
 */
const RELATIVE_TOLERANCE = 1e-6
const ABSOLUTE_TOLERANCE = 1e-9

/** How an answer compares with the one that should have been given. */
export interface Agreement {
  readonly agrees: boolean
  /** Top-level fields that either has, in order, with whether they agree. */
  readonly fields: ReadonlyArray<readonly [field: string, agrees: boolean]>
}

/** Compares two answers as JSON, whatever the order of their keys; whole numbers exactly, others within a millionth. */
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

/** Whether two values are the same JSON. They are at most some tens of levels deep: every body was checked for that. */
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
