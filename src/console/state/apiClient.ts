/**
 * Client of the public API, mounted under `/console/api` and authenticated by the session cookie. Only pages import this module: the
 * sign-in page and the inbox list render before the code of the whole contract is loaded.
 */
import { Effect } from "effect"
import { HttpApiMiddleware } from "effect/http-api"
import { Authentication } from "../../api/Authorization.ts"
import { CONSOLE_API_PATH } from "../../api/Console.ts"
import { makeCalls } from "../../client/makeCalls.ts"
import { sessionHttpClient } from "./consoleClient.ts"

/** The browser sends the cookie by itself. */
const byCookie = HttpApiMiddleware.layerClient(Authentication, ({ next, request }) => next(request))

/** The operations of the public API, and what opens a session's event stream. */
export const { calls: apiClient, open: openStream } = Effect.runSync(
  makeCalls({ url: location.origin + CONSOLE_API_PATH }).pipe(Effect.provide([sessionHttpClient, byCookie]))
)
