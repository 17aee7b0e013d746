import { Predicate, type Schema } from "effect"
import { isJsonArray } from "../../../domain/json/isJsonArray.ts"
import type { JsonSchema } from "../../../domain/tasks/Task.ts"

/** The keywords that OpenAI's strict mode supports, besides the keywords that hold other schemas. */
const PLAIN_KEYWORDS: ReadonlySet<string> = new Set([
  "$schema",
  "$ref",
  "type",
  "title",
  "description",
  "enum",
  "const",
  "required",
  "pattern",
  "format",
  "multipleOf",
  "minimum",
  "maximum",
  "exclusiveMinimum",
  "exclusiveMaximum",
  "minItems",
  "maxItems"
])

/** Limits of strict mode. */
const MAX_PROPERTIES = 5_000
const MAX_NESTING = 10

/**
 * Whether servers can enforce a schema on the model's output (`strict`). OpenAI rejects a strict schema outside of its subset of JSON
 * Schema. The root is an object without `anyOf`. Each object requires all its properties and allows no others. There are no other keywords
 * than these. Any other schema only guides the model, and the answer is validated here.
 */
export const isStrictSchema = (schema: JsonSchema): boolean => {
  let properties = 0
  const isStrict = (part: Schema.Json | undefined, nesting: number): boolean => {
    if (part === undefined || !isObject(part) || nesting > MAX_NESTING) return false
    const names = Object.keys(part["properties"] ?? {})
    properties += names.length
    if (properties > MAX_PROPERTIES) return false
    if (part["type"] === "object" || names.length > 0) {
      const { additionalProperties, required } = part
      if (additionalProperties !== false || !isJsonArray(required)) return false
      if (!names.every((name) => required.includes(name))) return false
    }
    return Object.entries(part).every(([keyword, value]) => {
      switch (keyword) {
        case "additionalProperties":
          return value === false
        case "items":
          return isStrict(value, nesting + 1)
        case "anyOf":
          return isJsonArray(value) && value.every((branch) => isStrict(branch, nesting + 1))
        case "properties":
        case "$defs":
          return isObject(value) && Object.values(value).every((inner) => isStrict(inner, nesting + 1))
        default:
          return PLAIN_KEYWORDS.has(keyword)
      }
    })
  }
  return schema["type"] === "object" && schema["anyOf"] === undefined && isStrict(schema, 0)
}

const isObject = (value: Schema.Json): value is Schema.JsonObject => Predicate.isReadonlyObject(value)
