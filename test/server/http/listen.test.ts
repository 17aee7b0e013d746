import { assert, describe, it, layer } from "@effect/vitest"
import { Context, Deferred, Effect, Fiber, Layer, Queue } from "effect"
import { HttpServer } from "effect/http"
import { subscribe, unsubscribe } from "node:diagnostics_channel"
import { once } from "node:events"
import type { RequestListener, Server } from "node:http"
import { createConnection, Socket } from "node:net"
import { setImmediate as nextTurn } from "node:timers/promises"
import {
  defaultListenLimits,
  layerListen,
  type ListenLimits,
  makeServer
} from "../../../src/server/http/listen.ts"
import { loopbackNetworks } from "../../../src/server/admission/Connections.ts"
import type { PacedRequest } from "../../../src/server/admission/RequestPacer.ts"
import { makeVerifiedCredentials } from "../../../src/server/admission/VerifiedCredentials.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { type Exchange, exchange } from "../../support/rawSocket.ts"
import { service } from "../../support/service.ts"
import { layerNoLimits } from "../../support/layerNoLimits.ts"

/** A server on a free loopback port, until the scope closes. */
const listening = (
  limits: Partial<ListenLimits> = {},
  answer?: RequestListener,
  state: Parameters<typeof makeServer>[1] = {}
) =>
  Effect.acquireRelease(
    Effect.callback<{ readonly server: Server; readonly port: number }>((resume) => {
      const server = makeServer({ ...defaultListenLimits, ...limits }, state)
      if (answer !== undefined) server.on("request", answer)
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        const port = typeof address === "object" && address !== null ? address.port : 0
        resume(Effect.succeed({ server, port }))
      })
    }),
    ({ server }) =>
      Effect.callback<void>((resume) => {
        server.close(() => resume(Effect.void))
        server.closeAllConnections()
      })
  )

const impatient = { headersMillis: 100, requestMillis: 200, checkMillis: 20 }
const ok: RequestListener = (_request, response) => void response.end("ok")
const HOST = "Host: countersign\r\n"
const CLOSE = `${HOST}Connection: close\r\n`

const assertProblem = (answer: Exchange, status: number, code: string) => {
  assert.strictEqual(answer.status, status)
  assert.strictEqual(answer.headers.get("content-type"), "application/problem+json")
  assert.strictEqual(answer.headers.get("connection")?.toLowerCase(), "close")
  assert.strictEqual(answer.body["status"], status)
  assert.strictEqual(answer.body["code"], code)
  assert.strictEqual(answer.body["type"], `urn:problem-type:countersign:${code}`)
  assert.match(String(answer.body["request_id"]), /^req_[0-9a-f]{32}$/)
  assert.strictEqual(answer.headers.get("x-request-id"), answer.body["request_id"])
}

