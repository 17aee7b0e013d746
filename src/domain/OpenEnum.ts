import { Schema } from "effect"

/**
 * What an answer has of a list that may grow: one of those known now, or the name that a later service has for it. A reader that refused
 * that would lose the whole answer for one word. What is asked stays strict.
 */
export const openEnum = <const Known extends ReadonlyArray<string>>(
  known: Schema.Literals<Known>
): Schema.Codec<Known[number] | UnknownMember> => Schema.Union([known, Schema.String])

/** Any text, beside which editors still offer the names that are known. */
export type UnknownMember = string & {}
