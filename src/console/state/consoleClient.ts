/** The console's own operations, as this page calls them: by the cookie of its session. */
import { Effect, Layer } from "effect"
import { FetchHttpClient, HttpClient } from "effect/http"
import { HttpApiClient, HttpApiMiddleware } from "effect/http-api"
import { Authentication } from "../../api/Authorization.ts"
import { ConsoleApi } from "../../api/Console.ts"
import { endSession } from "./session.ts"

const REQUEST_INIT: RequestInit = { credentials: "same-origin", redirect: "error", cache: "no-store" }

/** An answer that nobody is signed in shows the sign-in, whatever was asked. */
const detectSignedOut = HttpClient.tap((response) =>
  Effect.sync(() => {
    if (response.status === 401) endSession()
  })
)

/** How this page asks its service. */
export const sessionHttpClient = Layer.effect(
  HttpClient.HttpClient,
  Effect.map(HttpClient.HttpClient, detectSignedOut)
).pipe(
  Layer.provide(FetchHttpClient.layer),
  Layer.provide(Layer.succeed(FetchHttpClient.RequestInit, REQUEST_INIT))
)

const cookieAuthentication = HttpApiMiddleware.layerClient(Authentication, ({ next, request }) =>
  next(request)
)

/** The operations. */
export const consoleClient = Effect.runSync(
  Effect.scoped(
    HttpApiClient.make(ConsoleApi).pipe(
      Effect.provide(Layer.mergeAll(sessionHttpClient, cookieAuthentication))
    )
  )
)
