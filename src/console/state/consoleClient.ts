/** Client of the console API (`/console/session`, `/console/inbox`, …), authenticated by the session cookie. */
import { Effect, Layer } from "effect"
import { FetchHttpClient, HttpClient, HttpClientRequest } from "effect/http"
import { HttpApiClient, HttpApiMiddleware } from "effect/http-api"
import { Authentication } from "../../api/Authorization.ts"
import { ConsoleApi, IDLE_HEADER, KEY_HEADER } from "../../api/Console.ts"
import { isUserIdle } from "./activity.ts"
import { pageHeaders } from "./pageToken.ts"
import { endSession, isKeyOfPage } from "./session.ts"

const REQUEST_INIT: RequestInit = { credentials: "same-origin", redirect: "error", cache: "no-store" }

/** Ends the page's session on any 401 response, which shows the sign-in page. */
const detectSignedOut = HttpClient.tap((response) =>
  Effect.sync(() => {
    if (response.status === 401) endSession()
  })
)

/** Never delivers a response to another key than the page's. */
const discardForeign = HttpClient.transformResponse(
  Effect.flatMap((response) => {
    const key = response.headers[KEY_HEADER]
    return key === undefined || isKeyOfPage(key) ? Effect.succeed(response) : Effect.never
  })
)

/**
 * Marks requests that the page makes without its user, such as refreshing a list: they do not keep the session open.
 */
const markIdle = HttpClient.mapRequest((request) =>
  isUserIdle() ? HttpClientRequest.setHeader(request, IDLE_HEADER, "1") : request
)

/** Adds the page's part of the session's token. */
const addPageToken = HttpClient.mapRequest((request) => HttpClientRequest.setHeaders(request, pageHeaders()))

/** The HTTP client of both APIs: same origin, no cache, session cookie. */
export const sessionHttpClient = Layer.effect(
  HttpClient.HttpClient,
  Effect.map(HttpClient.HttpClient, (client) =>
    addPageToken(markIdle(discardForeign(detectSignedOut(client))))
  )
).pipe(
  Layer.provide(FetchHttpClient.layer),
  Layer.provide(Layer.succeed(FetchHttpClient.RequestInit, REQUEST_INIT))
)

const cookieAuthentication = HttpApiMiddleware.layerClient(Authentication, ({ next, request }) =>
  next(request)
)

/** The operations of the console API. */
export const consoleClient = Effect.runSync(
  Effect.scoped(
    HttpApiClient.make(ConsoleApi).pipe(
      Effect.provide(Layer.mergeAll(sessionHttpClient, cookieAuthentication))
    )
  )
)
