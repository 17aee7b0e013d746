import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import type { RequestListener } from "node:http"
import * as Net from "node:net"
import { fileURLToPath } from "node:url"
import { defaultListenLimits, type ListenLimits, makeServer } from "../../../src/server/http/listen.ts"
import {
  addressKey,
  Connections,
  defaultConnectionLimits
} from "../../../src/server/admission/Connections.ts"
import {
  defaultUnsentLimits,
  makeUnsentResponses,
  type UnsentLimits
} from "../../../src/server/admission/UnsentResponses.ts"
import { exchange } from "../../support/rawSocket.ts"

const MIB = 1024 * 1024
const GET = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
const GET_AND_CLOSE = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

/** A server that treats loopback clients as it treats remote ones. */
const listening = (limits: Partial<ListenLimits & UnsentLimits>, answer: RequestListener) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const server = makeServer(
        { ...defaultListenLimits, unlimitedNetworks: [], ...limits },
        { unsent: makeUnsentResponses({ ...defaultUnsentLimits, ...limits }) }
      )
      server.on("request", answer)
      server.listen(0, "127.0.0.1")
      await once(server, "listening")
      const address = server.address()
      return { server, port: typeof address === "object" && address !== null ? address.port : 0 }
    }),
    ({ server }) =>
      Effect.callback<void>((resume) => {
        server.close(() => resume(Effect.void))
        server.closeAllConnections()
      })
  )

/** A client that sends bytes and reads nothing, not even the end of the connection. */
const unread = (port: number, bytes: string) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const socket = Net.connect({
        port,
        host: "127.0.0.1",
        onread: { buffer: Buffer.alloc(1), callback: () => false }
      })
      socket.on("error", () => undefined)
      await once(socket, "connect")
      socket.pause()
      socket.write(bytes)
      return socket
    }),
    (socket) => Effect.sync(() => socket.destroy())
  )

/** A client that sends bytes and reads at most 64 KiB every 20 ms. */
const slowReader = (port: number, bytes: string) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const socket = Net.connect(port, "127.0.0.1", () => socket.write(bytes))
      socket.on("error", () => undefined)
      socket.on("data", () => {
        socket.pause()
        setTimeout(() => socket.resume(), 20)
      })
      return socket
    }),
    (socket) => Effect.sync(() => socket.destroy())
  )

const text = (bytes: number): RequestListener => {
  const body = "x".repeat(bytes)
  return (_request, response) => void response.end(body)
}

/** Resolves once a condition that an event of the server changes holds. */
const until = (isTrue: () => boolean) =>
  Effect.promise(async () => {
    while (!isTrue()) await new Promise((next) => setImmediate(next))
  })

describe("Connections: clients that do not read", () => {
  it.live("a client that reads nothing of a response is cut, while others are served", () =>
    Effect.gen(function* () {
      // Longer than this process, which is the client that reads too, pauses on a busy machine.
      const { port, server } = yield* listening({ stalledMillis: 1_500 }, text(12 * MIB))
      yield* unread(port, GET)
      yield* until(() => server.unsent.bytes() > 0)
      assert.strictEqual((yield* exchange(port, GET_AND_CLOSE)).status, 200)
      yield* until(() => server.clients.open === 0)
      assert.strictEqual(server.clients.cuts.stalled, 1)
      assert.strictEqual(server.unsent.bytes(), 0)
    })
  )

  it.live("a streamed response that is not read is cut", () =>
    Effect.gen(function* () {
      const { port, server } = yield* listening({ stalledMillis: 200 }, (_request, response) => {
        const chunk = Buffer.alloc(MIB)
        const write = (): void => {
          while (response.write(chunk));
          response.once("drain", write)
        }
        write()
      })
      yield* unread(port, GET)
      yield* until(() => server.clients.cuts.stalled === 1)
    })
  )

  it.live("a response that takes longer to compute than clients may stall is sent", () =>
    Effect.gen(function* () {
      const { port, server } = yield* listening({ stalledMillis: 50 }, (_request, response) => {
        setTimeout(() => response.end("late"), 200)
      })
      assert.include((yield* exchange(port, GET_AND_CLOSE)).text, "late")
      assert.strictEqual(server.clients.cuts.stalled, 0)
    })
  )

  it.live("a response that took long to compute and is not read is cut", () =>
    Effect.gen(function* () {
      const { port, server } = yield* listening({ stalledMillis: 50 }, (_request, response) => {
        setTimeout(() => response.end("x".repeat(16 * MIB)), 200)
      })
      yield* unread(port, GET)
      yield* until(() => server.clients.cuts.stalled === 1)
    })
  )

  it.live("a client that keeps reading a response, but too slowly, is cut", () =>
    Effect.gen(function* () {
      const limits = { stalledMillis: 1_500, bytesPerSecond: 100 * MIB }
      const { port, server } = yield* listening(limits, text(32 * MIB))
      yield* slowReader(port, GET)
      yield* until(() => server.clients.cuts.slow === 1)
      assert.strictEqual(server.unsent.bytes(), 0)
    })
  )

  it.live("a part of a stream counts until it is read", () =>
    Effect.gen(function* () {
      const { port, server } = yield* listening({}, (_request, response) => {
        response.once("drain", () => response.end())
        response.write(Buffer.alloc(16 * MIB))
      })
      yield* slowReader(port, GET)
      yield* until(() => server.unsent.bytes() >= 16 * MIB)
      yield* until(() => server.unsent.bytes() === 0)
      assert.strictEqual(server.clients.cuts.slow + server.clients.cuts.memory, 0)
    })
  )

  it.live("unread responses of one address stay within its limit, and the oldest ones are cut", () =>
    Effect.gen(function* () {
      const limit = 16 * MIB
      const { port, server } = yield* listening({ bytesPerOwner: limit }, text(6 * MIB))
      for (let count = 0; count < 12; count++) {
        yield* unread(port, GET)
        assert.isAtMost(server.unsent.bytes(), limit)
      }
      yield* until(() => server.clients.cuts.memory > 0)
      assert.isAtMost(server.unsent.bytes(), limit)
      const { text: received } = yield* exchange(port, GET_AND_CLOSE)
      assert.isAbove(received.length, 6 * MIB)
    })
  )

  it.live("unread responses of all addresses stay within the common limit", () =>
    Effect.gen(function* () {
      const limit = 16 * MIB
      const { port, server } = yield* listening({ bytes: limit }, text(6 * MIB))
      for (let count = 0; count < 12; count++) yield* unread(port, GET)
      yield* until(() => server.clients.cuts.memory > 0)
      assert.isAtMost(server.unsent.bytes(), limit)
    })
  )
})

