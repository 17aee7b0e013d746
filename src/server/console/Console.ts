/**
 * The console's backend: its page, its sessions, and the operations that the page calls. The public API is mounted a second time, under
 * `/console/api`, with session authentication: a session acts as the API key that opened it, with the same scopes and the same handlers.
 */
import { Effect, Layer } from "effect"
import { HttpRouter } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { CONSOLE_API_PATH, ConsoleApi } from "../../api/Console.ts"
import * as Authentication from "../http/Authentication.ts"
import * as ConsoleAuthentication from "./Console/authentication.ts"
import * as Guard from "./Console/sameOriginGuard.ts"
import { layerConsoleHandlers } from "./Console/handlers.ts"
import { ConsoleExportsHttp } from "./Console/exportsHttp.ts"
import * as SingleSignOnRoutes from "./Console/singleSignOnRoutes.ts"
import * as Pages from "./Console/pages.ts"
import { ConsoleInvitationHttp } from "./Console/invitationHttp.ts"
import { ConsoleSessionHttp } from "./Console/sessionHttp.ts"
import * as ProblemFrame from "../http/ProblemFrame.ts"
import * as RequestBody from "../http/RequestBody.ts"

/** A router that adds its routes under `/console/api`. */
const layerUnderConsole = Layer.effect(
  HttpRouter.HttpRouter,
  Effect.map(HttpRouter.HttpRouter, (router) => router.prefixed(CONSOLE_API_PATH))
)

/**
 * The routes of the console. `contract` builds the routes of the public API with the given authentication. It builds a second set of
 * handlers, because a handler keeps the authentication that it was built with.
 */
export const layerRoutes = <E, R>(options: {
  /** The URL under which browsers reach the service. */
  readonly publicUrl: string
  readonly contract: (authentication: typeof ConsoleAuthentication.layer) => Layer.Layer<never, E, R>
}) =>
  Layer.mergeAll(
    Layer.mergeAll(
      options.contract(ConsoleAuthentication.layer).pipe(Layer.provide(layerUnderConsole)),
      HttpApiBuilder.layer(ConsoleApi).pipe(
        Layer.provide([layerConsoleHandlers, ConsoleSessionHttp, ConsoleInvitationHttp, ConsoleExportsHttp]),
        Layer.provide([
          ConsoleAuthentication.layer,
          Authentication.layerScopeChecks,
          RequestBody.layer,
          ProblemFrame.layer
        ])
      )
    ).pipe(Layer.provide(Guard.layer(options.publicUrl))),
    SingleSignOnRoutes.layer(options.publicUrl),
    Pages.layer
  )
