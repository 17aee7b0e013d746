import { type Cause, Context, Effect } from "effect"
import { errorsOf } from "./errorsOf.ts"

/**
 * Receives failed statements, so that an outage of the database is logged when it begins and when it ends, and not once
 * per request.
 */
export interface DatabaseOutage {
  /** Reports an error. Returns whether it belongs to an outage, which is logged: then the caller need not log it. */
  readonly report: (error: unknown) => Effect.Effect<boolean>
  /** Whether requests would fail now because the database refuses connections or writes. */
  readonly isDown: () => boolean
}

/** By default nothing is an outage, and every caller logs its failure itself. */
export const DatabaseOutage = Context.Reference<DatabaseOutage>(
  "countersign/server/observability/DatabaseOutage",
  { defaultValue: () => ({ report: () => Effect.succeed(false), isDown: () => false }) }
)

/** Logs a warning with its cause, unless the cause is an outage of the database: then at debug level. */
export const logFailure = (message: string, cause: Cause.Cause<unknown>): Effect.Effect<void> =>
  Effect.gen(function* () {
    const { report } = yield* DatabaseOutage
    for (const error of errorsOf(cause)) {
      if (yield* report(error)) return yield* Effect.logDebug(message, cause)
    }
    yield* Effect.logWarning(message, cause)
  })
