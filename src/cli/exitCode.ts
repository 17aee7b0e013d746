import { Cause, Data } from "effect"
import { isCliError } from "effect/cli/CliError"

/** A failure after which the process exits with a code of its own. It is described by its cause. */
export class FailedWithCode extends Data.TaggedError("FailedWithCode")<{
  readonly exitCode: number
  readonly cause: unknown
}> {}

/** A failure that was reported already, as a line of the log. */
export class FailureLogged extends Data.TaggedError("FailureLogged") {}

/** Exit code of a command that could not do its work, if 1 means a result of that work, as of `diff` and `grep`. */
export const TROUBLE = 2

/** The exit code of a failed command. An invalid command line exits with 2, as of most programs. */
export const exitCodeOf = (cause: Cause.Cause<unknown>): number => {
  const error = Cause.squash(cause)
  if (error instanceof FailedWithCode) return error.exitCode
  return isCliError(error) ? TROUBLE : 1
}
