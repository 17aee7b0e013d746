import { Flag } from "effect/cli"

/** The organization that the first admin key belongs to, and that commands mean where none is named. */
export const DEFAULT_ORGANIZATION = "default"

/** `--org`: whose keys or datasets a command is about. */
export const org = Flag.String("org").pipe(
  Flag.withDescription(`Name of the organization; default: ${DEFAULT_ORGANIZATION}`),
  Flag.withDefault(DEFAULT_ORGANIZATION)
)
