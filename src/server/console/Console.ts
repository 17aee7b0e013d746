/**
 * The console: its page, signing in, and the operations that the page calls. Those of the contract are the same handlers under
 * another path and another authentication: a browser's session stands for the key it signed in with, and everything behind that,
 * scopes first, is as it is for the key.
 */
import { Effect, Layer } from "effect"
import { HttpRouter } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { CONSOLE_API_PATH, ConsoleApi } from "../../api/Console.ts"
import * as Authentication from "../http/Authentication.ts"
import * as ConsoleAuthentication from "./Console/authentication.ts"
import * as Guard from "./Console/sameOriginGuard.ts"
import { ConsoleDatasetsHttp } from "./Console/datasetsHttp.ts"
import { ConsoleHealthHttp } from "./Console/healthHttp.ts"
import { ConsoleInboxHttp } from "./Console/inboxHttp.ts"
import * as Pages from "./Console/pages.ts"
import { ConsoleSessionHttp } from "./Console/sessionHttp.ts"
import * as ProblemFrame from "../http/ProblemFrame.ts"
import * as RequestBody from "../http/RequestBody.ts"

/** Routes that are added to the router given here lie under `/console/api`. */
const layerUnderConsole = Layer.effect(
  HttpRouter.HttpRouter,
  Effect.map(HttpRouter.HttpRouter, (router) => router.prefixed(CONSOLE_API_PATH))
)

/**
 * The routes of the console. `contract` makes the routes of the contract with the authentication it is given: it is called for a set of
 * its own, since a handler keeps the authentication that it was built with.
 */
export const layerRoutes = <E, R>(options: {
  /** How the outside reaches the service. */
  readonly publicUrl: string
  readonly contract: (authentication: typeof ConsoleAuthentication.layer) => Layer.Layer<never, E, R>
}) =>
  Layer.mergeAll(
    Layer.mergeAll(
      options.contract(ConsoleAuthentication.layer).pipe(Layer.provide(layerUnderConsole)),
      HttpApiBuilder.layer(ConsoleApi).pipe(
        Layer.provide([ConsoleSessionHttp, ConsoleInboxHttp, ConsoleHealthHttp, ConsoleDatasetsHttp]),
        Layer.provide([
          ConsoleAuthentication.layer,
          Authentication.layerScopeChecks,
          RequestBody.layer,
          ProblemFrame.layer
        ])
      )
    ).pipe(Layer.provide(Guard.layer(options.publicUrl))),
    Pages.layer
  )
