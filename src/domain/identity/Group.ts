import { Schema } from "effect"

/** The most groups of one API key. */
export const MAX_GROUPS = 10

/** A group's name. In lowercase ASCII, so that names that look alike are equal. */
export const Group = Schema.String.check(
  Schema.isPattern(/^[a-z0-9][a-z0-9._-]{0,62}$/u, {
    expected: "1 to 63 lowercase letters, digits, dots, hyphens and underscores, with a letter or digit first"
  })
)
export type Group = typeof Group.Type
