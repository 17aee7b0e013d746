import type { Schema } from "effect"
import { MAX_CONTENT_CHARACTERS } from "../../../domain/telemetry/SpanConventions.ts"

/** What of a trace goes out only where its organization switched content on: inputs, answers, arguments and results, by name. */
export type Content = Readonly<Record<string, Schema.Json>>

export const noContent: Content = {}

/** Stands for what is too long to be exported. */
export const TOO_LONG = "[too long to be exported]"

/**
 * Content as it is held until it is encoded: without what is too long to be exported, and with how many characters the rest has, about.
 * Takes some µs; of an object with hundreds of thousands of names a fraction of what reading it took.
 */
export const capContent = (content: Content): { readonly content: Content; readonly characters: number } => {
  const held: Record<string, Schema.Json> = {}
  let characters = 0
  for (const [name, value] of Object.entries(content)) {
    const left = remainingCharacters(MAX_CONTENT_CHARACTERS, value)
    held[name] = left < 0 ? TOO_LONG : value
    characters += left < 0 ? TOO_LONG.length : MAX_CONTENT_CHARACTERS - left
  }
  return { content: held, characters }
}

/** What is left of so many characters after a value's JSON, which may have some more; below zero the rest is not looked at. */
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
    // Not by its entries, all of which would be laid out first.
    for (const name in value) {
      if (left < 0) break
      left = remainingCharacters(left - name.length - 4, value[name] ?? null)
    }
  }
  return left
}

const isList = (value: Schema.Json): value is ReadonlyArray<Schema.Json> => Array.isArray(value)
