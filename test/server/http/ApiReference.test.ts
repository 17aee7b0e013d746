import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { HttpClient, HttpRouter } from "effect/http"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { LoopTurns, makeLoopTurns } from "../../../src/server/admission/LoopTurns.ts"
import { ClientAddress } from "../../../src/server/http/ClientAddress.ts"
import * as ApiReference from "../../../src/server/http/ApiReference.ts"

const layerServed = HttpRouter.serve(ApiReference.layer).pipe(
  Layer.provide(ClientAddress.layer({ trustedProxies: [] })),
  Layer.provideMerge(NodeHttpServer.layerTest)
)

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
    }).pipe(Effect.provide(layerServed))
  )

  it.effect("each response takes a turn of its client's address, also after the first rendering", () =>
    Effect.gen(function* () {
      const taken: Array<string> = []
      const turns = makeLoopTurns()
      const { take } = turns
      const counted = Object.assign(turns, {
        take: (key: string) =>
          Effect.andThen(
            Effect.sync(() => void taken.push(key)),
            take(key)
          )
      })
      yield* Effect.gen(function* () {
        const both = [HttpClient.get("/docs"), HttpClient.get("/openapi.json")]
        for (const { status } of yield* Effect.all(both, { concurrency: 2 })) assert.strictEqual(status, 200)
        assert.strictEqual((yield* HttpClient.get("/docs")).status, 200)
      }).pipe(Effect.provide(Layer.provide(layerServed, Layer.succeed(LoopTurns, counted))))
      assert.lengthOf(taken, 3)
      assert.lengthOf(new Set(taken), 1)
    })
  )
})
