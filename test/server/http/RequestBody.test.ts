import { assert, layer, vi } from "@effect/vitest"
import { Effect, Fiber, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import * as Net from "node:net"
import { LoopTurns, makeLoopTurns } from "../../../src/server/admission/LoopTurns.ts"
import { processClock } from "../../../src/server/concurrency/processClock.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { exchange } from "../../support/rawSocket.ts"
import { send, service } from "../../support/service.ts"

const note = "a letter of two bytes: é"
const body = Buffer.from(JSON.stringify({ metadata: { note } }))

/** Steps of a session that does not exist: their bodies are read, and then get 404. */
const STEPS = `/v1/agent-sessions/ses_${"0".repeat(32)}/steps`
const stepOf = (args: unknown) => ({ step_id: "1", tool: "read", action_class: "read", arguments: args })

/** The head of a request with a body, on a connection that the server closes after the response. */
const headOf = (key: Redacted.Redacted, ...lines: ReadonlyArray<string>): string =>
  [
    "POST /v1/agent-sessions HTTP/1.1",
    "Host: countersign",
    "Connection: close",
    `Authorization: Bearer ${Redacted.value(key)}`,
    "Content-Type: application/json",
    ...lines,
    "\r\n"
  ].join("\r\n")

/** Turns taken so far. */
let turnsTaken = 0
const processTurns = makeLoopTurns()
const { take } = processTurns
const countedTurns = Layer.succeed(
  LoopTurns,
  Object.assign(processTurns, {
    take: (key: string) =>
      Effect.andThen(
        Effect.sync(() => void turnsTaken++),
        take(key)
      )
  })
)

const portOf = (url: string): number => Number(new URL(url).port)

/** Opens a connection, sends the head of a request, and returns it when the server has sent something. */
const openWith = (port: number, head: string): Effect.Effect<Net.Socket> =>
  Effect.callback((resume) => {
    const socket = Net.connect({ port, host: "127.0.0.1", noDelay: true })
    socket.on("error", () => undefined)
    socket.once("data", () => resume(Effect.succeed(socket)))
    socket.write(head)
  })

/**
 * Sends the pieces, each after the kernel has taken the one before, and returns the server's output until it closed the
 * connection.
 */
const sendPieces = (port: number, pieces: ReadonlyArray<string | Uint8Array>): Effect.Effect<string> =>
  Effect.callback((resume) => {
    const chunks: Array<Buffer> = []
    const socket = Net.connect({ port, host: "127.0.0.1", noDelay: true })
    socket.on("data", (chunk: Buffer) => chunks.push(chunk))
    socket.on("error", () => undefined)
    socket.on("close", () => resume(Effect.succeed(Buffer.concat(chunks).toString("utf8"))))
    const next = (index: number): void => {
      const piece = pieces[index]
      if (piece !== undefined) socket.write(piece, () => setImmediate(next, index + 1))
    }
    next(0)
    return Effect.sync(() => socket.destroy())
  })

const METRICS_TOKEN = "request-body-metrics"

layer(
  service({
    environment: { COUNTERSIGN_METRICS_TOKEN: METRICS_TOKEN, COUNTERSIGN_LARGE_BODY_MEBIBYTES: "8" }
  }).pipe(Layer.provide(countedTurns)),
  { excludeTestServices: true }
)("RequestBody", (it) => {
  it.effect("a body that arrives byte by byte is read whole", () =>
    Effect.gen(function* () {
      const { key, url } = yield* Countersign
      const head = headOf(yield* key(), `Content-Length: ${body.length}`)
      const bytes = Array.from(body, (byte) => Uint8Array.of(byte))
      const text = yield* sendPieces(portOf(url), [head, ...bytes])
      assert.include(text, "HTTP/1.1 201 Created")
      assert.include(text, note)
    })
  )

  it.effect("a chunked body is read whole", () =>
    Effect.gen(function* () {
      const { key, url } = yield* Countersign
      const head = headOf(yield* key(), "Transfer-Encoding: chunked")
      const chunks = Array.from(body, (byte) => Buffer.from([0x31, 0x0d, 0x0a, byte, 0x0d, 0x0a]))
      const text = yield* sendPieces(portOf(url), [head, ...chunks, "0\r\n\r\n"])
      assert.include(text, "HTTP/1.1 201 Created")
      assert.include(text, note)
    })
  )

  it.effect("a client that waits for 100 Continue gets it, and then its response", () =>
    Effect.gen(function* () {
      const { key, url } = yield* Countersign
      const head = headOf(yield* key(), `Content-Length: ${body.length}`, "Expect: 100-continue")
      const { text } = yield* exchange(portOf(url), Buffer.concat([Buffer.from(head), body]))
      assert.match(text, /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 201 Created\r\n/)
    })
  )

  it.effect("a body that comes after its key was revoked is refused, also after its key was accepted", () =>
    Effect.gen(function* () {
      const { client, url } = yield* Countersign
      const { apiKeys, auditLog } = yield* client({}, "late")
      const { key, secret } = yield* apiKeys.create({ payload: { name: "agent", preset: "runtime" } })
      const head = headOf(Redacted.make(secret), `Content-Length: ${body.length}`, "Expect: 100-continue")
      const socket = yield* openWith(portOf(url), head)
      // The head was read before this request.
      yield* auditLog.list({ query: {} })
      yield* apiKeys.revoke({ params: { id: key.id } })
      const nanos = processClock.monotonicTimeNanosUnsafe.bind(processClock)
      vi.spyOn(processClock, "monotonicTimeNanosUnsafe").mockImplementation(() => nanos() + 1_000_000_000n)
      const answer = yield* Effect.callback<string>((resume) => {
        socket.once("data", (chunk: Buffer) => resume(Effect.succeed(chunk.toString("utf8"))))
        socket.write(body)
      })
      assert.match(answer, /^HTTP\/1\.1 401 /)
    }).pipe(Effect.ensuring(Effect.sync(() => vi.restoreAllMocks())))
  )

  it.effect("a body of no bytes is no JSON", () =>
    Effect.gen(function* () {
      const { key, url } = yield* Countersign
      const { status } = yield* exchange(portOf(url), headOf(yield* key(), "Content-Length: 0"))
      assert.strictEqual(status, 400)
    })
  )

  it.effect("a byte order mark before the JSON text is ignored", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const marked = Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), body])
      const answer = yield* send("/v1/agent-sessions", { method: "POST", key: yield* key(), body: marked })
      assert.strictEqual(answer.status, 201)
      assert.deepStrictEqual(answer.body["metadata"], { note })
    })
  )

  it.effect("a body of more than 100,000 values or 20,000 names is refused with its place", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const admin = yield* key()
      const submit = (args: string) => {
        const body = JSON.stringify(stepOf("ARGUMENTS")).replace('"ARGUMENTS"', args)
        return send(STEPS, { method: "POST", key: admin, body })
      }
      const list = (length: number) => `[${"1,".repeat(length - 1)}1]`
      const names = (length: number) =>
        `{${Array.from({ length }, (_, index) => `"name${index}":1`).join(",")}}`
      // The body, its other members and the list are values too.
      assert.strictEqual((yield* submit(list(100_000 - 5))).status, 404)
      assert.strictEqual((yield* submit(names(20_000 - 4))).status, 404)
      const values = yield* submit(list(100_000 - 4))
      assert.strictEqual(values.status, 413)
      assert.strictEqual(values.body["code"], "PAYLOAD_TOO_LARGE")
      assert.include(values.body["detail"], "100000 values")
      assert.strictEqual(values.errors[0]?.pointer, "#/arguments/99995")
      const named = yield* submit(names(20_000 - 3))
      assert.strictEqual(named.status, 413)
      assert.include(named.body["detail"], "20000 different member names")
      assert.strictEqual(named.errors[0]?.pointer, "#/arguments/name19996")
    })
  )

  it.effect("a large body is checked in turns, and a small one in none", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const admin = yield* key()
      const before = turnsTaken
      const note = "x".repeat(10_000)
      yield* send("/v1/agent-sessions", {
        method: "POST",
        key: admin,
        body: JSON.stringify({ metadata: { note } })
      })
      assert.strictEqual(turnsTaken, before)
      yield* send(STEPS, {
        method: "POST",
        key: admin,
        body: JSON.stringify(stepOf(Array.from({ length: 90_000 }, () => 1)))
      })
      // 180,000 tokens, 16,384 per turn, and one turn each for the text and for decoding it.
      assert.isAtLeast(turnsTaken - before, 11)
    })
  )

  it.effect("large bodies of an organization wait for each other, not those of another one", () =>
    Effect.gen(function* () {
      const { key, url } = yield* Countersign
      const large = JSON.stringify(stepOf("x".repeat(1_000_000)))
      const submit = (admin: Redacted.Redacted) => send(STEPS, { method: "POST", key: admin, body: large })
      const [busy, calm] = [yield* key({}, "busy"), yield* key({}, "calm")]
      // 8 MiB, the limit here, of which no byte is ever sent. The service has read the heads once it asks for the bodies.
      const sockets = yield* Effect.forEach(
        Array.from({ length: 8 }, () => headOf(busy, "Content-Length: 1048576", "Expect: 100-continue")),
        (head) => openWith(portOf(url), head),
        { concurrency: "unbounded" }
      )
      assert.strictEqual((yield* submit(calm)).status, 404)
      const waiting = yield* Effect.forkChild(submit(busy))
      assert.strictEqual((yield* submit(calm)).status, 404)
      assert.isUndefined(waiting.pollUnsafe())
      for (const socket of sockets) socket.destroy()
      assert.strictEqual((yield* Fiber.join(waiting)).status, 404)
    })
  )

  it.effect("a large body that waits five seconds for others gets 429, which the metrics count", () =>
    Effect.gen(function* () {
      const { key, url } = yield* Countersign
      const busy = yield* key({}, "waits")
      const sockets = yield* Effect.forEach(
        Array.from({ length: 8 }, () => headOf(busy, "Content-Length: 1048576", "Expect: 100-continue")),
        (head) => openWith(portOf(url), head),
        { concurrency: "unbounded" }
      )
      const refused = yield* send("/v1/agent-sessions", {
        method: "POST",
        key: busy,
        body: JSON.stringify(stepOf("x".repeat(1_000_000)))
      })
      for (const socket of sockets) socket.destroy()
      assert.deepStrictEqual([refused.status, refused.body["code"]], [429, "RATE_LIMITED"])
      const metrics = String((yield* send("/metrics", { key: METRICS_TOKEN })).body["text"])
      assert.match(metrics, /countersign_limit_refusals_total\{limit="large_bodies"\} 1\n/)
    })
  )

  it.effect("a body that ends before its content-length creates nothing", () =>
    Effect.gen(function* () {
      const { key, url } = yield* Countersign
      const sql = yield* SqlClient.SqlClient
      const count = Effect.map(
        sql<{ readonly count: number }>`SELECT count(*)::int AS count FROM agent_sessions`,
        ([row]) => row?.count
      )
      const before = yield* count
      const head = headOf(yield* key(), `Content-Length: ${body.length + 1}`)
      yield* Effect.callback<void>((resume) => {
        const socket = Net.connect(portOf(url), "127.0.0.1")
        socket.on("error", () => undefined)
        socket.on("close", () => resume(Effect.void))
        socket.end(Buffer.concat([Buffer.from(head), body]))
        socket.resume()
      })
      assert.strictEqual(yield* count, before)
    })
  )
})
