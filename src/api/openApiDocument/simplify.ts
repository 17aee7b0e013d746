/**
 * Rewrites the generator's schemas as code generators and validators expect them. The meaning stays, except that
 * schemas become wider in three places: the objects of responses are open, an extensible enum is a string, and a property
 * that is always null is a nullable string.
 */
import { list, mapValues, type Node, rebuild, record, referenceOf, SCHEMAS, without } from "./node.ts"

/** Rewrites every schema within a value, innermost first; `last` is applied last. */
export const simplify = (value: unknown, last: (node: Node) => Node = (node) => node): unknown =>
  rebuild(value, (node) =>
    [
      freeObject,
      alwaysNull,
      mergeAllOf,
      merge,
      nonEmptyArray,
      anyItems,
      extensibleEnum,
      nullable,
      numeric,
      last
    ].reduce((schema, step) => step(schema), node)
  )

/** An object with arbitrary members has `additionalProperties: true`: otherwise some generators make an empty type of it. */
const freeObject = (node: Node): Node =>
  node["type"] === "object" && node["properties"] === undefined
    ? { additionalProperties: true, ...node }
    : node

/** A property that is always null: generators of code know no type with the single value null. */
const alwaysNull = (node: Node): Node => {
  const properties = record(node["properties"])
  return Object.values(properties).some((property) => record(property)["type"] === "null")
    ? {
        ...node,
        properties: mapValues(properties, (property) =>
          record(property)["type"] === "null" ? { ...record(property), type: ["string", "null"] } : property
        )
      }
    : node
}

/** Opens every object of a schema for members that it does not name: a response can gain members. */
export const open = (schema: unknown): unknown =>
  rebuild(schema, (node) =>
    node["additionalProperties"] === false ? without(node, "additionalProperties") : node
  )

/**
 * The generator puts checks and annotations that it cannot place into an `allOf`, which many code generators turn into
 * an untyped value.
 */
const mergeAllOf = (node: Node): Node => {
  const { allOf, description, ...rest } = node
  if (!Array.isArray(allOf)) return node
  const parts = allOf.map(record)
  const descriptions = [...parts.map((part) => part["description"]), description].filter(
    (text) => text !== undefined
  )
  const texts = descriptions.length === 0 ? {} : { description: descriptions.map(String).join("\n\n") }
  const keys = [rest, ...parts].flatMap((part) => Object.keys(without(part, "description")))
  return new Set(keys).size === keys.length
    ? Object.assign({}, rest, ...parts, texts)
    : { ...rest, allOf: parts.map((part) => without(part, "description")), ...texts }
}

/** The generator nests a union in a union, such as a nullable extensible enum. */
const merge = (node: Node): Node => {
  const { anyOf, ...rest } = node
  if (!Array.isArray(anyOf)) return node
  const branches = anyOf.map(record)
  return {
    ...rest,
    anyOf: branches.flatMap((branch) => (Array.isArray(branch["anyOf"]) ? list(branch["anyOf"]) : [branch]))
  }
}

/** A tuple of one item and a rest of equal items is an array with `minItems`. */
const nonEmptyArray = (node: Node): Node => {
  const [first, ...others] = list(node["prefixItems"])
  return first !== undefined && others.length === 0 && isEqual(first, node["items"])
    ? without(node, "prefixItems")
    : node
}

/** An array of any values: some generators of code fail without `items`. */
const anyItems = (node: Node): Node =>
  node["type"] === "array" && node["items"] === undefined && node["prefixItems"] === undefined
    ? { ...node, items: {} }
    : node

/** An extensible enum in a response is a string; its description lists the known values. */
const extensibleEnum = (node: Node): Node => {
  const { anyOf, description, ...rest } = node
  const [known, open, ...others] = list(anyOf)
  const isEnum = known !== undefined && (known["enum"] !== undefined || referenceOf(known) !== undefined)
  if (!isEnum || open === undefined || !isEqual(open, { type: "string" })) return node
  const texts = [description, known["description"]].filter((text) => text !== undefined)
  const text = {
    type: "string",
    ...(texts.length === 0 ? {} : { description: texts.map(String).join("\n\n") })
  }
  return others.length === 0
    ? { ...rest, ...text }
    : { ...rest, ...text, anyOf: [{ type: "string" }, ...others] }
}

