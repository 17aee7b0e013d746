import { Predicate, type Schema } from "effect"
import { UNMATCHABLE } from "./CompiledSchema/Blueprint.ts"
import { isEarlierDialect } from "./CompiledSchema/checkDialect.ts"
import { isUnmatchable } from "./CompiledSchema/LinearPattern.ts"
import { keywords, kindOf } from "./CompiledSchema/Keywords.ts"
import { formatPointer, type SchemaFault } from "./CompiledSchema/SchemaFault.ts"

/** Most warnings to report per schema. */
export const MAX_WARNINGS = 20

/** Deepest subschema to look at. Schemas that are nested deeper are refused. */
const MAX_DEPTH = 32

/**
 * Returns the keywords of a JSON Schema that restrict no value, although their author may think so: annotations such as
 * `format`, keywords of other dialects such as `nullable`, and unknown ones, which may be misspelt. At most 20, each at
 * the keyword itself. `at` is the pointer of the schema within the request, such as `#/answer_schema`.
 */
export const schemaWarnings = (schema: Schema.Json, at = "#"): ReadonlyArray<SchemaFault> => {
  const warnings: Array<SchemaFault> = []
  const visit = (subschema: unknown, place: ReadonlyArray<string>) => {
    if (!Predicate.isReadonlyObject(subschema) || place.length > 2 * MAX_DEPTH) return
    for (const [keyword, value] of Object.entries(subschema)) {
      if (warnings.length === MAX_WARNINGS) return
      const here = [...place, keyword]
      const atRoot = place.length === 0 ? rootWarningOf(keyword, value) : undefined
      const detail = atRoot ?? warningOf(keyword, value, subschema)
      if (detail !== undefined) warnings.push({ pointer: formatPointer(at, here), detail })
      const components: unknown =
        keyword === "components" && place.length === 0 && Predicate.isReadonlyObject(value)
          ? Reflect.get(value, "schemas")
          : undefined
      if (Predicate.isReadonlyObject(components))
        for (const [name, inner] of Object.entries(components)) visit(inner, [...here, "schemas", name])
      const kind = kindOf(keyword)
      if (kind === "schema") visit(value, here)
      else if ((kind === "list" || kind === "map") && Predicate.isObjectOrArray(value)) {
        for (const [part, inner] of Object.entries(value)) visit(inner, [...here, part])
      }
    }
  }
  visit(schema, [])
  return warnings
}

/** Keywords that describe a schema or are extensions of OpenAPI that describe one. They do not restrict values. */
const descriptions: ReadonlySet<string> = new Set([
  ...["$schema", "$id", "$comment", "$vocabulary", "title", "description", "default", "examples"],
  ...["deprecated", "readOnly", "writeOnly", "example", "discriminator", "xml", "externalDocs"]
])

const UNCHECKED = "is not checked; use keywords such as pattern, minimum or enum to restrict the value"

/** Keywords that other dialects or programs check. */
const ineffective: ReadonlyMap<string, string> = new Map([
  ["format", UNCHECKED],
  ["contentEncoding", UNCHECKED],
  ["contentMediaType", UNCHECKED],
  ["contentSchema", UNCHECKED],
  ["nullable", 'has no effect in JSON Schema; add "null" to type to allow null'],
  ["dependencies", "has no effect in JSON Schema 2020-12; use dependentRequired or dependentSchemas"],
  [
    "additionalItems",
    "has no effect in JSON Schema 2020-12; use prefixItems for the first items and items for the others"
  ],
  ["divisibleBy", "has no effect in JSON Schema 2020-12; use multipleOf"],
  ["disallow", "has no effect in JSON Schema 2020-12; use not"],
  ["extends", "has no effect in JSON Schema 2020-12; use allOf"],
  ["id", "has no effect in JSON Schema 2020-12; use $id"]
])

/** Keywords without effect unless the other one stands beside them. */
const companions: ReadonlyMap<string, string> = new Map([
  ["then", "if"],
  ["else", "if"],
  ["minContains", "contains"],
  ["maxContains", "contains"]
])

/** Warnings about the top level alone. */
const rootWarningOf = (keyword: string, value: unknown): string | undefined => {
  if (keyword === "$schema" && isEarlierDialect(value)) return "is read as JSON Schema 2020-12"
  if (keyword === "type" && Array.isArray(value) && value.includes("null"))
    return "null is refused at the top level: an input or answer is always an object"
  return undefined
}

const warningOf = (keyword: string, value: unknown, schema: object): string | undefined => {
  const companion = companions.get(keyword)
  if (companion !== undefined) {
    return Object.hasOwn(schema, companion) ? undefined : `has no effect without ${companion}`
  }
  if (keyword === "pattern" && typeof value === "string" && isUnmatchable(value))
    return `is not checked. ${UNMATCHABLE}`
  // References of OpenAPI point into it.
  if (keyword === "components") return undefined
  if (kindOf(keyword) !== undefined || descriptions.has(keyword) || keyword.startsWith("x-")) return undefined
  // `nullable: false` asks for what holds anyway.
  if (keyword === "nullable" && value === false) return undefined
  return ineffective.get(keyword) ?? unknownKeyword(keyword)
}

const unknownKeyword = (keyword: string): string => {
  const meant = canonicalSpelling(keyword)
  return meant === undefined
    ? "is not a keyword of JSON Schema 2020-12 and has no effect"
    : `is not a keyword of JSON Schema 2020-12 and has no effect; did you mean ${meant}?`
}

/** The keyword that differs from a name only in case, `_` and `-`. */
const canonicalSpelling = (name: string): string | undefined => {
  const letters = lettersOf(name)
  return keywords.find((keyword) => lettersOf(keyword) === letters)
}

const lettersOf = (name: string): string => name.toLowerCase().replaceAll(/[_-]/g, "")
