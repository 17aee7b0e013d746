import { Predicate, Result, type Schema } from "effect"
import { isJsonArray } from "../json/isJsonArray.ts"
import type { JsonObject } from "./Dataset.ts"
import type { JsonSchema } from "./Task.ts"

/** Variables of one template: each may insert a large value. */
const MAX_VARIABLES = 100

/** Characters of instructions with their variables filled in. */
const MAX_RENDERED = 1_000_000

/** Longest path of a variable. */
const MAX_PATH = 200

/**
 * A variable: `{{input}}`, `{{input.customer.name}}` or, with names that have other characters, `{{input/customer/first name}}`, whose part
 * after `input` is a JSON Pointer. Any other text, also in double braces, stays as it is.
 */
const VARIABLE = new RegExp(String.raw`\{\{[ \t]*input([./][^{}\r\n]{0,${MAX_PATH}})?[ \t]*\}\}`, "g")

/** A variable of instructions. */
export interface TemplateVariable {
  /** As it is written. */
  readonly text: string
  /** The names of the members on the way from the input to the value. */
  readonly path: ReadonlyArray<string>
}

const pathOf = (written: string | undefined): ReadonlyArray<string> => {
  const path = written?.trimEnd() ?? ""
  if (path === "") return []
  const names = path.slice(1).split(path.startsWith("/") ? "/" : ".")
  return path.startsWith("/") ? names.map((name) => name.replaceAll("~1", "/").replaceAll("~0", "~")) : names
}

/** The variables of instructions, in order. */
export const templateVariables = (instructions: string): ReadonlyArray<TemplateVariable> =>
  [...instructions.matchAll(VARIABLE)].map(([text, path]) => ({ text, path: pathOf(path) }))

/**
 * Why instructions cannot be used with an input schema, as a sentence: too many variables, an empty name, or a variable that no valid input
 * has. The schema may allow no other members than it names. Undefined if they can be used.
 */
export const templateFault = (instructions: string, schema: JsonSchema): string | undefined => {
  const variables = templateVariables(instructions)
  if (variables.length > MAX_VARIABLES) return `Expected at most ${MAX_VARIABLES} variables`
  const work = { left: MAX_JUDGED }
  for (const { path, text } of variables) {
    if (path.includes("")) return `${text} has an empty name`
    if (!mayHave(schema, { path, root: schema, work }))
      return `${text} is not in the input: the input schema has no such field`
  }
  return undefined
}

/**
 * Instructions with the variables replaced by the values of the input: texts as they are, other values as JSON, missing values as nothing.
 * A value is never read as a template. Fails with a sentence if the result is too long.
 */
export const renderInstructions = (
  instructions: string,
  input: JsonObject
): Result.Result<string, string> => {
  const parts: Array<string> = []
  let length = 0
  let at = 0
  const append = (part: string): boolean => {
    parts.push(part)
    length += part.length
    return length <= MAX_RENDERED
  }
  const tooLong = Result.fail(
    `The instructions with the input's values are longer than ${MAX_RENDERED.toLocaleString("en")} characters.`
  )
  for (const match of instructions.matchAll(VARIABLE)) {
    const [text, path] = match
    if (!append(instructions.slice(at, match.index)) || !append(textOf(valueAt(input, pathOf(path)))))
      return tooLong
    at = match.index + text.length
  }
  return append(instructions.slice(at)) ? Result.succeed(parts.join("")) : tooLong
}

const textOf = (value: Schema.Json | undefined): string =>
  value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value)

const isObject = (value: Schema.Json | undefined): value is Schema.JsonObject =>
  Predicate.isReadonlyObject(value) && !Array.isArray(value)

/** A member's own value; never one of a prototype. */
const memberOf = (value: Schema.Json | undefined, name: string): Schema.Json | undefined => {
  if (isJsonArray(value)) return /^\d{1,9}$/.test(name) ? value[Number(name)] : undefined
  return isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined
}

const valueAt = (value: Schema.Json, path: ReadonlyArray<string>): Schema.Json | undefined =>
  path.reduce<Schema.Json | undefined>(memberOf, value)

/** References that are followed: one may refer to itself. */
const MAX_REFERENCES = 32

/** Parts of the schema that are judged for all variables together. Each may lead to two others, so that there are many ways to a name. */
const MAX_JUDGED = 10_000

/** The judgement of a path in a schema. */
interface Judging {
  readonly path: ReadonlyArray<string>
  readonly root: JsonSchema
  readonly work: { left: number }
}

/**
 * Whether a value that fits the schema may have something at the rest of the path. It may, unless a schema on the way allows no members but
 * others, or only values without members. Keywords that this does not read, and what it has no work left for, are taken to allow everything.
 */
const mayHave = (schema: Schema.Json | undefined, judging: Judging, at = 0, references = 0): boolean => {
  const { path, root, work } = judging
  const name = path[at]
  if (schema === false) return false
  if (name === undefined || !isObject(schema) || references > MAX_REFERENCES || work.left <= 0) return true
  work.left--
  const { $ref, items, patternProperties, prefixItems, properties, type } = schema
  const target = typeof $ref === "string" ? referenced($ref, root) : undefined
  if (target !== undefined && !mayHave(target, judging, at, references + 1)) return false
  const types = typeof type === "string" ? [type] : isJsonArray(type) ? type : ["object", "array"]
  const mayHaveRest = (next: Schema.Json | undefined) => mayHave(next, judging, at + 1, references)
  const asObject = (): boolean => {
    const property = memberOf(properties, name)
    if (property !== undefined) return mayHaveRest(property)
    if (isObject(patternProperties) && Object.keys(patternProperties).length > 0) return true
    const hasApplicators = ["$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "dependentSchemas"].some(
      (keyword) => keyword in schema
    )
    if (schema["unevaluatedProperties"] === false && !hasApplicators) return false
    return mayHaveRest(schema["additionalProperties"])
  }
  const asArray = (): boolean => {
    if (!/^\d{1,9}$/.test(name)) return false
    const item = isJsonArray(prefixItems) ? prefixItems[Number(name)] : undefined
    return mayHaveRest(item ?? items)
  }
  return (types.includes("object") && asObject()) || (types.includes("array") && asArray())
}

/** The schema that a local reference names; undefined for any other one. */
const referenced = (reference: string, root: JsonSchema): Schema.Json | undefined => {
  if (!reference.startsWith("#/") && reference !== "#") return undefined
  const names = reference
    .slice(2)
    .split("/")
    .filter((name) => name !== "")
    .map((name) => decoded(name).replaceAll("~1", "/").replaceAll("~0", "~"))
  return valueAt(root, names)
}

const decoded = (name: string): string => {
  try {
    return decodeURIComponent(name)
  } catch {
    return name
  }
}
