import type { Schema } from "effect"

/** Whether two JSON values are equal, in any order of members. Recurses, so one of them must have a bounded depth. */
export const isEqualJson = (left: Schema.Json, right: Schema.Json): boolean => {
  if (left === right) return true
  if (isArray(left) || isArray(right)) {
    return (
      isArray(left) &&
      isArray(right) &&
      left.length === right.length &&
      left.every((item, index) => isEqualJson(item, right[index] ?? null))
    )
  }
  if (!isObject(left) || !isObject(right)) return false
  const names = Object.keys(left)
  return (
    names.length === Object.keys(right).length &&
    names.every((name) => Object.hasOwn(right, name) && isEqualJson(left[name] ?? null, right[name] ?? null))
  )
}

const isArray = (value: Schema.Json): value is Schema.JsonArray => Array.isArray(value)

const isObject = (value: Schema.Json): value is Schema.JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)