describe("Connections: limits", () => {
  const status = (port: number) => Effect.map(exchange(port, GET_AND_CLOSE), (answer) => answer.status)

  it.live.each([
    ["one address", "address", { connectionsPerAddress: 3 }],
    ["all addresses", "total", { connections: 3 }]
  ] as const)("a connection past the limit of %s gets 503, until another closes", ([, reason, limits]) =>
    Effect.gen(function* () {
      const { port, server } = yield* listening(limits, text(1))
      const [first] = yield* Effect.all([unread(port, ""), unread(port, ""), unread(port, "")])
      yield* until(() => server.clients.open === 3)
      const refused = yield* exchange(port, GET_AND_CLOSE)
      assert.strictEqual(refused.status, 503)
      assert.strictEqual(refused.body["code"], "UNAVAILABLE")
      assert.strictEqual(refused.headers.get("retry-after"), "1")
      assert.strictEqual(server.clients.refused[reason], 1)
      first.destroy()
      yield* until(() => server.clients.open === 2)
      assert.strictEqual(yield* status(port), 200)
    })
  )

  it.live("an unlimited network has as many connections as all clients together", () =>
    Effect.gen(function* () {
      const { unlimitedNetworks } = defaultListenLimits
      const { port } = yield* listening({ connectionsPerAddress: 1, unlimitedNetworks }, text(1))
      yield* unread(port, "")
      assert.strictEqual(yield* status(port), 200)
    })
  )

  it("IPv6 addresses of one network of 64 bits are one client", () => {
    assert.strictEqual(addressKey("2001:db8:1:2::1"), addressKey("2001:db8:1:2:ffff::2"))
    assert.notStrictEqual(addressKey("2001:db8:1:2::1"), addressKey("2001:db8:1:3::1"))
    assert.strictEqual(addressKey("::ffff:192.0.2.1"), "192.0.2.1")
    assert.notStrictEqual(addressKey("192.0.2.1"), addressKey("192.0.2.2"))
    assert.strictEqual(addressKey("fe80::1%eth0"), addressKey("fe80::2"))
  })
})

describe("Connections: pipelined requests", () => {
  it.live("are served one after the other, in order", () =>
    Effect.gen(function* () {
      let running = 0
      let most = 0
      const { port } = yield* listening({}, (request, response) => {
        most = Math.max(most, ++running)
        setImmediate(() => {
          running--
          response.end(`[${request.url}]`)
        })
      })
      const requests = Array.from({ length: 20 }, (_, index) => `GET /${index} HTTP/1.1\r\nHost: a\r\n\r\n`)
      const { text: received } = yield* exchange(port, requests.join("") + GET_AND_CLOSE.replace("/", "/20"))
      assert.deepStrictEqual(
        [...received.matchAll(/\[\/(\d+)\]/g)].map(([, index]) => Number(index)),
        Array.from({ length: 21 }, (_, index) => index)
      )
      assert.strictEqual(most, 1)
    })
  )

  it.live("past their limit the connection is cut", () =>
    Effect.gen(function* () {
      let served = 0
      const { port, server } = yield* listening({}, () => void served++)
      yield* exchange(port, GET.repeat(40))
      assert.strictEqual(served, 1)
      assert.strictEqual(server.clients.cuts.pipelining, 1)
    })
  )
})

