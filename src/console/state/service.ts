/** The service, as this page calls it: by the typed client, and by the cookie of its session. */
import { Context, Effect, Layer } from "effect"
import { FetchHttpClient, HttpClient } from "effect/http"
import { HttpApiClient, HttpApiMiddleware } from "effect/http-api"
import { Authentication } from "../../api/Authorization.ts"
import { CONSOLE_API_PATH, ConsoleApi } from "../../api/Console.ts"
import { Client } from "../../client/Client.ts"
import { sessionOver } from "./session.ts"

const OWN_REQUESTS: RequestInit = { credentials: "same-origin", redirect: "error", cache: "no-store" }

/** An answer that nobody is signed in shows the sign-in, whatever was asked. */
const noticing = HttpClient.tap((response) =>
  Effect.sync(() => {
    if (response.status === 401) sessionOver()
  })
)

const http = Layer.effect(HttpClient.HttpClient, Effect.map(HttpClient.HttpClient, noticing)).pipe(
  Layer.provide(FetchHttpClient.layer),
  Layer.provide(Layer.succeed(FetchHttpClient.RequestInit, OWN_REQUESTS))
)

const byCookie = HttpApiMiddleware.layerClient(Authentication, ({ next, request }) => next(request))

const made = Effect.runSync(
  Effect.scoped(
    Effect.gen(function* () {
      const calls = yield* Layer.build(
        Client.layerKeyless({ url: location.origin + CONSOLE_API_PATH }).pipe(Layer.provide(http))
      )
      const own = yield* HttpApiClient.make(ConsoleApi).pipe(Effect.provide(Layer.mergeAll(http, byCookie)))
      return { service: Context.get(calls, Client), own }
    })
  )
)

/** The operations of the contract. */
export const { service } = made

/** The console's own operations. */
export const { own } = made
