/**
 * The operations of the contract, as this page calls them: by the typed client, and by the cookie of its session. Pages import this and
 * what comes before them does not, so that who signs in, or looks into the inbox, need not wait until the contract is loaded.
 */
import { Context, Effect, Layer } from "effect"
import { CONSOLE_API_PATH } from "../../api/Console.ts"
import { Client } from "../../client/Client.ts"
import { sessionHttpClient } from "./consoleClient.ts"

/** The operations. */
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
