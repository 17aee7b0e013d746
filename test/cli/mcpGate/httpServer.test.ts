import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { createServer } from "node:http"
import { Agent, getGlobalDispatcher, setGlobalDispatcher } from "undici"
import { onTestFinished } from "vitest"
import { connectHttpServer } from "../../../src/cli/mcpGate/httpServer.ts"
import { formatMessage } from "../../../src/cli/mcp/jsonRpc.ts"
import { listenOnFreePort } from "../../support/listenOnFreePort.ts"

describe("an MCP server by HTTP", () => {
  it.live("may take longer for an answer than fetch waits, before its response or in it", () =>
    Effect.gen(function* () {
      // In place of five minutes.
      const before = getGlobalDispatcher()
      setGlobalDispatcher(new Agent({ headersTimeout: 500, bodyTimeout: 500 }))
      onTestFinished(() => setGlobalDispatcher(before))
      const answer = formatMessage({ id: 1, result: { content: [] } })
      const server = createServer(({ url }, response) => {
        const isStream = url === "/stream"
        const type = isStream ? "text/event-stream" : "application/json"
        const begin = () => response.writeHead(200, { "content-type": type }).flushHeaders()
        if (isStream) begin()
        setTimeout(() => {
          if (!isStream) begin()
          response.end(isStream ? `data: ${answer}\n\n` : answer)
        }, 2_500)
      })
      onTestFinished(() => {
        server.closeAllConnections()
        server.close()
      })
      const port = yield* Effect.promise(() => listenOnFreePort(server))
      const messagesOf = Effect.fnUntraced(function* (path: string) {
        const messages: Array<string> = []
        const { send } = yield* connectHttpServer({
          url: new URL(path, `http://127.0.0.1:${port}`),
          token: undefined,
          onMessage: async (text) => void messages.push(text),
          onEnd: () => undefined,
          onRenewed: () => undefined,
          log: () => undefined
        })
        yield* Effect.ignore(send({ kind: "request", id: 1, method: "tools/call", params: { name: "slow" } }))
        return messages
      })
      const received = yield* Effect.forEach(["/json", "/stream"], messagesOf, { concurrency: "unbounded" })
      assert.deepStrictEqual(received, [[answer], [answer]])
    }).pipe(Effect.scoped)
  )
})
