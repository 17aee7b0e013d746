import { Array as Arr, Effect, Layer, type Redacted, type Types } from "effect"
import { HttpServerRequest, type HttpServerResponse } from "effect/http"
import {
  Authentication,
  type Authorized,
  CurrentPrincipal,
  type ScopeCheck,
  type ScopeCheckId,
  requires,
  requiresEither
} from "../../api/Authorization.ts"
import { type InsufficientScope, InvalidApiKey } from "../../api/Problems.ts"
import { type Scope, scopes } from "../../domain/identity/Scope.ts"
import { LoopTurns } from "../admission/LoopTurns.ts"
import { ApiKeys } from "../identity/ApiKeys.ts"
import { Revocations } from "../identity/Revocations.ts"
import { makeAuthenticatedResponse } from "./authenticatedResponse.ts"
import { ClientAddress } from "./ClientAddress.ts"
import { asCaller } from "./CurrentCaller.ts"
import { endFileWith } from "./endWith.ts"
import { makeFairReads } from "../admission/FairReads.ts"
import { insufficientScope } from "./insufficientScope.ts"
import { problemResponse } from "./problemResponse.ts"
import { makeRequestLog } from "./RequestLog.ts"
import { rateLimitExceeded, RateLimits } from "../admission/RateLimits.ts"
import { VerifiedCredentials } from "../admission/VerifiedCredentials.ts"

/** Authenticates a request by its bearer key, within the rate limit of the key. */
export const layer = Layer.effect(
  Authentication,
  Effect.gen(function* () {
    const keys = yield* ApiKeys
    const limits = yield* RateLimits
    const client = yield* ClientAddress
    const reads = yield* makeFairReads
    const log = yield* makeRequestLog
    const respond = yield* makeAuthenticatedResponse
    const turns = yield* LoopTurns
    const verified = yield* VerifiedCredentials
    const revocations = yield* Revocations
    /** Per address, one refused request is answered per pass of the event loop. */
    const authenticate = (credential: Redacted.Redacted<string>) =>
      Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) => {
        const address = client.of(request)
        const authorization = request.headers["authorization"] ?? ""
        return Effect.matchEffect(
          keys.authenticate(credential, { address, admit: limits.admitKeyLookup(address) }),
          {
            onFailure: (error) => {
              verified.remove(authorization)
              return Effect.andThen(turns.take(address), Effect.fail(misplacedKey(request) ?? error))
            },
            onSuccess: (principal) => {
              verified.add(authorization, principal.org_id)
              return Effect.succeed(principal)
            }
          }
        )
      })
    return Authentication.of({
      // Plain functions, not `Effect.fn`, because every operation runs them.
      api_key: (operation, { credential, endpoint }) =>
        Effect.flatMap(authenticate(credential), (principal) =>
          Effect.flatMap(log.caller(principal, limits.admitRequest(principal)), (quota) =>
            respond(
              principal,
              quota
            )(
              quota.refused === undefined
                ? Effect.map(
                    reads.run(
                      principal.org_id,
                      endpoint
                    )(asCaller(operation, principal, authenticate(credential))),
                    endFileWith(
                      revocations.awaitEnd({ org_id: principal.org_id, key_id: principal.actor.id })
                    )
                  )
                : problemResponse(rateLimitExceeded(quota.refused))
            )
          )
        )
    })
  })
)

/** The problem for a request whose key is missing or not a bearer token; undefined if it has a bearer token. */
const misplacedKey = ({ headers }: HttpServerRequest.HttpServerRequest): InvalidApiKey | undefined => {
  const { authorization } = headers
  if (authorization === undefined) return noKey
  return /^bearer /i.test(authorization) ? undefined : notBearer
}

const noKey = new InvalidApiKey({
  detail: "The request has no API key. Send the header `Authorization: Bearer csk_…`."
})
const notBearer = new InvalidApiKey({
  detail:
    "The Authorization header has no bearer token. Write `Bearer ` before the key: `Authorization: Bearer csk_…`."
})

const layerScopeCheck = <const S extends Scope>(scope: S): Layer.Layer<ScopeCheckId<S>> =>
  layerScopeCheckOf(requires(scope), [scope])

/** Authorizes principals that have any of these scopes. */
const layerScopeCheckOf = <S extends Scope>(
  scopeCheck: ScopeCheck<S>,
  scopes: Arr.NonEmptyReadonlyArray<Scope>
): Layer.Layer<ScopeCheckId<S>> => {
  const refused = Effect.fail(insufficientScope(scopes))
  return Layer.succeed(scopeCheck, (operation) =>
    Effect.flatMap(
      CurrentPrincipal,
      (
        principal
      ): Effect.Effect<
        HttpServerResponse.HttpServerResponse,
        InsufficientScope | Types.unhandled,
        CurrentPrincipal
      > => (scopes.some((scope) => principal.scopes.has(scope)) ? authorized(operation) : refused)
    )
  )
}

/** Marks the operation as authorized, after the scope of its principal was checked. */
const authorized = <A, E, S extends Scope>(
  operation: Effect.Effect<A, E, Authorized<S>>
): Effect.Effect<A, E, CurrentPrincipal> =>
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- `Authorized` is `CurrentPrincipal` at run time
  operation as Effect.Effect<A, E, never>

/** The authorization middleware of all scopes. */
export const layerScopeChecks: Layer.Layer<ScopeChecks> = Layer.mergeAll(
  layerScopeCheckOf(requiresEither("feedback.read", "datasets.write"), ["feedback.read", "datasets.write"]),
  layerScopeCheckOf(requiresEither("feedback.write", "feedback.create"), [
    "feedback.write",
    "feedback.create"
  ]),
  layerScopeCheckOf(requiresEither("feedback.create", "feedback.write"), [
    "feedback.create",
    "feedback.write"
  ]),
  layerScopeCheckOf(requiresEither("sessions.read", "sessions.write"), ["sessions.read", "sessions.write"]),
  layerScopeCheckOf(requiresEither("approvals.read", "sessions.write"), ["approvals.read", "sessions.write"]),
  layerScopeCheckOf(requiresEither("approvals.decide", "sessions.write"), [
    "approvals.decide",
    "sessions.write"
  ]),
  ...Arr.map(scopes, layerScopeCheck)
)

/** The services that `layerScopeChecks` provides. */
export type ScopeChecks = ScopeCheckId<Scope>
