import { Effect, Layer } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { Authentication } from "../../../api/Authorization.ts"
import { KEY_HEADER, SESSION_PARAMETER } from "../../../api/Console.ts"
import { InvalidApiKey } from "../../../api/Problems.ts"
import type { ConsoleSessionId } from "../../../domain/Ids.ts"
import { ConsoleSessions } from "../ConsoleSessions.ts"
import { makeAuthenticatedResponse } from "../../http/authenticatedResponse.ts"
import { ClientAddress } from "../../http/ClientAddress.ts"
import { makeFairReads } from "../../admission/FairReads.ts"
import { asCaller } from "../../http/CurrentCaller.ts"
import { endWith } from "../../http/endWith.ts"
import { problemResponse } from "../../http/problemResponse.ts"
import { makeRequestLog } from "../../http/RequestLog.ts"
import { rateLimitExceeded, RateLimits } from "../../admission/RateLimits.ts"
import { isActive, sessionToken } from "./browserRequest.ts"

/**
 * Authenticates a request by its session cookie, as the principal of the session's API key. Bearer keys are ignored here, as cookies are
 * under `/v1`. A streamed response ends when its session ends, for any reason.
 */
export const layer = Layer.effect(
  Authentication,
  Effect.gen(function* () {
    const sessions = yield* ConsoleSessions
    const limits = yield* RateLimits
    const client = yield* ClientAddress
    const reads = yield* makeFairReads
    const log = yield* makeRequestLog
    const respond = yield* makeAuthenticatedResponse
    return Authentication.of({
      api_key: Effect.fnUntraced(function* (operation, { endpoint }) {
        const request = yield* HttpServerRequest.HttpServerRequest
        const address = client.of(request)
        const find = sessions.find(sessionToken(request), {
          address,
          admit: limits.admitKeyLookup(address),
          isActive: isActive(request)
        })
        const session = yield* find
        const { principal } = session
        if (namesOtherSession(request.url, session.view.id)) return yield* otherSession
        const quota = yield* log.caller(principal, limits.admitRequest(principal))
        const handled =
          quota.refused === undefined
            ? reads.run(
                principal.org_id,
                endpoint
              )(
                asCaller(
                  operation,
                  principal,
                  Effect.map(find, (again) => again.principal)
                )
              )
            : problemResponse(rateLimitExceeded(quota.refused))
        const response = yield* respond(principal, quota)(handled)
        return HttpServerResponse.setHeader(
          endWith(sessions.ended(session))(response),
          KEY_HEADER,
          principal.actor.id
        )
      })
    })
  })
)

/** Whether a request names a session, and it is not that of its cookie: see `SESSION_PARAMETER`. */
const namesOtherSession = (url: string, id: ConsoleSessionId): boolean => {
  const named = new URLSearchParams(url.split("?", 2)[1]).get(SESSION_PARAMETER)
  return named !== null && named !== id
}

const otherSession = Effect.suspend(() =>
  Effect.fail(new InvalidApiKey({ detail: "The browser is signed in with another session by now." }))
)
