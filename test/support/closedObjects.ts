import type { SchemaNode } from "./robustness/values.ts"

/** The name that no object of a request has. */
export const UNKNOWN = "zz_unknown"

/** A body with one unknown member, and the pointer to it. Required members that tell no schemas apart are missing. */
export interface Spoilt {
  readonly value: unknown
  readonly pointer: string
}

const record = (value: unknown): SchemaNode =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : {}

const list = (value: unknown): ReadonlyArray<SchemaNode> => (Array.isArray(value) ? value.map(record) : [])

/**
 * For each object that a schema describes, at any depth, a value in which this object has an unknown member. Objects with any members are
 * left out. An object that names its members and is not closed is reported with the pointer `open`.
 */
export const spoiltValues = (
  schema: SchemaNode,
  definitions: SchemaNode,
  /** The references around this schema: a recursive one is followed once. */
  around: ReadonlyArray<string> = []
): ReadonlyArray<Spoilt> => {
  const { $ref, items, properties } = schema
  if (typeof $ref === "string") {
    const name = $ref.split("/").at(-1) ?? ""
    return around.includes(name)
      ? []
      : spoiltValues(record(definitions[name]), definitions, [...around, name])
  }
  const within = (inner: unknown) =>
    typeof inner === "object" ? spoiltValues(record(inner), definitions, around) : []
  const variants = [schema["oneOf"], schema["anyOf"], schema["allOf"]].flatMap(list).flatMap(within)
  const inItems = [items, ...list(schema["prefixItems"])].flatMap(within)
  const inRecord = within(schema["additionalProperties"])
  const own = Object.entries(record(properties))
  const constants = Object.fromEntries(
    own.flatMap(([name, property]) => {
      const { const: constant, enum: values } = record(property)
      const [only = constant, ...others] = Array.isArray(values) ? (values as ReadonlyArray<unknown>) : []
      return only !== undefined && others.length === 0 ? [[name, only]] : []
    })
  )
  const isClosed = schema["additionalProperties"] === false
  return [
    ...variants,
    ...inItems.map(({ pointer, value }) => ({ value: [value], pointer: `/0${pointer}` })),
    ...inRecord.map(({ pointer, value }) => ({ value: { "/name": value }, pointer: `/~1name${pointer}` })),
    ...(properties === undefined || schema["additionalProperties"] === true
      ? []
      : [{ value: { ...constants, [UNKNOWN]: 1 }, pointer: isClosed ? `/${UNKNOWN}` : "open" }]),
    ...own.flatMap(([name, property]) =>
      within(property).map(({ pointer, value }) => ({
        value: { ...constants, [name]: value },
        pointer: `/${name}${pointer}`
      }))
    )
  ]
}
