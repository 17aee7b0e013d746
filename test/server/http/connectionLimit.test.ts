import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { once } from "node:events"
import { connect } from "node:net"
import { Countersign } from "../../../src/testing/index.ts"
import { service } from "../../support/service.ts"

layer(service({ environment: { COUNTERSIGN_CONNECTION_LIMIT: "2" } }), { excludeTestServices: true })(
  "COUNTERSIGN_CONNECTION_LIMIT",
  (it) => {
    it.effect("refuses a connection beyond the limit, until one is closed", () =>
      Effect.gen(function* () {
        const { url } = yield* Countersign
        const port = Number(new URL(url).port)
        const open = Effect.acquireRelease(
          Effect.promise(async () => {
            const socket = connect(port, "127.0.0.1")
            await once(socket, "connect")
            return socket
          }),
          (socket) => Effect.sync(() => socket.destroy())
        )
        const status = Effect.promise(async () => {
          const response = await fetch(`${url}/healthz`, { headers: { connection: "close" } })
          await response.text()
          return response.status
        })
        const first = yield* open
        yield* open
        assert.strictEqual(yield* status, 503)
        first.destroy()
        yield* Effect.promise(() => once(first, "close"))
        assert.strictEqual(yield* Effect.repeat(status, { until: (found) => found === 200, times: 50 }), 200)
      })
    )
  }
)
