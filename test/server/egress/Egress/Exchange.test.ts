import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import type { Socket } from "node:net"
import { gzipSync } from "node:zlib"
import { Dispatcher } from "undici"
import type { EgressReason } from "../../../../src/server/egress/EgressFailed.ts"
import { exchange, Progress } from "../../../../src/server/egress/Egress/Exchange.ts"
import { answers, type Behaviour, drip, egress, flood, ok, peer, post } from "./peers.ts"

const head200 = "HTTP/1.1 200 OK\r\n"
const tight = "250 millis"

/** Undici waits one turn of the event loop before it uses a connection again. */
const idle = Effect.callback<void>(
  (resume) => void setImmediate(() => setImmediate(() => resume(Effect.void)))
)

const to = (behave: Behaviour, more: Parameters<typeof post>[1] = {}) =>
  Effect.gen(function* () {
    const receiver = yield* peer(behave)
    const { send } = yield* egress()
    const result = yield* Effect.result(send(post(`http://127.0.0.1:${receiver.port}/hook`, more)))
    // In every case no connection is left open and nothing is sent twice.
    const kept = result._tag === "Success" && result.success.complete
    if (!kept && receiver.connections() > 0) yield* Effect.timeout(receiver.closed, "20 seconds")
    assert.isAtMost(receiver.requests.length, 1)
    return result
  })

const failed =
  (reason: EgressReason) =>
  (result: { readonly _tag: string; readonly failure?: { readonly reason: string } }) =>
    assert.strictEqual(result.failure?.reason, reason, result._tag)

describe("exchange › request", () => {
  it.live("the request has exactly the given headers and body", () =>
    Effect.gen(function* () {
      const receiver = yield* peer(answers(ok()))
      const { send } = yield* egress()
      yield* send(
        post(`http://127.0.0.1:${receiver.port}/a%20b?x=1&y=%C3%BC`, {
          headers: { "user-agent": "Countersign/1", "x-svc-signature": "t=1,v1=00" },
          body: Buffer.from("body")
        })
      )
      assert.deepStrictEqual(receiver.requests, [
        [
          "POST /a%20b?x=1&y=%C3%BC HTTP/1.1",
          `host: 127.0.0.1:${receiver.port}`,
          "connection: keep-alive",
          "user-agent: Countersign/1",
          "x-svc-signature: t=1,v1=00",
          "content-length: 4",
          "",
          "body"
        ].join("\r\n")
      ])
    }).pipe(Effect.withSpan("a span that must not leak into the request"))
  )

  it.live.each([
    { "transfer-encoding": "chunked" },
    { "x-bad": "a\r\nx-injected: 1" },
    { "bad name": "a" },
    { upgrade: "h2c" }
  ])("nothing is written if the headers cannot be sent: %j", (headers) =>
    Effect.gen(function* () {
      const receiver = yield* peer(answers(ok()))
      const { send } = yield* egress()
      const refused = yield* Effect.flip(
        send(post(`http://127.0.0.1:${receiver.port}/`, { headers: { ...headers } }))
      )
      assert.strictEqual(refused.reason, "RefusedRequest")
      assert.lengthOf(receiver.requests, 0)
    })
  )
})

describe("exchange › every final status is a response", () => {
  it.live.each([200, 201, 204, 299, 300, 301, 400, 401, 404, 410, 429, 500, 503, 599])(
    "status %i is returned",
    (status) =>
      Effect.gen(function* () {
        const noBody = status === 204 ? "" : "content-length: 2\r\n"
        const result = yield* to(
          answers(`HTTP/1.1 ${status} X\r\n${noBody}retry-after: 120\r\n\r\n${status === 204 ? "" : "hi"}`)
        )
        assert.deepNestedInclude(result, {
          "success.status": status,
          "success.retryAfter": "120",
          "success.complete": true
        })
      })
  )

  it.live("an overlong retry-after header is left out", () =>
    Effect.gen(function* () {
      const result = yield* to(answers(ok("", [`retry-after: ${"9".repeat(65)}`])))
      assert.deepNestedInclude(result, { "success.retryAfter": undefined })
    })
  )
})

