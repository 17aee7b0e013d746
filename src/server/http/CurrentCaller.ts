import { Clock, Context, Effect } from "effect"
import type { HttpServerRequest, HttpServerResponse } from "effect/http"
import { CurrentPrincipal } from "../../api/Authorization.ts"
import type { AddressNotAllowed, InvalidApiKey, RateLimited } from "../../api/Problems.ts"
import type { Principal } from "../../domain/identity/Principal.ts"
import { monotonicMillis } from "../concurrency/monotonicMillis.ts"
import { problemResponse } from "./problemResponse.ts"

/**
 * How old an authentication may be when the operation runs, in milliseconds. The body of a request can come much later than its key, and a
 * request can wait for its turn: a key that ended in between is refused, within the second that the limit of `Revocations` has left.
 */
const MAX_AGE_MILLIS = 1_000

/** The authentication of a request. */
interface Caller {
  /** When it was, in milliseconds on the monotonic clock. */
  readonly authenticatedAt: number
  /** Authenticates once more. */
  readonly authenticate: Effect.Effect<
    Principal,
    InvalidApiKey | AddressNotAllowed | RateLimited,
    HttpServerRequest.HttpServerRequest
  >
}

const CurrentCaller = Context.Reference<Caller | undefined>("countersign/server/http/CurrentCaller", {
  defaultValue: () => undefined
})

/** Runs an operation as a principal that was just authenticated. */
export const asCaller = <A, E, R>(
  operation: Effect.Effect<A, E, R>,
  principal: Principal,
  authenticate: Caller["authenticate"]
): Effect.Effect<A, E, Exclude<R, CurrentPrincipal>> =>
  Effect.clockWith((clock) =>
    operation.pipe(
      Effect.provideService(CurrentPrincipal, principal),
      Effect.provideService(CurrentCaller, { authenticatedAt: monotonicMillis(clock), authenticate })
    )
  )

/** Runs an operation after its request was read: authenticates the caller again if that is long ago. Others have no caller. */
export const ifStillAuthenticated = <E, R>(
  operation: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
): Effect.Effect<HttpServerResponse.HttpServerResponse, E, R | HttpServerRequest.HttpServerRequest> =>
  Effect.withFiber<HttpServerResponse.HttpServerResponse, E, R | HttpServerRequest.HttpServerRequest>(
    (fiber) => {
      const caller = Context.get(fiber.context, CurrentCaller)
      if (caller === undefined) return operation
      const age = monotonicMillis(Context.get(fiber.context, Clock.Clock)) - caller.authenticatedAt
      if (age < MAX_AGE_MILLIS) return operation
      return Effect.matchEffect(caller.authenticate, {
        onFailure: problemResponse,
        onSuccess: (principal) => Effect.provideService(operation, CurrentPrincipal, principal)
      })
    }
  )
