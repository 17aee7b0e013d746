/**
 * Client of the public API, mounted under `/console/api` and authenticated by the session cookie. Only pages import this module: the
 * sign-in page and the inbox list render before the code of the whole contract is loaded.
 */
import { Context, Effect, Layer } from "effect"
import { CONSOLE_API_PATH } from "../../api/Console.ts"
import { Client } from "../../client/Client.ts"
import { sessionHttpClient } from "./consoleClient.ts"

/** The operations of the public API. */
export const apiClient = Effect.runSync(
  Effect.scoped(
    Effect.map(
      Layer.build(
        Client.layerKeyless({ url: location.origin + CONSOLE_API_PATH }).pipe(
          Layer.provide(sessionHttpClient)
        )
      ),
      Context.get(Client)
    )
  )
)
