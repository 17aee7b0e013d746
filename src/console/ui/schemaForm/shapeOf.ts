/** The form that a JSON Schema asks for: which field a value gets. */
import type { Schema } from "effect"

/** The editor of a value. `json`: as text, because the schema does not say enough, or says what no form can. */
export type Shape =
  | { readonly kind: "text" }
  | { readonly kind: "number" }
  | { readonly kind: "choice"; readonly options: ReadonlyArray<Schema.Json> }
  | {
      readonly kind: "object"
      readonly properties: ReadonlyArray<ObjectProperty>
      /** The schema of other members; undefined: none are offered. */
      readonly others: Schema.Json | undefined
    }
  | { readonly kind: "array"; readonly item: Schema.Json }
  | { readonly kind: "json" }

export interface ObjectProperty {
  readonly name: string
  readonly schema: Schema.Json
  readonly required: boolean
}

/** A shape with the schema's other statements about the value. */
export interface DescribedShape {
  readonly shape: Shape
  /** Whether null is a value, too. */
  readonly nullable: boolean
  /** The author's description; undefined: none. */
  readonly description: string | undefined
}

type JsonObject = { readonly [name: string]: Schema.Json }

const isObject = (value: Schema.Json | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** The most values of a choice: a longer list is typed. */
const MAX_OPTIONS = 200

/** References that are followed from one schema to the next. */
const MAX_REFERENCES = 8

/** Keywords that change validity in ways that no field shows. Their schemas are edited as JSON. */
const CONDITIONAL = ["allOf", "oneOf", "not", "if", "dependentSchemas", "$dynamicRef", "prefixItems"]

/** The shape of a schema, which is `root` or part of it. Schemas inside are not looked at, so that a recursive one ends. */
export const shapeOf = (root: Schema.Json, schema: Schema.Json): DescribedShape => {
  const found = resolve(root, schema)
  const description = isObject(found) ? textOf(found["description"]) : undefined
  const bare = isObject(found) ? withoutNull(root, found) : { schema: found, nullable: false }
  return { shape: bareShape(bare.schema), nullable: bare.nullable, description }
}

const textOf = (value: Schema.Json | undefined): string | undefined =>
  typeof value === "string" && value.trim() !== "" ? value : undefined

/** Follows references within the document, `#/$defs/…`. */
const resolve = (root: Schema.Json, schema: Schema.Json): Schema.Json | undefined => {
  let found: Schema.Json | undefined = schema
  for (let step = 0; isObject(found) && typeof found["$ref"] === "string"; step++) {
    const reference = found["$ref"]
    // Other keywords beside a reference restrict the value, too.
    const others = Object.keys(found).filter((name) => name !== "$ref" && name !== "description")
    if (step >= MAX_REFERENCES || others.length > 0 || !/^#(?:\/|$)/u.test(reference)) return undefined
    found = follow(root, reference.slice(1))
  }
  return found
}

const follow = (root: Schema.Json, pointer: string): Schema.Json | undefined => {
  let found: Schema.Json | undefined = root
  for (const token of pointer.split("/").slice(1)) {
    const name = decodeToken(token)
    found = isObject(found) && Object.hasOwn(found, name) ? found[name] : undefined
  }
  return found
}

const decodeToken = (token: string): string => {
  try {
    return decodeURIComponent(token).replaceAll("~1", "/").replaceAll("~0", "~")
  } catch {
    return token
  }
}

/** Takes null out of a type that allows it. */
const withoutNull = (
  root: Schema.Json,
  schema: JsonObject
): { readonly schema: Schema.Json | undefined; readonly nullable: boolean } => {
  const { anyOf, type } = schema
  if (Array.isArray(type) && type.length === 2 && type.includes("null")) {
    const options = schema["enum"]
    return {
      schema: {
        ...schema,
        type: type.find((name: Schema.Json) => name !== "null") ?? null,
        ...(Array.isArray(options) ? { enum: options.filter((option: Schema.Json) => option !== null) } : {})
      },
      nullable: !Array.isArray(options) || options.includes(null)
    }
  }
  if (Array.isArray(anyOf) && anyOf.length === 2 && Object.keys(schema).every((name) => isPlain(name))) {
    const rest = anyOf.filter((one: Schema.Json) => !isObject(one) || one["type"] !== "null")
    if (rest.length === 1) return { schema: resolve(root, rest[0] ?? null), nullable: true }
  }
  return { schema, nullable: false }
}

const isPlain = (name: string): boolean => ["anyOf", "description", "title", "default"].includes(name)

const JSON_SHAPE: Shape = { kind: "json" }

const bareShape = (schema: Schema.Json | undefined): Shape => {
  if (!isObject(schema) || CONDITIONAL.some((name) => Object.hasOwn(schema, name))) return JSON_SHAPE
  if (Object.hasOwn(schema, "anyOf") || Object.hasOwn(schema, "$ref")) return JSON_SHAPE
  const options = Object.hasOwn(schema, "const") ? [schema["const"] ?? null] : schema["enum"]
  if (Array.isArray(options)) {
    return options.length > 0 && options.length <= MAX_OPTIONS ? { kind: "choice", options } : JSON_SHAPE
  }
  switch (schema["type"]) {
    case "string":
      return { kind: "text" }
    case "number":
    case "integer":
      return { kind: "number" }
    case "boolean":
      return { kind: "choice", options: [true, false] }
    case "object":
      return objectShape(schema)
    case "array":
      return isObject(schema["items"]) ? { kind: "array", item: schema["items"] } : JSON_SHAPE
    default:
      return JSON_SHAPE
  }
}

const objectShape = (schema: JsonObject): Shape => {
  if (Object.hasOwn(schema, "patternProperties")) return JSON_SHAPE
  const properties = isObject(schema["properties"]) ? schema["properties"] : {}
  const required = Array.isArray(schema["required"]) ? schema["required"] : []
  const others = schema["additionalProperties"]
  if (Object.keys(properties).length === 0 && !isObject(others)) return JSON_SHAPE
  return {
    kind: "object",
    properties: Object.entries(properties).map(([name, property]) => ({
      name,
      schema: property,
      required: required.includes(name)
    })),
    others: isObject(others) ? others : undefined
  }
}