describe("Connections: a process with a small heap", () => {
  const program = fileURLToPath(new URL("./unreadProcess.ts", import.meta.url))

  /** The service with a heap of so many MiB. */
  const start = (heap: number) =>
    Effect.acquireRelease(
      Effect.sync(() =>
        spawn(process.execPath, [`--max-old-space-size=${heap}`, program], {
          stdio: ["ignore", "pipe", "inherit"]
        })
      ),
      (child) => Effect.sync(() => child.kill("SIGKILL"))
    )

  const decodeMemory = Schema.decodeUnknownSync(Schema.Struct({ rss: Schema.Number }))

  it.live.each([["/docs", 300, 256, 96]] as const)(
    "unread responses of GET %s neither end it nor fill its memory",
    ([path, clients, heap, growth]) =>
      Effect.gen(function* () {
        const child = yield* start(heap)
        const port = yield* Effect.callback<number>((resume) => {
          child.stdout.on("data", (line) => {
            const found = /listening on (\d+)/.exec(String(line))
            if (found !== null) resume(Effect.succeed(Number(found[1])))
          })
        })
        const get = (target: string) =>
          exchange(port, `GET ${target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)
        const memory = Effect.map(get("/memory"), ({ body }) => decodeMemory(body).rss / MIB)
        yield* get(path)
        const before = yield* memory
        for (let count = 0; count < clients; count++) {
          yield* unread(port, `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`)
          if (count % 10 === 9) yield* get("/memory")
        }
        assert.strictEqual((yield* get(path)).status, 200)
        assert.isBelow((yield* memory) - before, growth)
        assert.isNull(child.exitCode)
      }),
    { timeout: 120_000 }
  )
})

describe("Connections: the limit of all connections", () => {
  /** A connection of an address. */
  const connectionFrom = (address: string): Net.Socket =>
    Object.defineProperty(new Net.Socket(), "remoteAddress", { value: address }).on("error", () => undefined)

  it.live("an address with many connections gives one up for another address, down to as many", () =>
    Effect.gen(function* () {
      const connections = new Connections({ ...defaultConnectionLimits, connections: 4 })
      const crowd = Array.from({ length: 4 }, () => connectionFrom("203.0.113.1"))
      for (const socket of crowd) assert.isUndefined(connections.admit(socket))
      const closed = () => crowd.filter((socket) => socket.destroyed).length
      assert.strictEqual(connections.admit(connectionFrom("203.0.113.1")), "total")
      const [first, second, third] = Array.from({ length: 3 }, () => connectionFrom("203.0.113.2"))
      assert.isUndefined(connections.admit(first!))
      yield* until(() => connections.open === 4)
      assert.isUndefined(connections.admit(second!))
      yield* until(() => connections.open === 4)
      assert.strictEqual(closed(), 2)
      // Both have two now.
      assert.strictEqual(connections.admit(third!), "total")
      assert.isFalse(first!.destroyed || second!.destroyed)
      assert.strictEqual(connections.cuts.crowded, 2)
    })
  )

  it("two addresses do not take connections from each other in turns", () => {
    const connections = new Connections({ ...defaultConnectionLimits, connections: 3 })
    for (const host of [1, 1, 2]) assert.isUndefined(connections.admit(connectionFrom(`203.0.113.${host}`)))
    assert.strictEqual(connections.admit(connectionFrom("203.0.113.2")), "total")
  })

  it.live("a connection without a request is given up before one with a request", () =>
    Effect.gen(function* () {
      const inProgress: Array<Net.Socket> = []
      const { port, server } = yield* listening(
        { connections: 3 },
        (request) => void inProgress.push(request.socket)
      )
      // Between the requests in progress, a connection without one.
      for (const [index, bytes] of [GET, "", GET].entries()) {
        yield* unread(port, bytes)
        yield* until(() => server.clients.open === index + 1)
      }
      yield* until(() => inProgress.length === 2)
      const other = connectionFrom("203.0.113.2")
      assert.isUndefined(server.clients.admit(other))
      yield* until(() => server.clients.open === 3)
      assert.strictEqual(server.clients.cuts.crowded, 1)
      assert.isFalse(inProgress.some((socket) => socket.destroyed))
      other.destroy()
      yield* until(() => server.clients.open === 2)
    })
  )
})
