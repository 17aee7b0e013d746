import { JsonPointer, Predicate, type Schema } from "effect"
import { formatPointer, type SchemaFault } from "./CompiledSchema/SchemaFault.ts"
import { isKnownKind, type NewEvaluator, type NewEvaluators, pointerSegments } from "./Evaluator.ts"
import type { JsonSchema } from "./Task.ts"

/**
 * Returns the faults of evaluators against the answer schema: unknown kinds, values that the schema does not have, values that are never of
 * the evaluator's type, and weights below the top level. `at` is the pointer of the evaluators in the request.
 */
export const evaluatorFaults = (
  schema: JsonSchema,
  evaluators: NewEvaluators,
  at: string
): ReadonlyArray<SchemaFault> =>
  Object.entries(evaluators).flatMap(([pointer, evaluator]) => {
    const fault = (detail: string, ...below: ReadonlyArray<string>): ReadonlyArray<SchemaFault> => [
      { pointer: formatPointer(at, [pointer, ...below]), detail }
    ]
    if (!isKnownKind(evaluator)) return fault("must be equal, number, text, unordered or ignore", "kind")
    const segments = pointerSegments(pointer)
    const types = typesAt(schema, segments)
    if (types === undefined) return fault("names no value of the answer schema")
    if (evaluator.kind !== "ignore" && evaluator.weight !== undefined && segments.length > 1) {
      return fault("is for top-level fields only", "weight")
    }
    const needed = typeOf(evaluator)
    return needed === undefined || types.size === 0 || types.has(needed)
      ? []
      : fault(`compares values of the type ${needed}, which this one never is`, "kind")
  })

const typeOf = ({ kind }: NewEvaluator): string | undefined => {
  switch (kind) {
    case "number":
      return "number"
    case "text":
      return "string"
    case "unordered":
      return "array"
    case "equal":
    case "ignore":
      return undefined
  }
}

/** A schema that allows any value. */
const anything: Schema.Json = true

/**
 * The types that the schema names for the value at a pointer; empty if it allows any. `undefined` if the schema has no such value: it names
 * the fields or items beside it, and does not mention others.
 */
const typesAt = (schema: JsonSchema, segments: ReadonlyArray<string>): ReadonlySet<string> | undefined => {
  let places: ReadonlyArray<Schema.Json> = [schema]
  for (const segment of segments) {
    const applicable = withApplied(schema, places)
    const next = applicable.flatMap((place) => membersAt(place, segment))
    if (next.length === 0 && applicable.some(namesMembers)) return undefined
    places = next.length === 0 ? [anything] : next
  }
  return new Set(withApplied(schema, places).flatMap(typesOf))
}

/** Keywords whose schemas apply to the same value. */
const inPlace = ["allOf", "anyOf", "oneOf", "if", "then", "else"]

/** The schemas, and the schemas that they apply to the same value by references and combinations: each once. */
const withApplied = (root: JsonSchema, places: ReadonlyArray<Schema.Json>): ReadonlyArray<Schema.Json> => {
  const found = new Set<Schema.Json>(places)
  for (const place of found) {
    if (!Predicate.isReadonlyObject(place)) continue
    const reference = place["$ref"]
    if (typeof reference === "string") {
      const target = resolve(root, reference)
      if (target !== undefined) found.add(target)
    }
    for (const keyword of inPlace) {
      const applied = place[keyword]
      for (const inner of Array.isArray(applied) ? applied : [applied]) {
        if (isSchema(inner)) found.add(inner)
      }
    }
  }
  return [...found]
}

/** The schema that a reference within the document leads to. */
const resolve = (root: JsonSchema, reference: string): Schema.Json | undefined => {
  const segments = JsonPointer.parseUriFragment(reference)
  if (segments === undefined) return undefined
  let target: unknown = root
  for (const segment of segments) {
    if (!Predicate.isObjectOrArray(target) || !Object.hasOwn(target, segment)) return undefined
    target = Object.entries(target).find(([name]) => name === segment)?.[1]
  }
  return isSchema(target) ? target : undefined
}

/** The schemas of a member of an object, or of an item of an array. */
const membersAt = (place: Schema.Json, segment: string): ReadonlyArray<Schema.Json> => {
  if (!Predicate.isReadonlyObject(place)) return []
  const { additionalProperties, items, patternProperties, prefixItems, properties } = place
  const declared =
    Predicate.isReadonlyObject(properties) && Object.hasOwn(properties, segment) ? [properties[segment]] : []
  const isIndex = segment === "*" || /^(?:0|[1-9]\d{0,6})$/.test(segment)
  const first = Array.isArray(prefixItems) ? prefixItems : []
  return [
    ...declared,
    // Patterns are not matched: any of them may name the member.
    ...(Predicate.isReadonlyObject(patternProperties) ? Object.values(patternProperties) : []),
    ...(declared.length === 0 ? [additionalProperties] : []),
    ...(isIndex ? [...(segment === "*" ? first : [first[Number(segment)]]), items] : [])
  ].filter((member): member is Schema.Json => isSchema(member) && member !== false)
}

/** Whether a schema names the members of a value, so that one that it does not name is probably misspelt. */
const namesMembers = (place: Schema.Json): boolean =>
  Predicate.isReadonlyObject(place) &&
  ["properties", "patternProperties", "additionalProperties", "items", "prefixItems"].some((keyword) =>
    Object.hasOwn(place, keyword)
  )

const typesOf = (place: Schema.Json): ReadonlyArray<string> => {
  if (!Predicate.isReadonlyObject(place)) return []
  const { const: constant, enum: values, type } = place
  const named = typeof type === "string" ? [type] : Array.isArray(type) ? type : []
  const listed = [
    ...(Object.hasOwn(place, "const") ? [constant] : []),
    ...(Array.isArray(values) ? values : [])
  ].map((value) => (Array.isArray(value) ? "array" : typeof value))
  return [...named, ...listed].flatMap((name) =>
    typeof name !== "string" ? [] : [name === "integer" ? "number" : name]
  )
}

const isSchema = (value: unknown): value is Schema.Json =>
  typeof value === "boolean" || Predicate.isReadonlyObject(value)
