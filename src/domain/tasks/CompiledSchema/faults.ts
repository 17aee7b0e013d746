import { JsonPointer } from "effect"
import type { ErrorObject } from "ajv/dist/2020.js"
import { formatPointer, type SchemaFault } from "./SchemaFault.ts"

/** The most faults that one check names. */
export const MAX_FAULTS = 20

/**
 * What the validator found, as a caller is told: each fault once, at the field itself, `at` before each pointer. Of a missing or
 * surplus property that is the property, of a surplus item the item. No sentence holds a value.
 */
export const faultsOf = (errors: ReadonlyArray<ErrorObject>, at: string): ReadonlyArray<SchemaFault> => {
  const faults = new Map<string, SchemaFault>()
  for (const error of errors) {
    const fault = { pointer: formatPointer(at, placeOf(error)), detail: detailOf(error) }
    faults.set(`${fault.pointer} ${fault.detail}`, fault)
    if (faults.size === MAX_FAULTS) break
  }
  return [...faults.values()]
}

const placeOf = ({ instancePath, keyword, params }: ErrorObject): ReadonlyArray<string> => {
  const place = instancePath.split("/").slice(1).map(JsonPointer.unescapeToken)
  const own: unknown =
    params["missingProperty"] ??
    params["additionalProperty"] ??
    params["unevaluatedProperty"] ??
    params["propertyName"] ??
    // Of too many items the first that is too many.
    (surplusItems.has(keyword) ? (params["limit"] ?? params["len"]) : undefined)
  return typeof own === "string" || typeof own === "number" ? [...place, String(own)] : place
}

const surplusItems = new Set(["items", "additionalItems", "unevaluatedItems", "maxItems"])

const detailOf = ({ keyword, message = "does not fit", params }: ErrorObject): string => {
  switch (keyword) {
    case "required":
      return "is required"
    case "dependentRequired":
      return `is required when ${clip(String(params["property"]))} is there`
    case "additionalProperties":
    case "unevaluatedProperties":
    case "false schema":
      return "is not allowed"
    case "propertyNames":
      return "is a name that is not allowed"
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

/** Longest sentence: what a schema allows may be long. */
const MAX_DETAIL = 300

const clip = (text: string): string =>
  (text.length > MAX_DETAIL ? `${text.slice(0, MAX_DETAIL)}…` : text).toWellFormed()
