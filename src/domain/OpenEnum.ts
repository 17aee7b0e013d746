import { Schema } from "effect"

/**
 * An extensible enum for responses: a known value, or any other string, which a later version of the service may send. A client that
 * rejected an unknown value would lose the whole response. Requests use the closed enum.
 */
export const openEnum = <const Known extends ReadonlyArray<string>>(
  known: Schema.Literals<Known>
): Schema.Codec<Known[number] | UnknownMember> => Schema.Union([known, Schema.String])

/** Any string; written so that editors still complete the known values beside it. */
export type UnknownMember = string & {}
