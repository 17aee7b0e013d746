import { Effect, Redacted } from "effect"
import { HttpEffect, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { ConsoleApi, InsecureAddress } from "../../../api/Console.ts"
import { PAGE_HEADER } from "../../../api/console/pageToken.ts"
import { ConsoleSessions, SESSION_LIFETIME } from "../ConsoleSessions.ts"
import { SingleSignOn } from "../SingleSignOn.ts"
import { ClientAddress } from "../../http/ClientAddress.ts"
import { rateLimitExceeded, RateLimits } from "../../admission/RateLimits.ts"
import { cookieFor, isActive, sessionToken, splitToken, transportOf } from "./browserRequest.ts"

/** The handlers of `/console/session`. */
export const ConsoleSessionHttp = HttpApiBuilder.group(
  ConsoleApi,
  "session",
  Effect.fnUntraced(function* (handlers) {
    const sessions = yield* ConsoleSessions
    const limits = yield* RateLimits
    const client = yield* ClientAddress
    const { provider } = yield* SingleSignOn
    return handlers.handleAll({
      sign_in: Effect.fnUntraced(function* ({ payload, request }) {
        const transport = transportOf(request)
        if (transport === "open") return yield* insecureAddress
        const address = client.of(request)
        const { session, token } = yield* sessions.open(Redacted.make(payload.key.trim()), {
          address,
          userAgent: request.headers["user-agent"],
          admit: limits.admitKeyLookup(address),
          request: (principal) =>
            Effect.flatMap(limits.admitRequest(principal), (quota) =>
              quota.refused === undefined ? Effect.void : Effect.fail(rateLimitExceeded(quota.refused))
            )
        })
        // The new cookie replaces the browser's old one, whose session would otherwise stay open without an owner.
        yield* sessions.close(sessionToken(request), Effect.void)
        const { name, options } = cookieFor(transport, request)
        const { cookie, page } = splitToken(transport, token)
        yield* HttpEffect.appendPreResponseHandler((_request, response) =>
          Effect.orDie(
            HttpServerResponse.setCookie(
              page === undefined ? response : HttpServerResponse.setHeader(response, PAGE_HEADER, page),
              name,
              cookie,
              { ...options, maxAge: SESSION_LIFETIME }
            )
          )
        )
        return session
      }),
      get: ({ request }) => {
        const address = client.of(request)
        return sessions
          .find(sessionToken(request), {
            address,
            admit: limits.admitKeyLookup(address),
            isActive: isActive(request)
          })
          .pipe(
            Effect.map(({ view }) => view),
            Effect.catchTag(["INVALID_API_KEY", "ADDRESS_NOT_ALLOWED"], () => Effect.succeed(null))
          )
      },
      ways: () => Effect.succeed({ single_sign_on: provider }),
      sign_out: Effect.fnUntraced(function* ({ request }) {
        yield* sessions.close(sessionToken(request), limits.admitKeyLookup(client.of(request)))
        yield* HttpEffect.appendPreResponseHandler((_request, response) =>
          Effect.reduce(
            ["https", "loopback"] as const,
            () => response,
            (cleared, transport) => {
              const { name, options } = cookieFor(transport, request)
              return Effect.orDie(HttpServerResponse.setCookie(cleared, name, "", { ...options, maxAge: 0 }))
            }
          )
        )
      })
    })
  })
)

const insecureAddress = Effect.fail(
  new InsecureAddress({
    detail:
      "The console was opened over plain HTTP from another machine, where others on the network could read the key. " +
      "Serve it over HTTPS and set COUNTERSIGN_PUBLIC_URL, or open it on the same machine at http://localhost."
  })
)
