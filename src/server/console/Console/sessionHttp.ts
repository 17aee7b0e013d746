import { Effect, Option, Redacted } from "effect"
import { HttpEffect, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { ConsoleApi, InsecureAddress } from "../../../api/Console.ts"
import { ConsoleSessions, SESSION_LIFETIME } from "../ConsoleSessions.ts"
import { rateLimitExceeded, RateLimits } from "../../http/RateLimits.ts"
import { cookieFor, transportOf, sessionToken } from "./browserRequest.ts"

/** The handlers of `/console/session`. */
export const ConsoleSessionHttp = HttpApiBuilder.group(
  ConsoleApi,
  "session",
  Effect.fnUntraced(function* (handlers) {
    const sessions = yield* ConsoleSessions
    const limits = yield* RateLimits
    return handlers.handleAll({
      sign_in: Effect.fnUntraced(function* ({ payload, request }) {
        const by = transportOf(request)
        if (by === "open") return yield* insecure
        const { session, token } = yield* sessions.open(Redacted.make(payload.key.trim()), {
          lookUp: limits.admitKeyLookup(Option.getOrElse(request.remoteAddress, () => "unknown")),
          request: (key) =>
            Effect.flatMap(limits.admitRequest(key), (quota) =>
              quota.allowed ? Effect.void : Effect.fail(rateLimitExceeded(quota))
            )
        })
        const { name, options } = cookieFor(by)
        yield* HttpEffect.appendPreResponseHandler((_request, response) =>
          Effect.orDie(
            HttpServerResponse.setCookie(response, name, Redacted.value(token), {
              ...options,
              maxAge: SESSION_LIFETIME
            })
          )
        )
        return session
      }),
      get: ({ request }) =>
        sessions.find(sessionToken(request)).pipe(
          Effect.map(({ view }) => view),
          Effect.catchTag("INVALID_API_KEY", () => Effect.succeed(null))
        ),
      sign_out: Effect.fnUntraced(function* ({ request }) {
        yield* sessions.close(sessionToken(request))
        yield* HttpEffect.appendPreResponseHandler((_request, response) =>
          Effect.reduce(
            ["https", "loopback"] as const,
            () => response,
            (answer, by) => {
              const { name, options } = cookieFor(by)
              return Effect.orDie(HttpServerResponse.setCookie(answer, name, "", { ...options, maxAge: 0 }))
            }
          )
        )
      })
    })
  })
)

const insecure = Effect.fail(
  new InsecureAddress({
    detail:
      "This page came over plain http from another machine, where others could read the key. Put the service behind https and set COUNTERSIGN_PUBLIC_URL, or open it on the machine itself at http://localhost"
  })
)
