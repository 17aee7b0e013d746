import { Schema } from "effect"

/**
 * The pseudonym of an end user: a keyed digest of the ID that the organization has for the user. It tells the users of
 * one organization apart. The ID cannot be found from it, nor guessed, without the organization's pepper, and two
 * organizations have different pseudonyms for the same ID.
 */
export const EndUser = Schema.String.check(
  Schema.isPattern(/^eu_[0-9a-f]{32}$/u, {
    expected: "a pseudonym that reads eu_ and 32 lowercase hex digits"
  })
).pipe(Schema.brand("EndUser"))
export type EndUser = typeof EndUser.Type

/** The ID that an organization has for an end user, such as an account number. It is never stored. */
export const EndUserId = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(256))
