/**
 * The keywords of JSON Schema 2020-12 that judge a value, and what stands under each: one schema, a list of them, a map of them, or a
 * plain value. All others are annotations (`title`, `default`, `format`, whatever a tool adds) and say nothing about a value, as the
 * default dialect has it; they never reach the validator.
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

/** What stands under a keyword; undefined of an annotation. */
export const kindOf = (keyword: string): KeywordKind | undefined => kinds.get(keyword)

/** Keywords whose schemas judge the same value as the schema they stand in. A circle of these never ends. */
export const inPlace: ReadonlySet<string> = new Set([
  ...["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"]
])

/** Keywords that walk the value by themselves, without a schema for each part: what they do is weighed by the value's size. */
export const walking: ReadonlySet<string> = new Set([
  ...["maxLength", "minLength", "contains", "maxProperties", "minProperties", "patternProperties"],
  ...["additionalProperties", "propertyNames", "unevaluatedItems", "unevaluatedProperties"]
])

/** What would change how the rest is read, and why it is not taken. */
export const refused: ReadonlyMap<string, string> = new Map([
  ["$dynamicRef", "Write $ref: a schema of one document has nothing to look up dynamically"],
  ["$dynamicAnchor", "Write $anchor: a schema of one document has nothing to look up dynamically"],
  ["$recursiveRef", "Write $ref, as JSON Schema 2020-12 does"],
  ["$async", "Schemas are checked at once"]
])

/** Keywords under which schemas stand that judge nothing until they are referred to. */
export const definitions: ReadonlySet<string> = new Set(["$defs", "definitions"])

/** Beside these the validator does not know which items were judged, and takes right ones for wrong, or wrong ones for right. */
const obscuring: ReadonlyArray<string> = [...inPlace, "$ref", "contains"]

/** Why a keyword is refused as it stands, though it is of the dialect: the validator would misjudge it. */
export const misjudged = (keyword: string, value: unknown, schema: object): string | undefined => {
  if (keyword === "enum" && Array.isArray(value) && value.length === 0) {
    return "An enum has a value at least; write false for a schema that nothing fits"
  }
  if (keyword !== "unevaluatedItems") return undefined
  const beside = obscuring.find((name) => Object.hasOwn(schema, name))
  return beside === undefined
    ? undefined
    : `unevaluatedItems does not go beside ${beside}: write items where the items are judged`
}