describe("listen: slow clients", () => {
  it.live.each([
    ["sends nothing", ""],
    ["stops within the request line", "GET /heal"],
    ["stops within the headers", `GET / HTTP/1.1\r\n${HOST}X-A: b\r\n`]
  ])("a client that %s gets 408 and its connection is closed", ([, bytes]) =>
    Effect.gen(function* () {
      const { port } = yield* listening(impatient, ok)
      assertProblem(yield* exchange(port, bytes ?? ""), 408, "REQUEST_TIMEOUT")
    })
  )

  it.live("a request whose body is slow gets 408 and is closed, although a handler waits for the body", () =>
    Effect.gen(function* () {
      const { port } = yield* listening(impatient, (request, response) => {
        request.on("end", () => response.end("ok")).resume()
      })
      const bytes = `POST / HTTP/1.1\r\n${HOST}Content-Length: 10\r\n\r\n{"a"`
      assertProblem(yield* exchange(port, bytes), 408, "REQUEST_TIMEOUT")
    })
  )

  it.live("a slow request whose response has begun is closed without a second response", () =>
    Effect.gen(function* () {
      // The headers arrive in time also if this process pauses between the connection and them.
      const limits = { ...impatient, headersMillis: 1_500, requestMillis: 1_500 }
      const { port } = yield* listening(limits, (_request, response) => {
        response.write("begun")
      })
      const { text } = yield* exchange(port, `POST / HTTP/1.1\r\n${HOST}Content-Length: 10\r\n\r\n{"a"`)
      assert.strictEqual(text.split("HTTP/1.1").length, 2)
      assert.include(text, "begun")
    })
  )

  it.live.each([
    ["one verified credential", {}, "Authorization: flood", "Authorization: other"],
    ["invented credentials", {}, "Authorization: {n}", "Authorization: other"],
    [
      "invented credentials and malformed addresses",
      { trustedProxies: loopbackNetworks },
      "Authorization: {n}\r\nX-Forwarded-For: unknown {n}",
      "Authorization: other"
    ],
    [
      "many credentials of one forwarded address",
      { trustedProxies: loopbackNetworks },
      "Authorization: {n}\r\nX-Forwarded-For: 203.0.113.1",
      "Authorization: another\r\nX-Forwarded-For: 203.0.113.2"
    ],
    ["one credential", {}, "Authorization: flood", "", "/healthz"],
    ["no credential", { unlimitedNetworks: [] }, "X-A: b", "X-A: b", "/readyz"]
  ] as const)(
    "many connections with %s behind a proxy do not delay a request of another client, or a probe",
    ([, limits, flood, other, probe = "/"]) =>
      Effect.gen(function* () {
        const served: Array<string | undefined> = []
        const credentials = makeVerifiedCredentials()
        for (const credential of ["flood", "other"]) credentials.add(credential, `org_${credential}`)
        const answer: RequestListener = ({ headers }, response) => {
          served.push(headers["x-name"]?.toString())
          for (const end = performance.now() + 2; performance.now() < end;);
          response.end("ok")
        }
        const { port } = yield* listening(limits, answer, { credentials })
        const connect = Effect.callback<Socket>((resume) => {
          const socket = createConnection(port, "127.0.0.1", () => resume(Effect.succeed(socket)))
        })
        // All connections are open before the first request, so that one pass of the event loop reads many of them.
        const sockets = yield* Effect.all(Array.from({ length: 101 }, () => connect))
        const ended = sockets.map((socket) => once(socket.resume(), "close"))
        for (const [index, socket] of sockets.entries()) {
          const [name, path, headers] =
            index < 100 ? ["flood", "/", flood.replaceAll("{n}", String(index))] : ["other", probe, other]
          const lines = [`GET ${path} HTTP/1.1`, `X-Name: ${name}`, ...(headers === "" ? [] : [headers])]
          socket.write(`${lines.join("\r\n")}\r\n${CLOSE}\r\n`)
        }
        yield* Effect.promise(() => Promise.all(ended))
        assert.lengthOf(served, 101)
        assert.isBelow(served.indexOf("other"), 50)
      })
  )

  it.live("many slow clients delay no other request, and their connections are closed", () =>
    Effect.gen(function* () {
      const { port, server } = yield* listening(
        { ...impatient, headersMillis: 1_000, requestMillis: 1_000 },
        ok
      )
      const slow = Array.from({ length: 300 }, () => exchange(port, "GET / HTTP/1.1\r\nHost: a"))
      const quick = exchange(port, `GET / HTTP/1.1\r\n${CLOSE}\r\n`)
      const [cut, served] = yield* Effect.all(
        [Effect.all(slow, { concurrency: "unbounded" }), Effect.all(Array.from({ length: 50 }, () => quick))],
        { concurrency: 2 }
      )
      assert.isTrue(cut.every(({ status }) => status === 408))
      assert.isTrue(served.every(({ status }) => status === 200))
      const open = yield* Effect.callback<number>((resume) => {
        server.getConnections((_error, count) => resume(Effect.succeed(count)))
      })
      assert.strictEqual(open, 0)
    })
  )
})

