import { type Cause, Effect } from "effect"
import { SqlError } from "effect/sql"
import { InternalError, Unavailable } from "../../api/Problems.ts"
import type { DatabaseOutage } from "../observability/DatabaseOutage.ts"
import { errorsOf } from "../observability/errorsOf.ts"
import { RequestId } from "../observability/RequestId.ts"
import { describeDatabaseError, isDatabaseUnavailable } from "../store/databaseErrors.ts"

/** The problem for a fault of the service, which is logged: 503 if the database is unavailable, otherwise 500. */
export const faultProblem = (
  cause: Cause.Cause<unknown>,
  outage: DatabaseOutage
): Effect.Effect<Unavailable | InternalError> => {
  for (const error of errorsOf(cause)) {
    if (SqlError.isSqlError(error) && isDatabaseUnavailable(error)) {
      return Effect.as(withRequestId(logUnavailable(error, outage)), unavailable)
    }
  }
  return Effect.as(withRequestId(Effect.logError("Unhandled error while serving a request", cause)), internal)
}

const unavailable = new Unavailable({ detail: "The database is unavailable; retry shortly." })

const internal = new InternalError({ detail: "Internal error. Include the request id if you report it." })

/**
 * A request that fails during an outage of the database has no log line of its own: thousands of them would hide the
 * one with the cause.
 */
const logUnavailable = (error: SqlError.SqlError, { report }: DatabaseOutage): Effect.Effect<void> =>
  Effect.flatMap(report(error), (isOutage) => {
    const line = `The database could not serve a request: ${describeDatabaseError(error)}`
    return isOutage ? Effect.logDebug(line) : Effect.logWarning(line)
  })

/** Adds the request id to a log line, so that the id of a response finds the line. */
const withRequestId = (line: Effect.Effect<void>): Effect.Effect<void> =>
  Effect.flatMap(RequestId, (request_id) => Effect.annotateLogs(line, { request_id }))
