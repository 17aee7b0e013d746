import type { Schema } from "effect"
import type { JsonObject } from "../../domain/tasks/Dataset.ts"

/** The most members of an object that one line tells, and the most characters of each. */
const MEMBERS = 3
const CHARACTERS = 80

/** What an object holds, for a line in a list: each member as its name and what it is. */
export const inWords = (value: Schema.Json): ReadonlyArray<string> =>
  isObject(value)
    ? Object.entries(value)
        .slice(0, MEMBERS)
        .map(([name, member]) => shortened(`${name}: ${textOf(member)}`))
    : [shortened(textOf(value))]

const isObject = (value: Schema.Json): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const textOf = (value: Schema.Json): string => (typeof value === "string" ? value : JSON.stringify(value))

const shortened = (text: string): string =>
  text.length <= CHARACTERS ? text : `${text.slice(0, CHARACTERS)}…`
