import type { Schema } from "effect"
import type { JsonObject } from "../../domain/tasks/Dataset.ts"

/** The most members of an object in a summary, and the most characters of each. */
const MAX_MEMBERS = 3
const MAX_CHARACTERS = 80

/** Summarizes a JSON value for a line of a list: `name: value` for the first members of an object, else the value itself. */
export const summarizeJson = (value: Schema.Json): ReadonlyArray<string> =>
  isObject(value)
    ? Object.entries(value)
        .slice(0, MAX_MEMBERS)
        .map(([name, member]) => truncate(`${name}: ${toText(member)}`))
    : [truncate(toText(value))]

const isObject = (value: Schema.Json): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const toText = (value: Schema.Json): string => (typeof value === "string" ? value : JSON.stringify(value))

const truncate = (text: string): string =>
  text.length <= MAX_CHARACTERS ? text : `${text.slice(0, MAX_CHARACTERS)}…`

/** Summarizes a JSON object from the start of its text, which may end anywhere. */
export const summarizeJsonStart = (start: string): string => {
  try {
    return summarizeJson(JSON.parse(start)).join(" · ")
  } catch {
    // Cut off: its first member as it is written.
    return truncate(start.replace(/^\{\s*"((?:[^"\\]|\\.)*)"\s*:\s*"?/u, "$1: "))
  }
}
