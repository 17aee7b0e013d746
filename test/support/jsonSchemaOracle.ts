/**
 * An evaluator of JSON Schema 2020-12 that follows the specification, without regard to speed or limits: the oracle of the property test of
 * `CompiledSchema`. References are `#` and `#/$defs/…`. Numbers have at most six decimal places.
 */
import type { Schema } from "effect"
import { isDeepStrictEqual } from "node:util"

export type OracleSchema = boolean | SchemaObject

type List = ReadonlyArray<OracleSchema>
type Members = Readonly<Record<string, OracleSchema>>
type JsonType = "null" | "boolean" | "object" | "array" | "number" | "string" | "integer"

export interface SchemaObject {
  readonly $ref?: string
  readonly $defs?: Members
  readonly type?: JsonType | ReadonlyArray<JsonType>
  readonly const?: Schema.Json
  readonly enum?: ReadonlyArray<Schema.Json>
  readonly multipleOf?: number
  readonly maximum?: number
  readonly exclusiveMaximum?: number
  readonly minimum?: number
  readonly exclusiveMinimum?: number
  readonly maxLength?: number
  readonly minLength?: number
  readonly pattern?: string
  readonly maxItems?: number
  readonly minItems?: number
  readonly uniqueItems?: boolean
  readonly maxContains?: number
  readonly minContains?: number
  readonly maxProperties?: number
  readonly minProperties?: number
  readonly required?: ReadonlyArray<string>
  readonly dependentRequired?: Readonly<Record<string, ReadonlyArray<string>>>
  readonly allOf?: List
  readonly anyOf?: List
  readonly oneOf?: List
  readonly not?: OracleSchema
  readonly if?: OracleSchema
  readonly then?: OracleSchema
  readonly else?: OracleSchema
  readonly dependentSchemas?: Members
  readonly prefixItems?: List
  readonly items?: OracleSchema
  readonly contains?: OracleSchema
  readonly properties?: Members
  readonly patternProperties?: Members
  readonly additionalProperties?: OracleSchema
  readonly propertyNames?: OracleSchema
  readonly unevaluatedItems?: OracleSchema
  readonly unevaluatedProperties?: OracleSchema
}

/** Whether a value is valid against a schema. */
export const isValid = (root: SchemaObject, value: Schema.Json): boolean => evaluate(root, value, root).valid

/** The result for one value: whether it is valid, and which of its properties and items were evaluated. */
interface Evaluation {
  readonly valid: boolean
  readonly properties: ReadonlySet<string>
  readonly items: ReadonlySet<number>
}

const evaluate = (schema: OracleSchema, value: Schema.Json, root: SchemaObject): Evaluation => {
  const properties = new Set<string>()
  const items = new Set<number>()
  if (typeof schema === "boolean") return { valid: schema, properties, items }
  const accepts = (inner: OracleSchema, part: Schema.Json) => evaluate(inner, part, root).valid
  const checks: Array<boolean> = [...assertions(schema, value)]
  /** Applies a schema to the same value; its evaluated properties and items count if the value is valid against it. */
  const apply = (inner: OracleSchema): boolean => {
    const result = evaluate(inner, value, root)
    if (result.valid) {
      for (const name of result.properties) properties.add(name)
      for (const index of result.items) items.add(index)
    }
    return result.valid
  }

  if (schema.$ref !== undefined) checks.push(apply(resolve(schema.$ref, root)))
  if (schema.allOf !== undefined) checks.push(...schema.allOf.map(apply))
  if (schema.anyOf !== undefined) checks.push(schema.anyOf.filter(apply).length > 0)
  if (schema.oneOf !== undefined) checks.push(schema.oneOf.filter(apply).length === 1)
  if (schema.not !== undefined) checks.push(!accepts(schema.not, value))
  if (schema.if !== undefined) checks.push(apply((apply(schema.if) ? schema.then : schema.else) ?? true))

  if (isObject(value)) {
    for (const [name, inner] of Object.entries(schema.dependentSchemas ?? {})) {
      if (Object.hasOwn(value, name)) checks.push(apply(inner))
    }
    const members = Object.entries(value)
    const isDeclared = (name: string) =>
      Object.hasOwn(schema.properties ?? {}, name) ||
      Object.keys(schema.patternProperties ?? {}).some((pattern) => new RegExp(pattern, "u").test(name))
    for (const [name, part] of members) {
      if (schema.propertyNames !== undefined) checks.push(accepts(schema.propertyNames, name))
      const applicable = [
        ...Object.entries(schema.properties ?? {}).filter(([property]) => property === name),
        ...Object.entries(schema.patternProperties ?? {}).filter(([pattern]) =>
          new RegExp(pattern, "u").test(name)
        )
      ].map(([, inner]) => inner)
      if (schema.additionalProperties !== undefined && !isDeclared(name))
        applicable.push(schema.additionalProperties)
      if (applicable.length > 0) properties.add(name)
      checks.push(...applicable.map((inner) => accepts(inner, part)))
    }
    for (const [name, part] of members) {
      if (schema.unevaluatedProperties === undefined || properties.has(name)) continue
      properties.add(name)
      checks.push(accepts(schema.unevaluatedProperties, part))
    }
  }

  if (isArray(value)) {
    for (const [index, item] of value.entries()) {
      const inner = schema.prefixItems?.[index] ?? schema.items
      if (inner === undefined) continue
      items.add(index)
      checks.push(accepts(inner, item))
    }
    const { contains } = schema
    if (contains !== undefined) {
      const matches = [...value.entries()].filter(([, item]) => accepts(contains, item))
      for (const [index] of matches) items.add(index)
      const { maxContains = Number.POSITIVE_INFINITY, minContains = 1 } = schema
      checks.push(matches.length >= minContains && matches.length <= maxContains)
    }
    for (const [index, item] of value.entries()) {
      if (schema.unevaluatedItems === undefined || items.has(index)) continue
      items.add(index)
      checks.push(accepts(schema.unevaluatedItems, item))
    }
  }
  return { valid: checks.every((holds) => holds), properties, items }
}