/** A nullable schema of one type becomes a list of two types. A nullable reference or enum keeps its `anyOf`. */
const nullable = (node: Node): Node => {
  const { anyOf, description, ...rest } = node
  const [schema, none, ...others] = list(anyOf)
  if (schema === undefined || none === undefined || others.length > 0 || !isEqual(none, { type: "null" }))
    return node
  const { type } = schema
  if (typeof type !== "string" || schema["enum"] !== undefined) return node
  return {
    ...rest,
    ...schema,
    type: [type, "null"],
    ...(description === undefined ? {} : { description })
  }
}

const MAX_INT32 = 2 ** 31 - 1

/**
 * Numbers are `double`: without a format, some generators choose single precision. Integers: `integer` instead of the generator's
 * `number`, `int32` or `int64`, and a minimum of 0 unless the schema has bounds.
 */
const numeric = (node: Node): Node => {
  const { enum: values, type } = node
  if (type === "number" && Array.isArray(values) && values.every(Number.isInteger))
    return { ...node, type: "integer" }
  if (type === "number" && values === undefined) return { format: "double", ...node }
  if (type !== "integer" || values !== undefined) return node
  const bounds = {
    // An integer without bounds is a count or a sequence number.
    minimum: node["minimum"] === Number.MIN_SAFE_INTEGER ? 0 : node["minimum"],
    maximum: node["maximum"]
  }
  const isSmall = typeof bounds.maximum === "number" && bounds.maximum <= MAX_INT32
  return { ...node, format: isSmall ? "int32" : "int64", ...bounds }
}

/** Whether two schemas are equal, apart from their descriptions. */
const isEqual = (left: unknown, right: unknown): boolean => canonical(left) === canonical(right)

/** Canonical text of a schema: equal for equal schemas, whatever the order of their keys and their descriptions. */
const canonical = (schema: unknown): string =>
  JSON.stringify(schema, (key, value: unknown) =>
    typeof value === "object" && value !== null && !Array.isArray(value) && key !== "properties"
      ? Object.fromEntries(
          Object.entries(value)
            .filter(([name]) => name !== "description")
            // oxlint-disable-next-line unicorn/no-array-sort -- of a new array; it runs on import, and Node 18 has no `toSorted`
            .sort(([one], [other]) => (one < other ? -1 : 1))
        )
      : value
  )

/** Names of schemas by the schemas' content. */
export const namesOf = (schemas: Node): ReadonlyMap<string, string> =>
  new Map(Object.entries(schemas).map(([name, schema]) => [canonical(schema), name]))

/** Replaces a schema by a reference to an equal named one, if there is one. Keeps its description. */
export const referTo = (names: ReadonlyMap<string, string>, node: Node): Node => {
  const name = names.get(canonical(node))
  if (name === undefined) return node
  const { description } = node
  return { $ref: SCHEMAS + name, ...(description === undefined ? {} : { description }) }
}

/** Properties that can discriminate the members of a union. */
const DISCRIMINATORS = ["code", "kind", "op", "type"]

/**
 * Turns each union of components that a property discriminates into `oneOf` with a `discriminator` and its mapping.
 * `schemas` are the components.
 */
export const discriminate = (value: unknown, schemas: Node): unknown =>
  rebuild(value, (node) => {
    const members = list(node["anyOf"] ?? node["oneOf"])
    const names = members.map(referenceOf)
    if (names.length < 2 || names.includes(undefined)) return node
    for (const propertyName of DISCRIMINATORS) {
      const entries = members.flatMap((member) =>
        valuesOf(record(schemas[String(referenceOf(member))]), propertyName).map(
          (one) => [one, member["$ref"]] as const
        )
      )
      const targets = new Set(entries.map(([, target]) => target))
      if (targets.size === members.length && new Set(entries.map(([one]) => one)).size === entries.length)
        return {
          ...without(node, "anyOf"),
          oneOf: members,
          discriminator: { propertyName, mapping: Object.fromEntries(entries) }
        }
    }
    return node
  })

/** The values of a component's property, if it is an enum or a constant. */
const valuesOf = (schema: Node, property: string): ReadonlyArray<string> => {
  const isRequired = list(schema["required"]).some((name: unknown) => name === property)
  return isRequired ? list(record(record(schema["properties"])[property])["enum"]).map(String) : []
}