describe("exchange › a received status is returned", () => {
  it.live.each<readonly [string, Behaviour]>([
    ["the body drips", drip(`${head200}content-length: 1000\r\n\r\n`, "x", 20)],
    ["the body never starts", answers(`${head200}content-length: 1000\r\n\r\n`)],
    ["chunks drip without end", drip(`${head200}transfer-encoding: chunked\r\n\r\n`, "1\r\nx\r\n", 20)]
  ])("the status is returned when the deadline passes while %s", ([, behave]) =>
    Effect.gen(function* () {
      const result = yield* to(behave, { timeout: tight })
      assert.deepNestedInclude(result, { "success.status": 200, "success.complete": false })
    })
  )

  it.live.each<readonly [string, Behaviour]>([
    ["the body breaks off", (socket) => void socket.end(`${head200}content-length: 1000\r\n\r\nhalf`)],
    [
      "the connection is reset in the body",
      (socket) => void socket.write(`${head200}content-length: 9\r\n\r\nhalf`, () => socket.resetAndDestroy())
    ],
    ["the chunks are malformed", answers(`${head200}transfer-encoding: chunked\r\n\r\nzz\r\n`)]
  ])("the status is returned when %s", ([, behave]) =>
    Effect.gen(function* () {
      assert.deepNestedInclude(yield* to(behave), { "success.status": 200, "success.complete": false })
    })
  )

  it.live("an endless body is cut at the limit", () =>
    Effect.gen(function* () {
      const result = yield* to(flood(`${head200}\r\n`, "x"), { maxResponseBytes: 1_000, timeout: "1 hour" })
      assert.deepNestedInclude(result, {
        "success.status": 200,
        "success.complete": false,
        "success.body.length": 1_000
      })
    })
  )

  it.live("a body of exactly the limit is complete", () =>
    Effect.gen(function* () {
      const result = yield* to(answers(ok("x".repeat(1_000))), { maxResponseBytes: 1_000 })
      assert.deepNestedInclude(result, { "success.complete": true, "success.body.length": 1_000 })
    })
  )
})

describe("exchange › the body is not decoded", () => {
  it.live.each([
    ["gzip", "gzip"],
    ["a thousand layers", Array.from({ length: 1_000 }, () => "gzip").join(",")]
  ])("the body stays encoded: %s", ([, encoding]) =>
    Effect.gen(function* () {
      const bomb = gzipSync(Buffer.alloc(4 * 1024 * 1024))
      const result = yield* to((socket) => {
        socket.write(`${head200}content-encoding: ${encoding}\r\ncontent-length: ${bomb.length}\r\n\r\n`)
        socket.write(bomb)
      })
      assert.isTrue(result._tag === "Success" && bomb.equals(result.success.body))
    })
  )
})

describe("exchange › a response without headers by the deadline", () => {
  it.live.each<readonly [string, Behaviour]>([
    ["silence", () => undefined],
    ["headers that drip", drip(head200, "x", 20)],
    ["a head without end", drip(`${head200}x-a: `, "b", 5)],
    ["interim answers that drip", drip("", "HTTP/1.1 103 Early Hints\r\n\r\n", 40)]
  ])("the request times out: %s", ([, behave]) =>
    Effect.gen(function* () {
      failed("TimedOut")(yield* to(behave, { timeout: tight }))
    })
  )
})

