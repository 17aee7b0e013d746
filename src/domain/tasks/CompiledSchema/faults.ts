import { JsonPointer } from "effect"
import type { ErrorObject } from "ajv/dist/2020.js"
import { formatPointer, type SchemaFault } from "./SchemaFault.ts"

/** Most errors to report per check. */
export const MAX_FAULTS = 20

/**
 * The validator's errors as field errors, without duplicates, with `at` before each pointer. The pointer of a missing
 * or unexpected property names that property, and that of a surplus item names the item. No message contains a value.
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
