import { describePathFailure } from "../fileFailure.ts"
import { describeServiceFailure } from "../serviceFailure.ts"

/** An error in words, for logs and messages. */
export const describe = (error: unknown): string =>
  describeServiceFailure(error, "--service") ??
  describePathFailure(error) ??
  (error instanceof Error ? error.message : String(error))
