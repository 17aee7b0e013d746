import { Schema } from "effect"

/**
 * Values that are visited before the slower check takes over, which recognizes cycles: more than the body of a request can have.
 */
const MAX_VISITS = 200_000

/**
 * A JSON value, for parsed texts. `Schema.Json` takes ten times as long, because it remembers every array and object in
 * order to find cycles, which a parsed text cannot have.
 */
export const isJson = (value: unknown): value is Schema.Json => isTree(value) ?? isJsonWithoutCycles(value)

const isJsonWithoutCycles = Schema.is(Schema.Json)

/** Whether a value without cycles is JSON; undefined if it has too many parts to tell. */
const isTree = (value: unknown): boolean | undefined => {
  const containers: Array<object> = []
  let visits = 0
  /** Whether a part may be in a JSON value; the parts of an array or object are checked later. */
  const admit = (part: unknown): boolean => {
    if (typeof part !== "object" || part === null) return isLeaf(part)
    containers.push(part)
    return true
  }
  if (!admit(value)) return false
  for (let next = containers.pop(); next !== undefined; next = containers.pop()) {
    if (!Array.isArray(next) && !isPlain(next)) return false
    const parts: ReadonlyArray<unknown> = Array.isArray(next) ? next : Object.values(next)
    visits += parts.length
    if (visits > MAX_VISITS) return undefined
    // `for … of`, because `every` skips the holes of a sparse array.
    for (const part of parts) if (!admit(part)) return false
  }
  return true
}

const isLeaf = (value: unknown): boolean =>
  value === null ||
  typeof value === "string" ||
  typeof value === "boolean" ||
  (typeof value === "number" && Number.isFinite(value))

/** Whether an object is a record: without a class of its own. A record of another realm has another `Object.prototype`. */
const isPlain = (value: object): boolean => {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || prototype === Object.prototype || Object.getPrototypeOf(prototype) === null
}

/** The schema of any JSON value: see {@link isJson}. */
export const JsonValue: Schema.Codec<Schema.Json> = Schema.declare(isJson, Schema.Json.ast.annotations)
