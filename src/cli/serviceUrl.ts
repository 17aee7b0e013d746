import { Flag } from "effect/cli"

/** The service of a command that neither a flag nor a variable gives one. */
export const DEFAULT_URL = "http://127.0.0.1:8080"

/** The flag of the service's URL. */
export const serviceUrlFlag = Flag.String("url").pipe(
  Flag.withDescription(`Base URL of the service; default: the variable COUNTERSIGN_URL, or ${DEFAULT_URL}`),
  Flag.optional
)