/** A server whose pacer starts no request, and the requests that wait in it. */
const paced = Effect.fnUntraced(function* (limits: Partial<ListenLimits>) {
  const credentials = makeVerifiedCredentials()
  credentials.add("Bearer verified", "org_1")
  const arrived = yield* Queue.unbounded<{ readonly key: string; readonly request: PacedRequest }>()
  const canceled = yield* Deferred.make<void>()
  const pacer = {
    start: (key: string, request: PacedRequest) => {
      Queue.offerUnsafe(arrived, { key, request })
      return () => Deferred.doneUnsafe(canceled, Effect.void)
    }
  }
  const { port } = yield* listening(limits, ok, { credentials, pacer })
  return { port, arrived, canceled }
})

describe("listen: pacing", () => {
  const direct = { unlimitedNetworks: [] }
  const proxy = { trustedProxies: loopbackNetworks }
  it.live.each([
    ["by the client's address", direct, "GET / HTTP/1.1", "", "127.0.0.1"],
    [
      "an invented credential by the client's address",
      direct,
      "GET / HTTP/1.1",
      "Authorization: Bearer invented",
      "127.0.0.1"
    ],
    [
      "a verified credential by its organization",
      direct,
      "GET / HTTP/1.1",
      "Authorization: Bearer verified",
      "org_1"
    ],
    ["a probe of liveness apart", direct, "GET /healthz HTTP/1.1", "", "probe 127.0.0.1"],
    ["a probe of readiness apart", direct, "HEAD /readyz?a=b HTTP/1.1", "", "probe 127.0.0.1"],
    ["metrics apart", direct, "GET /metrics HTTP/1.1", "Authorization: Bearer token", "probe 127.0.0.1"],
    ["other paths not apart", direct, "GET /metrics/x HTTP/1.1", "", "127.0.0.1"],
    ["other methods not apart", direct, "POST /healthz HTTP/1.1", "", "127.0.0.1"],
    ["a refused request", direct, "GET / HTTP/1.1", "Host: other", "127.0.0.1"],
    ["an unknown expectation", direct, "GET / HTTP/1.1", "Expect: payment", "127.0.0.1"],
    ["by the forwarded address", proxy, "GET / HTTP/1.1", "X-Forwarded-For: 203.0.113.7", "203.0.113.7"],
    [
      "by a forwarded address with a port",
      proxy,
      "GET / HTTP/1.1",
      "X-Forwarded-For: 203.0.113.7:5555",
      "203.0.113.7"
    ],
    [
      "by the forwarded network of 48 bits",
      proxy,
      "GET / HTTP/1.1",
      "X-Forwarded-For: [2001:db8:1:2::3]:5555",
      "8193:3512:1"
    ],
    [
      "by the proxy if the forwarded address is malformed",
      proxy,
      "GET / HTTP/1.1",
      "X-Forwarded-For: unknown",
      "127.0.0.1"
    ],
    [
      "by the proxy that forwards no address",
      {},
      "GET / HTTP/1.1",
      "Authorization: Bearer invented",
      "127.0.0.1"
    ]
  ] as const)("a request is paced: %s", ([, limits, line, header, key]) =>
    Effect.gen(function* () {
      const { arrived, port } = yield* paced(limits)
      const lines = header === "" ? [line] : [line, header]
      const exchanged = yield* Effect.forkChild(exchange(port, `${lines.join("\r\n")}\r\n${CLOSE}\r\n`))
      const { key: given, request } = yield* Queue.take(arrived)
      assert.strictEqual(given, key)
      request.start()
      yield* Fiber.join(exchanged)
    })
  )

  it.live("a request whose connection closes no longer waits", () =>
    Effect.gen(function* () {
      const { arrived, canceled, port } = yield* paced(direct)
      const socket = createConnection(port, "127.0.0.1")
      socket.on("error", () => undefined)
      socket.write(`GET / HTTP/1.1\r\n${HOST}\r\n`)
      const { request } = yield* Queue.take(arrived)
      assert.isFalse(request.isClosed())
      socket.resetAndDestroy()
      yield* Deferred.await(canceled)
      assert.isTrue(request.isClosed())
    })
  )

  it.live("a request beyond the limit of those that wait gets 503 with Retry-After", () =>
    Effect.gen(function* () {
      const { arrived, port } = yield* paced(direct)
      const exchanged = yield* Effect.forkChild(exchange(port, `GET / HTTP/1.1\r\n${CLOSE}\r\n`))
      const { request } = yield* Queue.take(arrived)
      request.refuse()
      const answer = yield* Fiber.join(exchanged)
      assertProblem(answer, 503, "UNAVAILABLE")
      assert.strictEqual(answer.headers.get("retry-after"), "1")
    })
  )
})

