/**
 * The assertion and applicator keywords of JSON Schema 2020-12, by the kind of their value: one schema, a list of
 * schemas, a map of schemas, or a plain value. All other keywords are annotations (`title`, `default`, `format`, custom
 * keywords), as in the default dialect, and never reach the validator.
 */
export type KeywordKind = "schema" | "list" | "map" | "value"

const kinds: ReadonlyMap<string, KeywordKind> = new Map([
  ...each("map", "$defs", "definitions", "properties", "patternProperties", "dependentSchemas"),
  ...each("list", "prefixItems", "allOf", "anyOf", "oneOf"),
  ...each(
    "schema",
    "items",
    "contains",
    "additionalProperties",
    "propertyNames",
    "not",
    "if",
    "then",
    "else"
  ),
  ...each("schema", "unevaluatedItems", "unevaluatedProperties"),
  ...each("value", "$ref", "$anchor", "type", "enum", "const", "multipleOf", "maximum", "exclusiveMaximum"),
  ...each(
    "value",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems"
  ),
  ...each("value", "uniqueItems", "maxContains", "minContains", "maxProperties", "minProperties"),
  ...each("value", "required", "dependentRequired")
])

function each(kind: KeywordKind, ...names: ReadonlyArray<string>) {
  return names.map((name): readonly [string, KeywordKind] => [name, kind])
}

/** The names of these keywords. */
export const keywords: ReadonlyArray<string> = [...kinds.keys()]

/** The kind of a keyword's value; undefined for an annotation. */
export const kindOf = (keyword: string): KeywordKind | undefined => kinds.get(keyword)

/** Keywords whose schemas apply to the same value as the schema that contains them. A cycle of these would never end. */
export const inPlace: ReadonlySet<string> = new Set([
  ...["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"]
])

/** Keywords that iterate over the value themselves, so that their work depends on its size. */
export const sizeDependent: ReadonlySet<string> = new Set([
  ...["maxLength", "minLength", "contains", "maxProperties", "minProperties", "patternProperties"],
  ...["additionalProperties", "propertyNames", "unevaluatedItems", "unevaluatedProperties"]
])

/** Keywords that are rejected because they would change the meaning of others, with the message. */
export const unsupportedKeywords: ReadonlyMap<string, string> = new Map([
  ["$dynamicRef", "Use $ref: a schema of one document has no dynamic references"],
  ["$dynamicAnchor", "Use $anchor: a schema of one document has no dynamic references"],
  ["$recursiveRef", "Use $ref, as in JSON Schema 2020-12"],
  ["$async", "Asynchronous schemas are not supported"]
])

/** Keywords whose schemas apply only through references. */
export const definitions: ReadonlySet<string> = new Set(["$defs", "definitions"])

/** Keywords beside which the validator loses track of the evaluated items, so that `unevaluatedItems` gives wrong results. */
const obscuring: ReadonlyArray<string> = [...inPlace, "$ref", "contains"]

/** Why a use of a supported keyword is rejected: the validator would give a wrong result. Undefined if it is fine. */
export const unsupportedUse = (keyword: string, value: unknown, schema: object): string | undefined => {
  if (keyword === "enum" && Array.isArray(value) && value.length === 0) {
    return "enum must have at least one value; use false for a schema that rejects everything"
  }
  if (keyword !== "unevaluatedItems") return undefined
  const beside = obscuring.find((name) => Object.hasOwn(schema, name))
  return beside === undefined
    ? undefined
    : `unevaluatedItems cannot be combined with ${beside}: use items instead`
}