describe("exchange › a malformed response", () => {
  it.live.each<readonly [string, EgressReason, Behaviour]>([
    ["headers beyond 64 KiB", "HeadersTooLarge", answers(`${head200}x: ${"y".repeat(65_536)}\r\n\r\n`)],
    ["headers without end", "HeadersTooLarge", flood(head200, "x-a: b\r\n")],
    [
      "interim answers without end",
      "MalformedResponse",
      flood("", "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n")
    ],
    ["100 Continue unasked", "MalformedResponse", flood("", "HTTP/1.1 100 Continue\r\n\r\n")],
    [
      "another protocol unasked",
      "MalformedResponse",
      answers("HTTP/1.1 101 Switching\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n")
    ],
    ["text that is no HTTP", "MalformedResponse", answers("<html>hello</html>\r\n\r\n")],
    [
      "two lengths",
      "MalformedResponse",
      answers(`${head200}content-length: 1\r\ncontent-length: 2\r\n\r\nab`)
    ],
    ["reset after the request", "ConnectionClosed", (socket) => void socket.resetAndDestroy()],
    ["closed after the request", "ConnectionClosed", (socket) => void socket.end()],
    ["closed within the headers", "ConnectionClosed", (socket) => void socket.end(`${head200}x-a: b`)]
  ])("the request fails before the deadline: %s", ([, reason, behave]) =>
    Effect.gen(function* () {
      failed(reason)(yield* to(behave))
    })
  )

  it.live("a connection closed before the request is read is reported as closed", () =>
    Effect.gen(function* () {
      const receiver = yield* peer(() => undefined, { onConnection: (socket) => socket.resetAndDestroy() })
      const { send } = yield* egress()
      const result = yield* Effect.flip(send(post(`http://127.0.0.1:${receiver.port}/`)))
      assert.strictEqual(result.reason, "ConnectionClosed")
    })
  )

  it.live("a port without a listener refuses the connection", () =>
    Effect.gen(function* () {
      const gone = yield* Effect.scoped(
        Effect.map(
          peer(() => undefined),
          ({ port }) => port
        )
      )
      const { send } = yield* egress()
      const result = yield* Effect.flip(send(post(`http://127.0.0.1:${gone}/`)))
      assert.strictEqual(result.reason, "ConnectionRefused")
    })
  )

  it.live("the phrase of a failure contains nothing from the peer", () =>
    Effect.gen(function* () {
      const result = yield* to(answers("TOKEN-OF-THE-PEER 401 Bearer secret\r\n\r\n"))
      assert.isTrue(result._tag === "Failure" && result.failure.phrase === "malformed HTTP response")
    })
  )
})

