import type { Schema } from "effect"
import { MAX_CONTENT_CHARACTERS } from "../../../domain/telemetry/SpanConventions.ts"

/** Content of a trace by name (inputs, answers, arguments, results). Exported only if the organization enabled content. */
export type Content = Readonly<Record<string, Schema.Json>>

export const noContent: Content = {}

/** Replaces a value that is too long to export. */
export const TOO_LONG = "[too long to be exported]"

/**
 * Caps content for buffering: replaces values that are too long to export, and returns the approximate length of the
 * rest in characters. Takes some µs; for an object with hundreds of thousands of keys a fraction of the time that
 * parsing it took.
 */
export const capContent = (content: Content): { readonly content: Content; readonly characters: number } => {
  const capped: Record<string, Schema.Json> = {}
  let characters = 0
  for (const [name, value] of Object.entries(content)) {
    const left = remainingCharacters(MAX_CONTENT_CHARACTERS, value)
    capped[name] = left < 0 ? TOO_LONG : value
    characters += left < 0 ? TOO_LONG.length : MAX_CONTENT_CHARACTERS - left
  }
  return { content: capped, characters }
}

/** Subtracts the approximate JSON length of a value from `characters`. Stops as soon as the result is negative. */
const remainingCharacters = (characters: number, value: Schema.Json): number => {
  if (typeof value === "string") return characters - value.length - 2
  if (typeof value !== "object" || value === null) return characters - 1
  let left = characters - 1
  if (isList(value)) {
    for (const one of value) {
      if (left < 0) break
      left = remainingCharacters(left - 1, one)
    }
  } else {
    // Not `Object.entries`, which would build the whole list first.
    for (const name in value) {
      if (left < 0) break
      left = remainingCharacters(left - name.length - 4, value[name] ?? null)
    }
  }
  return left
}

const isList = (value: Schema.Json): value is ReadonlyArray<Schema.Json> => Array.isArray(value)