describe("listen: unparsable requests", () => {
  const fields = (count: number) => "a: b\r\n".repeat(count)
  it.live.each([
    ["is no HTTP", "NONSENSE\r\n\r\n", 400, "INVALID_REQUEST"],
    ["has a method of its own", `STEAL / HTTP/1.1\r\n${CLOSE}\r\n`, 400, "INVALID_REQUEST"],
    ["begins TLS", "\u0016\u0003\u0001\u0002\u0000\u0001\u0000\u0001", 400, "INVALID_REQUEST"],
    ["begins HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "INVALID_REQUEST"],
    ["has no host", "GET / HTTP/1.1\r\nConnection: close\r\n\r\n", 400, "INVALID_REQUEST"],
    ["has two hosts", `GET / HTTP/1.1\r\n${CLOSE}hOST: other\r\n\r\n`, 400, "INVALID_REQUEST"],
    [
      "has two Authorization headers",
      `GET / HTTP/1.1\r\n${CLOSE}Authorization: Bearer a\r\nauthorization: Bearer b\r\n\r\n`,
      400,
      "INVALID_REQUEST"
    ],
    [
      "has two lengths",
      `POST / HTTP/1.1\r\n${CLOSE}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      400,
      "INVALID_REQUEST"
    ],
    [
      "has an invalid host",
      "GET / HTTP/1.1\r\nHost: a b/c?d@e\r\nConnection: close\r\n\r\n",
      400,
      "INVALID_REQUEST"
    ],
    ...["gzip, chunked", "identity, chunked", "chunked, identity", "gzip"].map(
      (coding) =>
        [
          `is encoded for the way as ${coding}`,
          `POST / HTTP/1.1\r\n${CLOSE}Transfer-Encoding: ${coding}\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
          400,
          "INVALID_REQUEST"
        ] as const
    ),
    ["has a blank before a colon", `GET / HTTP/1.1\r\n${CLOSE}a : b\r\n\r\n`, 400, "INVALID_REQUEST"],
    ["folds a header", `GET / HTTP/1.1\r\n${CLOSE}a: b\r\n c\r\n\r\n`, 400, "INVALID_REQUEST"],
    ["has NUL in a header", `GET / HTTP/1.1\r\n${CLOSE}a: b\0c\r\n\r\n`, 400, "INVALID_REQUEST"],
    [
      "has large headers",
      `GET / HTTP/1.1\r\n${CLOSE}a: ${"b".repeat(17_000)}\r\n\r\n`,
      431,
      "HEADERS_TOO_LARGE"
    ],
    ["has a long path", `GET /${"a".repeat(17_000)} HTTP/1.1\r\n${CLOSE}\r\n`, 431, "HEADERS_TOO_LARGE"],
    ["has many headers", `GET / HTTP/1.1\r\n${CLOSE}${fields(99)}\r\n`, 431, "HEADERS_TOO_LARGE"],
    [
      "expects something",
      `POST / HTTP/1.1\r\n${CLOSE}Expect: payment\r\nContent-Length: 2\r\n\r\n{}`,
      417,
      "EXPECTATION_FAILED"
    ],
    ["requests a tunnel", `CONNECT a:443 HTTP/1.1\r\n${CLOSE}\r\n`, 405, "METHOD_NOT_ALLOWED"],
    [
      "has large chunk extensions",
      `POST / HTTP/1.1\r\n${CLOSE}Transfer-Encoding: chunked\r\n\r\n2;${"a".repeat(20_000)}\r\n{}\r\n0\r\n\r\n`,
      413,
      "PAYLOAD_TOO_LARGE"
    ]
  ] as const)("a request that %s gets a problem, and its connection is closed", ([, bytes, status, code]) =>
    Effect.gen(function* () {
      const { port } = yield* listening({}, (request, response) => {
        request.on("end", () => response.end("ok")).resume()
      })
      assertProblem(yield* exchange(port, bytes), status, code)
    })
  )

  it.live("a connection that asks for a tunnel and is reset does not end the process", () =>
    Effect.gen(function* () {
      const { port } = yield* listening({}, ok)
      const uncaught: Array<unknown> = []
      const noteError = (error: unknown) => void uncaught.push(error)
      const closed: Array<Promise<void>> = []
      const noteSocket = (message: unknown) => {
        const socket: unknown = Reflect.get(Object(message), "socket")
        // Not by `once` of node:events, which would handle the error.
        if (socket instanceof Socket && socket.localPort === port)
          closed.push(new Promise((resolve) => void socket.on("close", () => resolve())))
      }
      yield* Effect.acquireRelease(
        Effect.sync(() => {
          subscribe("net.server.socket", noteSocket)
          process.on("uncaughtException", noteError)
        }),
        () =>
          Effect.sync(() => {
            unsubscribe("net.server.socket", noteSocket)
            process.off("uncaughtException", noteError)
          })
      )
      yield* Effect.promise(async () => {
        for (let attempt = 0; attempt < 20; attempt++) {
          const client = createConnection(port, "127.0.0.1")
          client.on("error", () => undefined)
          await once(client, "connect")
          client.write(`CONNECT a:443 HTTP/1.1\r\n${HOST}\r\n`, () => void client.resetAndDestroy())
          await once(client, "close")
        }
        while (closed.length < 20) await nextTurn()
        await Promise.all(closed)
      })
      assert.deepStrictEqual(uncaught, [])
    })
  )

  it.live.each([
    ["a hundred headers", `GET / HTTP/1.1\r\n${CLOSE}${fields(98)}\r\n`],
    ["HTTP/1.0 without a host", "GET / HTTP/1.0\r\n\r\n"],
    ...["", "acme.com", "my_host:8080", "127.0.0.1:1", "[::1]:8080", "xn--bcher-kva.example:"].map(
      (host) =>
        [`the host "${host}"`, `GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`] as const
    ),
    ["a body in chunks", `POST / HTTP/1.1\r\n${CLOSE}Transfer-Encoding: Chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`],
    [
      "an upgrade that the server does not support",
      `GET / HTTP/1.1\r\n${HOST}Connection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n`
    ]
  ])("a request with %s is accepted", ([, bytes]) =>
    Effect.gen(function* () {
      const { port, server } = yield* listening({}, ok)
      server.on("upgrade", (_request, socket) => void socket.destroy())
      assert.strictEqual((yield* exchange(port, bytes ?? "")).status, 200)
    })
  )
})