describe("exchange › early response", () => {
  it.live("a response sent before the request was read is returned or the connection is dropped", () =>
    Effect.gen(function* () {
      const receiver = yield* peer(() => undefined, {
        onConnection: (socket) =>
          void socket.write("HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
      })
      const { send } = yield* egress()
      const result = yield* Effect.result(
        send(post(`http://127.0.0.1:${receiver.port}/`, { body: Buffer.alloc(1024 * 1024) }))
      )
      // A response before the request is not a response to it: such a connection is dropped.
      assert.isTrue(
        result._tag === "Success"
          ? result.success.status === 413
          : result.failure.reason === "MalformedResponse" || result.failure.reason === "ConnectionClosed"
      )
    })
  )
})

describe("exchange › interruption", () => {
  it.live("interruption closes the connection immediately", () =>
    Effect.gen(function* () {
      const asked = yield* Deferred.make<Socket>()
      const receiver = yield* peer((socket) => Deferred.doneUnsafe(asked, Effect.succeed(socket)))
      const { send } = yield* egress()
      const fiber = yield* Effect.forkChild(
        send(post(`http://127.0.0.1:${receiver.port}/`, { timeout: "1 hour" }))
      )
      yield* Deferred.await(asked)
      yield* Fiber.interrupt(fiber)
      yield* receiver.closed
    })
  )

  it.live("interruption while connecting leaves the request unwritten", () =>
    Effect.gen(function* () {
      const connected = yield* Deferred.make<void>()
      const receiver = yield* peer(answers(ok()), {
        onConnection: () => Deferred.doneUnsafe(connected, Effect.void)
      })
      const { send } = yield* egress()
      const fiber = yield* Effect.forkChild(send(post(`http://127.0.0.1:${receiver.port}/`)), {
        startImmediately: true
      })
      yield* Fiber.interrupt(fiber)
      yield* Deferred.await(connected)
      yield* receiver.closed
      assert.lengthOf(receiver.requests, 0)
    })
  )
})

describe("exchange › suspended process", () => {
  it.live(
    "a response that arrived before the deadline is read although the process noticed the deadline first",
    () =>
      Effect.gen(function* () {
        const stalled = new Int32Array(new SharedArrayBuffer(4))
        const result = yield* to(
          (socket) => {
            socket.write(ok("read late"))
            Atomics.wait(stalled, 0, 0, 500)
          },
          { timeout: tight }
        )
        assert.isTrue(result._tag === "Success" && result.success.complete && result.success.status === 200)
      })
  )

  it.live.each<readonly [string, Behaviour]>([
    ["closes", (socket) => void socket.end()],
    ["resets", (socket) => void socket.resetAndDestroy()]
  ])(
    "a request is sent once more at once if the server %s a connection that it had answered on",
    ([, close]) =>
      Effect.gen(function* () {
        // Each connection takes one request.
        const answered = new WeakSet<Socket>()
        const receiver = yield* peer((socket, count) => {
          if (answered.has(socket)) return close(socket, count)
          answered.add(socket)
          socket.write(ok())
        })
        const { send } = yield* egress()
        const request = post(`http://127.0.0.1:${receiver.port}/hook`)
        for (const _ of [1, 2, 3]) {
          assert.strictEqual((yield* send(request)).status, 200)
          yield* idle
        }
        assert.deepStrictEqual([receiver.requests.length, receiver.connections()], [5, 3])
      })
  )

  it.live("a request is not sent again over a connection of its own, nor once an answer has begun", () =>
    Effect.gen(function* () {
      const closing = yield* peer((socket) => void socket.end())
      const { send } = yield* egress()
      const refused = yield* Effect.flip(send(post(`http://127.0.0.1:${closing.port}/hook`)))
      assert.deepStrictEqual([refused.reason, closing.requests.length], ["ConnectionClosed", 1])

      const hinting = yield* peer((socket, count) =>
        count === 0 ? void socket.write(ok()) : void socket.end("HTTP/1.1 103 Early Hints\r\n\r\n")
      )
      const request = post(`http://127.0.0.1:${hinting.port}/hook`)
      yield* send(request)
      yield* idle
      assert.strictEqual((yield* Effect.flip(send(request))).reason, "ConnectionClosed")
      assert.strictEqual(hinting.requests.length, 2)
    })
  )

  it.live("a server that closes every second connection too costs one attempt, not more", () =>
    Effect.gen(function* () {
      const receiver = yield* peer((socket, count) =>
        count === 0 ? void socket.write(ok()) : void socket.end()
      )
      const { send } = yield* egress()
      const request = post(`http://127.0.0.1:${receiver.port}/hook`)
      yield* send(request)
      yield* idle
      assert.strictEqual((yield* Effect.flip(send(request))).reason, "ConnectionClosed")
      assert.strictEqual(receiver.requests.length, 3)
    })
  )

  it.effect("nothing is written over a connection that opens after the deadline", () =>
    Effect.gen(function* () {
      const connected = yield* Deferred.make<Dispatcher.DispatchHandler>()
      const dispatcher = new (class extends Dispatcher {
        override dispatch(_: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
          return Deferred.doneUnsafe(connected, Effect.succeed(handler))
        }
      })()
      const message = { target: "/", headers: {}, body: Buffer.from("{}") }
      let passed = false
      // Its timer has not fired yet.
      const deadline = { hasPassed: () => passed, onExpiry: () => () => undefined }
      const sent = yield* Effect.forkChild(
        Effect.flip(exchange({ dispatcher, opened: () => 0 }, message, new Progress(1_024), deadline))
      )
      const handler = yield* Deferred.await(connected)
      passed = true
      let aborted = false
      const controller = { abort: () => void (aborted = true) }
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- all of it that is used
      handler.onRequestStart?.(controller as unknown as Dispatcher.DispatchController, undefined)
      assert.isTrue(aborted)
      assert.strictEqual((yield* Fiber.join(sent)).reason, "TimedOut")
    })
  )
})
