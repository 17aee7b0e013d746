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
const CANNOT_WORK = 2

/** The failure of a command that could not do its work: what happened, and what to do. */
export const commandFailed = (message: string): FailedWithCode =>
  new FailedWithCode({ exitCode: CANNOT_WORK, cause: new Error(message) })

/** The failure of a command that could not do its work, for any reason. */
export const toCommandFailure = (error: unknown): FailedWithCode =>
  error instanceof FailedWithCode ? error : new FailedWithCode({ exitCode: CANNOT_WORK, cause: error })

/** The exit code of a failed command. An invalid command line exits with 2, as of most programs. */
export const exitCodeOf = (cause: Cause.Cause<unknown>): number => {
  const error = Cause.squash(cause)
  if (error instanceof FailedWithCode) return error.exitCode
  return isCliError(error) ? CANNOT_WORK : 1
}
