/** Suggestions for conditions: the places and values of the arguments that agents have sent. */
import type { Schema } from "effect"
import { JsonPointer } from "effect"

/** Places and values per place that are suggested. */
const MAX_PLACES = 100
const MAX_VALUES = 10

/** Deepest place, and longest text, that is suggested. */
const MAX_DEPTH = 6
const MAX_TEXT = 100

/** Longest pointer that a condition can have. */
const MAX_POINTER = 500

/** The values found at each pointer, as JSON texts. */
export type ArgumentSuggestions = ReadonlyMap<string, ReadonlyArray<string>>

/** Collects places and their values, the first ones found. An array is one place: its elements are for conditions on elements. */
export const suggestionsOf = (examples: ReadonlyArray<Schema.Json>): ArgumentSuggestions => {
  const found = new Map<string, Array<string>>()
  const add = (pointer: string, value: Schema.Json, depth: number): void => {
    const isContainer = typeof value === "object" && value !== null
    if (pointer !== "") {
      const values = found.get(pointer) ?? []
      if (!found.has(pointer)) {
        if (found.size >= MAX_PLACES || pointer.length > MAX_POINTER) return
        found.set(pointer, values)
      }
      const text = isContainer ? "" : JSON.stringify(value)
      if (!isContainer && text.length <= MAX_TEXT && values.length < MAX_VALUES && !values.includes(text)) {
        values.push(text)
      }
    }
    if (!isContainer || Array.isArray(value) || depth === MAX_DEPTH) return
    for (const [name, member] of Object.entries(value)) {
      add(`${pointer}/${JsonPointer.escapeToken(name)}`, member, depth + 1)
    }
  }
  for (const example of examples) add("", example, 0)
  return found
}
