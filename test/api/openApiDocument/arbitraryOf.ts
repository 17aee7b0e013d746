/**
 * Values that a schema of the published document allows, as a client generated from the document alone would send them.
 */
import * as fc from "fast-check"

/** A node of the document. */
export type Node = Readonly<Record<string, unknown>>

export const node = (value: unknown): Node =>
  typeof value === "object" && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value))
    : {}

export const list = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value : [])

const numberOf = (value: unknown, otherwise: number): number =>
  typeof value === "number" ? value : otherwise

/** Texts of a pattern, where it has no alternative or look-around. Long ones are cut by the caller's maximum. */
const textOf = (schema: Node): fc.Arbitrary<string> => {
  const minLength = numberOf(schema["minLength"], 0)
  const maxLength = numberOf(schema["maxLength"], 300)
  const { format, pattern } = schema
  if (format === "date-time") return timeOf
  if (format === "uri")
    return fc.webUrl({ validSchemes: ["https"] }).filter(({ length }) => length <= maxLength)
  const texts =
    typeof pattern === "string"
      ? fc.stringMatching(new RegExp(pattern, "u"), { maxLength: Math.min(maxLength, 300) })
      : fc.string({ unit: "grapheme", minLength, maxLength: Math.min(maxLength, 300) })
  const excluded = list(node(schema["not"])["enum"])
  return texts.filter(
    (text) => text.length >= minLength && text.length <= maxLength && !excluded.includes(text)
  )
}

/** Times of RFC 3339, in both spellings of its letters and with any offset. */
const timeOf = fc
  .tuple(
    fc.date({ min: new Date("0001-01-02"), max: new Date("9999-12-30"), noInvalidDate: true }),
    fc.constantFrom("", ".5", ".123", ".123456789", ".1234567890123"),
    fc.constantFrom("Z", "z", "+00:00", "-23:59", "+05:30"),
    fc.constantFrom("T", "t")
  )
  .map(([at, fraction, offset, separator]) => {
    const text = at.toISOString()
    return `${text.slice(0, 10)}${separator}${text.slice(11, 19)}${fraction}${offset}`
  })

/** Whether a value has what `if` and `then` require, which the members of an object cannot say: one of two members. */
const fulfils = (schema: Node, value: Node): boolean => {
  const isPresent = (name: unknown) => value[String(name)] !== undefined && value[String(name)] !== null
  const condition = list(node(node(schema["if"])["not"])["required"])
  return condition.every(isPresent) || list(node(schema["then"])["required"]).every(isPresent)
}

/** An arbitrary of a schema's values. `components` are the document's schemas, which it can refer to. */
export const arbitraryOf = (schema: Node, components: Node): fc.Arbitrary<unknown> => {
  const inner = (part: unknown) => arbitraryOf(node(part), components)
  const { $ref, const: constant, enum: values, type } = schema
  if (typeof $ref === "string") return inner(components[$ref.slice("#/components/schemas/".length)])
  const branches = [...list(schema["oneOf"]), ...list(schema["anyOf"])]
  if (branches.length > 0) return fc.oneof(...branches.map(inner))
  if (constant !== undefined) return fc.constant(constant)
  if (Array.isArray(values)) return fc.constantFrom(...list(values))
  if (Array.isArray(type)) return fc.oneof(...list(type).map((one) => inner({ ...schema, type: one })))
  switch (type) {
    case "string":
      return textOf(schema)
    case "integer":
      return fc.integer({
        min: numberOf(schema["minimum"], Number.MIN_SAFE_INTEGER),
        max: numberOf(schema["maximum"], Number.MAX_SAFE_INTEGER)
      })
    case "number":
      return fc.double({
        noNaN: true,
        min: numberOf(schema["exclusiveMinimum"] ?? schema["minimum"], -1e300),
        minExcluded: schema["exclusiveMinimum"] !== undefined,
        max: numberOf(schema["exclusiveMaximum"] ?? schema["maximum"], 1e300),
        maxExcluded: schema["exclusiveMaximum"] !== undefined
      })
    case "boolean":
      return fc.boolean()
    case "null":
      return fc.constant(null)
    case "array": {
      const minLength = numberOf(schema["minItems"], 0)
      const maxLength = Math.min(numberOf(schema["maxItems"], 4), Math.max(4, minLength))
      return fc.array(inner(schema["items"]), { minLength, maxLength })
    }
    case "object":
      return objectOf(schema, inner)
    default:
      return fc.jsonValue()
  }
}

const objectOf = (schema: Node, inner: (part: unknown) => fc.Arbitrary<unknown>): fc.Arbitrary<unknown> => {
  const properties = node(schema["properties"])
  const requiredKeys = list(schema["required"]).map(String)
  const known = fc.record(
    Object.fromEntries(Object.entries(properties).map(([name, property]) => [name, inner(property)])),
    { requiredKeys }
  )
  const additional = schema["additionalProperties"]
  const others = fc.dictionary(
    fc.string({ maxLength: 10 }).filter((name) => !(name in properties)),
    typeof additional === "object" ? inner(additional) : fc.jsonValue(),
    { maxKeys: Math.min(numberOf(schema["maxProperties"], 3), 3) }
  )
  const least = numberOf(schema["minProperties"], 0)
  return fc
    .tuple(others, known)
    .map(([open, closed]): Node => ({ ...open, ...closed }))
    .filter(
      (value) =>
        Object.keys(value).filter((name) => name in properties).length >= least && fulfils(schema, value)
    )
}