describe("listen: a starting service", () => {
  it.live("requests get 503 with Retry-After until the routes are attached", () =>
    Effect.gen(function* () {
      const { port, server } = yield* listening()
      const ask = exchange(port, `GET / HTTP/1.1\r\n${CLOSE}\r\n`)
      const early = yield* ask
      assertProblem(early, 503, "UNAVAILABLE")
      assert.strictEqual(early.headers.get("retry-after"), "1")
      server.on("request", ok)
      assert.strictEqual((yield* ask).status, 200)
    })
  )

  it.live("health checks get 200, and malformed requests are rejected", () =>
    Effect.gen(function* () {
      const { port } = yield* listening()
      const alive = yield* exchange(port, `GET /healthz HTTP/1.1\r\n${CLOSE}\r\n`)
      assert.strictEqual(alive.status, 200)
      assert.strictEqual(alive.headers.get("content-type"), "application/json")
      assert.match(alive.headers.get("x-request-id") ?? "", /^req_[0-9a-f]{32}$/)
      assert.deepStrictEqual(alive.body, { status: "alive" })
      assertProblem(yield* exchange(port, "GET /healthz HTTP/1.1\r\n\r\n"), 400, "INVALID_REQUEST")
      assertProblem(yield* exchange(port, `POST /healthz HTTP/1.1\r\n${CLOSE}\r\n`), 503, "UNAVAILABLE")
    })
  )

  it.live("a failed start does not wait for idle clients", () =>
    Effect.gen(function* () {
      const silent = yield* Effect.scoped(
        Effect.gen(function* () {
          const running = yield* Layer.build(
            layerListen({ host: "127.0.0.1", port: 0, drain: "1 hour" }).pipe(Layer.provide(layerNoLimits))
          )
          const { address } = Context.get(running, HttpServer.HttpServer)
          const port = "port" in address ? address.port : 0
          const silent = yield* Effect.forkDetach(exchange(port, ""), { startImmediately: true })
          // Connections are accepted in order.
          yield* exchange(port, `GET / HTTP/1.1\r\n${CLOSE}\r\n`)
          return silent
        })
      )
      assert.strictEqual((yield* Fiber.join(silent)).text, "")
    })
  )
})

