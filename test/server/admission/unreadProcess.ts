/**
 * A process that serves the API reference. `/memory` has its resident memory. It prints its port once it listens.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Effect, Layer } from "effect"
import { HttpRouter, HttpServer, HttpServerResponse } from "effect/http"
import { ClientAddress } from "../../../src/server/http/ClientAddress.ts"
import * as ApiReference from "../../../src/server/http/ApiReference.ts"
import { layerListen } from "../../../src/server/http/listen.ts"
import { layerNoLimits } from "../../support/layerNoLimits.ts"

const memory = Effect.sync(() => HttpServerResponse.jsonUnsafe({ rss: process.memoryUsage().rss }))

const routes = Layer.mergeAll(
  ApiReference.layer.pipe(Layer.provide(ClientAddress.layer({ trustedProxies: [] }))),
  HttpRouter.add("GET", "/memory", memory)
)

const announce = Layer.effectDiscard(
  Effect.map(HttpServer.HttpServer, ({ address }) => {
    process.stdout.write(`listening on ${"port" in address ? address.port : 0}\n`)
  })
)

NodeRuntime.runMain(
  Layer.launch(
    Layer.merge(HttpRouter.serve(routes, { disableLogger: true, disableListenLog: true }), announce).pipe(
      Layer.provide(layerListen({ host: "127.0.0.1", port: 0, drain: "1 second" })),
      Layer.provide(layerNoLimits)
    )
  )
)
