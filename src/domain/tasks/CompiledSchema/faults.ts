import { JsonPointer } from "effect"
import type { ErrorObject } from "ajv/dist/2020.js"
import { formatPointer, type SchemaFault } from "./SchemaFault.ts"

/** Most errors to report per check. */
export const MAX_FAULTS = 20

/**
 * The validator's errors as field errors, without duplicates, with `at` before each pointer. The pointer of a missing
 * or unexpected property names that property, and that of a surplus item names the item. No message contains a value.
 * `root` is the prepared schema of the errors: with it, a tagged union has the errors of one branch.
 */
export const faultsOf = (
  errors: ReadonlyArray<ErrorObject>,
  at: string,
  root?: object
): ReadonlyArray<SchemaFault> => {
  const faults = new Map<string, SchemaFault>()
  for (const error of root === undefined ? errors : ofChosenBranches(errors, root)) {
    const fault = { pointer: formatPointer(at, placeOf(error)), detail: detailOf(error) }
    faults.set(`${fault.pointer} ${fault.detail}`, fault)
    if (faults.size === MAX_FAULTS) break
  }
  return [...faults.values()]
}

/** Maximum number of errors that are searched for errors of other branches of unions. */
const MAX_INSPECTED = 200

/** Whether an error says that a value has the tag of another branch: a constant of a direct member. */
const isOtherTag = ({ instancePath, keyword }: ErrorObject, place: string): boolean =>
  (keyword === "const" || keyword === "enum") &&
  instancePath.startsWith(`${place}/`) &&
  !instancePath.slice(place.length + 1).includes("/")

/**
 * The errors, without errors of union branches that a tag rules out, such as `{ "kind": "dog" }` for a cat, if only one branch is left.
 * The errors of a union's branches precede its own.
 */
const ofChosenBranches = (errors: ReadonlyArray<ErrorObject>, root: object): ReadonlyArray<ErrorObject> => {
  const inspected = errors.slice(0, MAX_INSPECTED)
  const dropped = new Set<ErrorObject>()
  const known = new Map<unknown, ReadonlySet<unknown>>()
  const subschemas = (branch: unknown): ReadonlySet<unknown> => {
    const found = known.get(branch) ?? subschemasOf(branch, root)
    known.set(branch, found)
    return found
  }
  for (const [index, union] of inspected.entries()) {
    if (union.keyword !== "oneOf" && union.keyword !== "anyOf") continue
    const list: unknown = union.parentSchema?.[union.keyword]
    const branches = Array.isArray(list) ? list.map(subschemas) : []
    const within: Array<ErrorObject> = []
    for (let before = index - 1; before >= 0; before--) {
      const error = inspected[before]
      if (error?.instancePath.startsWith(union.instancePath) !== true) break
      if (branches.some((branch) => branch.has(error.parentSchema))) within.push(error)
    }
    const left = branches.filter(
      (branch) =>
        !within.some((error) => isOtherTag(error, union.instancePath) && branch.has(error.parentSchema))
    )
    const [chosen] = left
    if (chosen === undefined || left.length > 1 || branches.length === 1) continue
    dropped.add(union)
    for (const error of within) if (!chosen.has(error.parentSchema)) dropped.add(error)
  }
  return dropped.size === 0 ? errors : errors.filter((error) => !dropped.has(error))
}

/** A subschema and all within it, also through references. */
const subschemasOf = (schema: unknown, root: object): ReadonlySet<unknown> => {
  const found = new Set<unknown>()
  const left = [schema]
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    if (typeof next !== "object" || next === null || found.has(next)) continue
    found.add(next)
    for (const [keyword, inner] of Object.entries(next)) {
      left.push(keyword === "$ref" && typeof inner === "string" ? targetOf(inner, root) : inner)
    }
  }
  return found
}

/** The subschema that a resolved reference points to. */
const targetOf = (reference: string, root: object): unknown =>
  reference
    .slice(1)
    .split("/")
    .slice(1)
    .map((token) => JsonPointer.unescapeToken(decodeURIComponent(token)))
    .reduce<unknown>(
      (schema, token) =>
        typeof schema === "object" && schema !== null ? Reflect.get(schema, token) : undefined,
      root
    )

const placeOf = ({ instancePath, keyword, params }: ErrorObject): ReadonlyArray<string> => {
  const place = instancePath.split("/").slice(1).map(JsonPointer.unescapeToken)
  const last: unknown =
    params["missingProperty"] ??
    params["additionalProperty"] ??
    params["unevaluatedProperty"] ??
    params["propertyName"] ??
    // The first surplus item.
    (surplusItems.has(keyword) ? (params["limit"] ?? params["len"]) : undefined)
  return typeof last === "string" || typeof last === "number" ? [...place, String(last)] : place
}

const surplusItems = new Set(["items", "additionalItems", "unevaluatedItems", "maxItems"])

const detailOf = ({ keyword, message = "does not fit", params }: ErrorObject): string => {
  switch (keyword) {
    case "required":
      return "is required"
    case "dependentRequired":
      return `is required when ${clip(String(params["property"]))} is present`
    case "additionalProperties":
    case "unevaluatedProperties":
    case "false schema":
      return "is not allowed"
    case "propertyNames":
      return "has a name that is not allowed"
    case "enum":
      return Array.isArray(params["allowedValues"])
        ? `must be one of ${clip(JSON.stringify(params["allowedValues"]).slice(1, -1))}`
        : message
    case "const":
      return `must be ${clip(JSON.stringify(params["allowedValue"]))}`
    default:
      return clip(message)
  }
}

/** Longest message, in characters. The values that a schema allows can be long. */
const MAX_DETAIL = 300

const clip = (text: string): string =>
  (text.length > MAX_DETAIL ? `${text.slice(0, MAX_DETAIL)}…` : text).toWellFormed()