/** The assertions of a schema that apply to a value of this type. */
function* assertions(schema: SchemaObject, value: Schema.Json): Generator<boolean> {
  if (schema.type !== undefined) yield [schema.type].flat().some((type) => hasType(type, value))
  if (schema.const !== undefined) yield isDeepStrictEqual(schema.const, value)
  if (schema.enum !== undefined) yield schema.enum.some((allowed) => isDeepStrictEqual(allowed, value))
  if (typeof value === "number") {
    const { exclusiveMaximum, exclusiveMinimum, maximum, minimum, multipleOf } = schema
    if (multipleOf !== undefined) yield micros(value) % micros(multipleOf) === 0n
    if (maximum !== undefined) yield value <= maximum
    if (exclusiveMaximum !== undefined) yield value < exclusiveMaximum
    if (minimum !== undefined) yield value >= minimum
    if (exclusiveMinimum !== undefined) yield value > exclusiveMinimum
  }
  if (typeof value === "string") {
    const length = Array.from(value).length
    if (schema.maxLength !== undefined) yield length <= schema.maxLength
    if (schema.minLength !== undefined) yield length >= schema.minLength
    if (schema.pattern !== undefined) yield new RegExp(schema.pattern, "u").test(value)
  }
  if (isArray(value)) {
    if (schema.maxItems !== undefined) yield value.length <= schema.maxItems
    if (schema.minItems !== undefined) yield value.length >= schema.minItems
    if (schema.uniqueItems === true)
      yield value.every(
        (item, index) => !value.slice(0, index).some((other) => isDeepStrictEqual(item, other))
      )
  }
  if (isObject(value)) {
    const count = Object.keys(value).length
    if (schema.maxProperties !== undefined) yield count <= schema.maxProperties
    if (schema.minProperties !== undefined) yield count >= schema.minProperties
    if (schema.required !== undefined) yield schema.required.every((name) => Object.hasOwn(value, name))
    for (const [name, others] of Object.entries(schema.dependentRequired ?? {}))
      yield !Object.hasOwn(value, name) || others.every((other) => Object.hasOwn(value, other))
  }
}

const hasType = (type: JsonType, value: Schema.Json): boolean => {
  switch (type) {
    case "null":
      return value === null
    case "array":
      return isArray(value)
    case "object":
      return isObject(value)
    case "integer":
      return Number.isInteger(value)
    default:
      return typeof value === type
  }
}

const micros = (value: number): bigint => BigInt(Math.round(value * 1e6))

const resolve = (reference: string, root: SchemaObject): OracleSchema =>
  reference === "#" ? root : (root.$defs?.[reference.slice("#/$defs/".length)] ?? true)

const isArray = (value: Schema.Json): value is Schema.JsonArray => Array.isArray(value)

const isObject = (value: Schema.Json): value is Schema.JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)
