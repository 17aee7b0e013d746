import { Schema } from "effect"
import { Flag } from "effect/cli"

/** The organization of the first admin key, and the default of `--org`. */
export const DEFAULT_ORGANIZATION = "default"

/** `--org`: the organization whose keys or datasets a command works on. */
export const org = Flag.String("org").pipe(
  Flag.withDescription(`Organization name; default: ${DEFAULT_ORGANIZATION}`),
  // `--org "$ORG"` with an unset variable.
  Flag.withSchema(Schema.NonEmptyString),
  Flag.withDefault(DEFAULT_ORGANIZATION)
)
