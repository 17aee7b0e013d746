import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { HttpClient, HttpRouter } from "effect/http"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as ApiReference from "../../../src/server/http/ApiReference.ts"

describe("ApiReference", () => {
  it.effect("is rendered although a module that NODE_OPTIONS preloads fails in a second thread", () =>
    Effect.gen(function* () {
      const preload =
        "data:text/javascript,import { isMainThread } from 'node:worker_threads'; if (!isMainThread) throw new Error('preloaded')"
      const options = process.env["NODE_OPTIONS"]
      process.env["NODE_OPTIONS"] = `--import=${encodeURI(preload)}`
      yield* Effect.addFinalizer(() =>
        Effect.sync(() => {
          if (options === undefined) delete process.env["NODE_OPTIONS"]
          else process.env["NODE_OPTIONS"] = options
        })
      )
      const { status } = yield* HttpClient.get("/openapi.json")
      assert.strictEqual(status, 200)
    }).pipe(
      Effect.provide(HttpRouter.serve(ApiReference.layer).pipe(Layer.provideMerge(NodeHttpServer.layerTest)))
    )
  )
})
