import { Cause, Effect, References, Result } from "effect"
import { logFormat } from "../server/config/Settings/logFormat.ts"
import { errorMessage, isDefect } from "./errorMessage.ts"
import { exitCodeOf, FailedWithCode, FailureLogged } from "./exitCode.ts"

const isJson = (format: string | undefined): boolean =>
  format !== undefined && Result.getOrUndefined(logFormat(format.trim())) === "json"

/**
 * Reports the failure of a command as a line of the log if `COUNTERSIGN_LOG_FORMAT` is `json`: a collector of logs parses the reason why a
 * process ended as it does every other line. The line is FATAL, and no level hides it. The exit code is the same.
 */
export const logFailure = <A, E, R>(
  command: Effect.Effect<A, E, R>
): Effect.Effect<A, E | FailedWithCode, R> =>
  Effect.catchCause(command, (cause): Effect.Effect<never, E | FailedWithCode> => {
    const isLogged = isJson(process.env["COUNTERSIGN_LOG_FORMAT"]) && !Cause.hasInterruptsOnly(cause)
    const message = isLogged ? errorMessage(cause) : undefined
    if (message === undefined) return Effect.failCause(cause)
    return (isDefect(cause) ? Effect.logFatal(message, cause) : Effect.logFatal(message)).pipe(
      Effect.provideService(References.MinimumLogLevel, "All"),
      Effect.andThen(
        Effect.fail(new FailedWithCode({ exitCode: exitCodeOf(cause), cause: new FailureLogged() }))
      )
    )
  })