layer(service(), { excludeTestServices: true })("listen: a running service", (it) => {
  it.effect.each([
    ["OPTIONS", "/v1/api-keys", "GET, HEAD, POST"],
    ["PUT", "/v1/notification-endpoints/nep_1", "PATCH, DELETE"],
    ["POST", "/healthz", "GET, HEAD"],
    ["DELETE", "/docs", "GET, HEAD"],
    ["TRACE", "/openapi.json", "GET, HEAD"],
    ["PATCH", "/metrics", "GET, HEAD"]
  ] as const)("answers %s %s with 405 and the methods there are", ([method, path, allow]) =>
    Effect.gen(function* () {
      const { url } = yield* Countersign
      const answer = yield* exchange(Number(new URL(url).port), `${method} ${path} HTTP/1.1\r\n${CLOSE}\r\n`)
      assertProblem(answer, 405, "METHOD_NOT_ALLOWED")
      assert.strictEqual(answer.headers.get("allow"), allow)
    })
  )

  it.effect("HEAD gets the headers of GET without the body", () =>
    Effect.gen(function* () {
      const port = Number(new URL((yield* Countersign).url).port)
      const got = yield* exchange(port, `GET /healthz HTTP/1.1\r\n${CLOSE}\r\n`)
      const head = yield* exchange(port, `HEAD /healthz HTTP/1.1\r\n${CLOSE}\r\n`)
      assert.strictEqual(head.status, 200)
      assert.strictEqual(head.headers.get("content-length"), got.headers.get("content-length"))
      assert.isTrue(head.text.endsWith("\r\n\r\n"))
    })
  )

  it.effect("the server has the default limits", () =>
    Effect.gen(function* () {
      const port = Number(new URL((yield* Countersign).url).port)
      assertProblem(
        yield* exchange(port, `GET /healthz HTTP/1.1\r\n${"a: b\r\n".repeat(101)}\r\n`),
        431,
        "HEADERS_TOO_LARGE"
      )
      assertProblem(yield* exchange(port, "GET /healthz\r\n\r\n"), 400, "INVALID_REQUEST")
    })
  )
})
