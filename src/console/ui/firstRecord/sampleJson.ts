import { Predicate, type Schema } from "effect"
import type { JsonSchema } from "../../../domain/tasks/Task.ts"

/** How deep a sample goes into nested and recursive schemas. */
const MAX_DEPTH = 8

/** Values that a sample has at most. */
const MAX_VALUES = 1_000

/** Items and characters that a sample has at most, whatever the schema demands. */
const MAX_LENGTH = 100

/** Texts of the formats whose shape a reader would have to look up. */
const formats: Readonly<Record<string, string>> = {
  date: "2026-01-31",
  "date-time": "2026-01-31T12:00:00Z",
  time: "12:00:00Z",
  email: "ada@example.com",
  uri: "https://example.com/",
  uuid: "7d444840-9dc0-11d1-b245-5ffdce74fad2"
}

/**
 * An object that fits the JSON Schema of a task, for an example request: the examples, constants and enumerations of the schema, and
 * otherwise short texts and small numbers, for required members only. `variant` 1 chooses other values where the schema allows them.
 * Patterns and conditions are not solved: a sample may have to be changed by hand.
 */
export const sampleObject = (
  schema: JsonSchema,
  variant: 0 | 1 = 0
): Readonly<Record<string, Schema.Json>> => {
  const place = { root: schema, schema, variant, name: "text", depth: 0, budget: { left: MAX_VALUES } }
  const value = sampleOf(place)
  return isRecord(value) ? value : {}
}

interface Place {
  readonly root: Schema.Json
  readonly schema: unknown
  readonly variant: 0 | 1
  /** The name of the member, which makes a text speak. */
  readonly name: string
  readonly depth: number
  /** The values that the whole sample may still get. */
  readonly budget: { left: number }
}

const isRecord = (value: unknown): value is Readonly<Record<string, Schema.Json>> =>
  Predicate.isObject(value) && !Array.isArray(value)

const numberOf = (value: unknown): number | undefined => (typeof value === "number" ? value : undefined)

const lengthOf = (value: unknown): number => Math.min(numberOf(value) ?? 0, MAX_LENGTH)

const sampleOf = (place: Place): Schema.Json => {
  const schema = resolve(place)
  if (!isRecord(schema) || place.depth > MAX_DEPTH || place.budget.left-- <= 0) return null
  const { variant } = place
  if (schema["const"] !== undefined) return schema["const"]
  for (const keyword of ["examples", "enum"]) {
    const given = schema[keyword]
    if (Array.isArray(given) && given.length > 0) return at(given, variant) ?? null
  }
  const parts = ["allOf", "oneOf", "anyOf"].flatMap((keyword): ReadonlyArray<unknown> => {
    const given = schema[keyword]
    if (!Array.isArray(given)) return []
    return keyword === "allOf" ? given : given.slice(0, 1)
  })
  if (parts.length > 0) {
    const { allOf: _all, anyOf: _any, oneOf: _one, ...rest } = schema
    const resolved = parts.map((part) => resolve({ ...place, schema: part })).filter(isRecord)
    return sampleOf({ ...place, schema: merged([rest, ...resolved]), depth: place.depth + 1 })
  }
  switch (typeOf(schema)) {
    case "object":
      return objectOf(place, schema)
    case "array":
      return arrayOf(place, schema)
    case "string":
      return textOf(place, schema)
    case "integer":
      return Math.ceil(amountOf(schema, variant))
    case "number":
      return amountOf(schema, variant)
    case "boolean":
      return variant === 0
    default:
      return null
  }
}

/** Follows references within the schema. */
const resolve = ({ root, schema }: Pick<Place, "root" | "schema">): unknown => {
  let found = schema
  for (let step = 0; step < MAX_DEPTH && isRecord(found) && typeof found["$ref"] === "string"; step++) {
    const pointer = found["$ref"]
    if (!pointer.startsWith("#")) return undefined
    found = pointer
      .slice(1)
      .split("/")
      .slice(1)
      .reduce<unknown>(
        (value, name) =>
          isRecord(value) && Object.hasOwn(value, unescapeName(name)) ? value[unescapeName(name)] : undefined,
        root
      )
  }
  return found
}

const unescapeName = (name: string): string => name.replaceAll("~1", "/").replaceAll("~0", "~")

/** Schemas that all apply, as one: their members and required names together. */
const merged = (
  schemas: ReadonlyArray<Readonly<Record<string, Schema.Json>>>
): Readonly<Record<string, Schema.Json>> => {
  const properties = schemas.flatMap(({ properties }) =>
    isRecord(properties) ? Object.entries(properties) : []
  )
  const required = schemas.flatMap(({ required }) => (Array.isArray(required) ? required : []))
  return { ...Object.assign({}, ...schemas), properties: Object.fromEntries(properties), required }
}

const typeOf = (schema: Readonly<Record<string, unknown>>): unknown => {
  const { type } = schema
  if (Array.isArray(type)) return type.find((one) => one !== "null")
  if (type !== undefined) return type
  if (schema["properties"] !== undefined || schema["required"] !== undefined) return "object"
  return schema["items"] === undefined && schema["prefixItems"] === undefined ? "string" : "array"
}

const objectOf = (place: Place, schema: Readonly<Record<string, unknown>>): Schema.Json => {
  const properties = isRecord(schema["properties"]) ? schema["properties"] : {}
  const required = Array.isArray(schema["required"]) ? schema["required"].map(String) : []
  const names = required.length > 0 ? required : Object.keys(properties).slice(0, 1)
  return Object.fromEntries(
    names.map((name) => [
      name,
      sampleOf({
        ...place,
        schema: Object.hasOwn(properties, name) ? properties[name] : {},
        name,
        depth: place.depth + 1
      })
    ])
  )
}

const arrayOf = (place: Place, schema: Readonly<Record<string, unknown>>): Schema.Json => {
  const first = Array.isArray(schema["prefixItems"]) ? schema["prefixItems"] : []
  const count = Math.max(lengthOf(schema["minItems"]), schema["maxItems"] === 0 ? 0 : 1, first.length)
  return Array.from({ length: count }, (_, index) =>
    sampleOf({ ...place, schema: first[index] ?? schema["items"] ?? {}, depth: place.depth + 1 })
  )
}

const textOf = ({ name, variant }: Place, schema: Readonly<Record<string, unknown>>): string => {
  const text = formats[String(schema["format"])] ?? (variant === 0 ? `Example ${name}` : `Another ${name}`)
  const most = numberOf(schema["maxLength"]) ?? MAX_LENGTH
  return text.slice(0, Math.min(most, MAX_LENGTH)).padEnd(lengthOf(schema["minLength"]), ".")
}

const amountOf = (schema: Readonly<Record<string, unknown>>, variant: 0 | 1): number => {
  const step = numberOf(schema["multipleOf"]) ?? 1
  const above = numberOf(schema["exclusiveMinimum"])
  const least = numberOf(schema["minimum"]) ?? (above === undefined ? undefined : above + step)
  const below = numberOf(schema["exclusiveMaximum"])
  const most = numberOf(schema["maximum"]) ?? (below === undefined ? undefined : below - step)
  const first = Math.ceil((least ?? Math.min(step, most ?? step)) / step) * step
  return variant === 1 && (most === undefined || first + step <= most) ? first + step : first
}

const at = (values: ReadonlyArray<Schema.Json>, variant: 0 | 1): Schema.Json | undefined =>
  values[variant % values.length]
