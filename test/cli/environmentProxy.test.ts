import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { createServer, request } from "node:http"
import { connect } from "node:net"
import { Countersign } from "../../src/testing/index.ts"
import { spawnCli } from "../support/process.ts"
import { listenOnFreePort } from "../support/listenOnFreePort.ts"
import { service } from "../support/service.ts"

/** A proxy that leads every request and every tunnel to one port of this machine, and the hosts that it was asked for. */
const startProxy = Effect.fnUntraced(function* (port: number) {
  const asked: Array<string | undefined> = []
  const server = createServer(({ headers, method, url = "" }, response) => {
    const { host, pathname } = new URL(url)
    asked.push(host)
    request({ port, host: "127.0.0.1", method, path: pathname, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(response)
    }).end()
  })
  server.on("connect", ({ url }, socket, head) => {
    asked.push(url)
    const target = connect(port, "127.0.0.1", () => {
      socket.write("HTTP/1.1 200 Connection established\r\n\r\n")
      target.write(head)
      target.pipe(socket).pipe(target)
    })
    for (const end of [socket, target]) end.on("error", () => end.destroy())
  })
  const proxyPort = yield* Effect.promise(() => listenOnFreePort(server))
  yield* Effect.addFinalizer(() =>
    Effect.sync(() => {
      server.closeAllConnections()
      server.close()
    })
  )
  return { asked, url: `http://127.0.0.1:${proxyPort}` }
})

layer(service(), { excludeTestServices: true, timeout: "60 seconds" })("commands behind a proxy", (it) => {
  it.effect("reach the service through HTTPS_PROXY or HTTP_PROXY, but not the hosts of NO_PROXY", () =>
    Effect.gen(function* () {
      const { key, url } = yield* Countersign
      const port = Number(new URL(url).port)
      const proxy = yield* startProxy(port)
      const secret = Redacted.value(yield* key())
      const pull = Effect.fnUntraced(function* (
        service: string,
        variables: Readonly<Record<string, string>>
      ) {
        const command = yield* spawnCli(["rules", "pull", "--url", service], {
          COUNTERSIGN_KEY: secret,
          ...variables
        })
        return yield* command.ended
      })
      const far = "http://approve.example:8080"
      const through = yield* pull(far, { HTTP_PROXY: proxy.url })
      assert.strictEqual(through.code, 0, through.err)
      assert.deepStrictEqual(proxy.asked, ["approve.example:8080"])
      // The proxy's end is no TLS server, so the command fails after it has asked for the tunnel.
      yield* pull("https://approve.example", { https_proxy: proxy.url })
      assert.include(proxy.asked, "approve.example:443")
      const asked = proxy.asked.length
      assert.notStrictEqual((yield* pull(far, { HTTP_PROXY: proxy.url, NO_PROXY: ".example" })).code, 0)
      assert.strictEqual((yield* pull(url, { HTTP_PROXY: proxy.url })).code, 0)
      assert.lengthOf(proxy.asked, asked)
    })
  )
})
