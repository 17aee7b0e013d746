import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber, Layer, Schedule } from "effect"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { gzipSync } from "node:zlib"
import { Delivery } from "../../../../src/server/delivery/Delivery.ts"
import { DeliveryId } from "../../../../src/domain/Ids.ts"
import { selfSigned } from "../../../support/ca.ts"
import { TestDatabase } from "../../../support/postgres.ts"
import { startTakenTime } from "../../../support/takenTime.ts"
import {
  publishWebhookEvents,
  insertEndpoint,
  layerWebhookDependencies,
  awaitRecords,
  withWebhookEngine
} from "../../../support/delivery.ts"
import { answers, type Behaviour, drip, flood, peer } from "../../egress/Egress/peers.ts"

const head200 = "HTTP/1.1 200 OK\r\n"

/** The longest attempt: its deadline of five seconds, and half a second. Besides it, what other programs take from this one. */
const LONGEST_MILLIS = 5_500
/** The most by which memory may grow while all attempts run concurrently. */
const MAX_GROWTH_BYTES = 20 * 1024 * 1024

interface HostileReceiver {
  readonly name: string
  readonly behave: Behaviour
  /** Set if the fault is in TLS. */
  readonly secure?: Parameters<typeof peer>[1]
  /** The `last_error` of the delivery; null if it counts as delivered. */
  readonly phrase: string | null
}

const bomb = gzipSync(Buffer.alloc(32 * 1024 * 1024))

const receivers: ReadonlyArray<HostileReceiver> = [
  { name: "hangs before headers", behave: () => undefined, phrase: "timed out waiting for a response" },
  { name: "drips headers", behave: drip(head200, "x", 100), phrase: "timed out waiting for a response" },
  {
    name: "drips interim answers",
    behave: drip("", "HTTP/1.1 103 Early Hints\r\n\r\n", 400),
    phrase: "timed out waiting for a response"
  },
  {
    name: "answers 200 after six seconds",
    behave: (socket) => {
      const timer = setTimeout(() => socket.write(`${head200}content-length: 0\r\n\r\n`), 6_000)
      socket.on("close", () => clearTimeout(timer))
    },
    phrase: "timed out waiting for a response"
  },
  {
    name: "drips the body",
    behave: drip(`${head200}content-length: 100000\r\n\r\n`, "x", 100),
    phrase: null
  },
  { name: "sends a body without end", behave: flood(`${head200}\r\n`, "x"), phrase: null },
  {
    name: "sends a body without end after a failure",
    behave: flood("HTTP/1.1 500 No\r\n\r\n", "x"),
    phrase: "HTTP 500"
  },
  {
    name: "sends a gzip bomb",
    behave: (socket) => {
      socket.write(`${head200}content-encoding: gzip\r\ncontent-length: ${bomb.length}\r\n\r\n`)
      socket.write(bomb)
    },
    phrase: null
  },
  {
    name: "sends huge headers",
    behave: answers(`${head200}x: ${"y".repeat(65_536)}\r\n\r\n`),
    phrase: "the response headers are too large"
  },
  {
    name: "sends headers without end",
    behave: flood(head200, "x-a: b\r\n"),
    phrase: "the response headers are too large"
  },
  {
    name: "floods with interim answers",
    behave: flood("", "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"),
    phrase: "malformed HTTP response"
  },
  {
    name: "resets the connection",
    behave: (socket) => void socket.resetAndDestroy(),
    phrase: "connection closed before a response"
  },
  {
    name: "closes early",
    behave: (socket) => void socket.end(`${head200}x-a: b`),
    phrase: "connection closed before a response"
  },
  {
    name: "redirects",
    behave: answers("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"),
    phrase: "HTTP 302: redirects are not followed"
  },
  {
    name: "answers with what is no HTTP",
    behave: answers("TOKEN-OF-THE-PEER 401 Bearer secret\r\n\r\n"),
    phrase: "malformed HTTP response"
  },
  {
    name: "shows a certificate that vouches for itself",
    behave: () => undefined,
    secure: { tls: selfSigned({ hosts: ["127.0.0.1"] }) },
    phrase: "the TLS certificate is not trusted"
  },
  {
    name: "speaks no TLS where it should",
    behave: () => undefined,
    secure: { onConnection: (socket) => void socket.write("HTTP/1.1 200 OK\r\n\r\n") },
    phrase: "the TLS handshake failed"
  }
]

/** Bytes of memory in use after a garbage collection. */
const bytesInUse = (): number => {
  collect()
  const { external, heapUsed } = process.memoryUsage()
  return heapUsed + external
}

const collect: () => void = (() => {
  setFlagsFromString("--expose-gc")
  const gc: unknown = runInNewContext("gc")
  return () => void (typeof gc === "function" && gc())
})()

describe("WebhookChannel › hostile receivers", () => {
  it.live(
    "attempts at hostile receivers end within their deadline, take no memory, and are recorded with phrases of the service",
    () =>
      Effect.gen(function* () {
        const endpoints = yield* Effect.forEach(receivers, ({ behave, name, secure }) =>
          Effect.gen(function* () {
            const { port } = yield* peer(behave, secure ?? {})
            const endpoint = yield* insertEndpoint(
              `${secure === undefined ? "http" : "https"}://127.0.0.1:${port}/`
            )
            return { endpoint, name }
          })
        )
        const delivery = yield* Delivery
        const before = bytesInUse()
        let most = before
        const watch = Effect.sync(() => {
          most = Math.max(most, bytesInUse())
        })
        const takenTime = startTakenTime()
        yield* publishWebhookEvents(
          endpoints.map(({ endpoint }) => endpoint),
          JSON.stringify({ id: "evt" })
        )
        const watching = yield* Effect.forkChild(Effect.repeat(watch, Schedule.spaced("250 millis")))
        const found = yield* Effect.forEach(
          endpoints,
          Effect.fnUntraced(function* ({ endpoint, name }) {
            const [record] = yield* awaitRecords(
              endpoint,
              ([first]) => first !== undefined && first.status !== "pending" && first.status !== "delivering"
            )
            const { attempt_log } = yield* delivery.get(
              endpoint.org_id,
              endpoint.destination_id,
              DeliveryId.make(record?.id ?? "")
            )
            assert.lengthOf(attempt_log, 1, name)
            assert.isAtMost(attempt_log[0]?.duration_ms ?? Infinity, LONGEST_MILLIS + takenTime(), name)
            return { name, status: record?.status, phrase: record?.last_error }
          }),
          { concurrency: "unbounded" }
        )
        yield* Fiber.interrupt(watching)
        assert.deepStrictEqual(
          found.map(({ name, phrase, status }) => ({ name, phrase, status })),
          receivers.map(({ name, phrase }) => ({
            name,
            phrase,
            status: phrase === null ? ("delivered" as const) : ("failed" as const)
          }))
        )
        assert.isAtMost(most - before, MAX_GROWTH_BYTES)
      }).pipe(
        withWebhookEngine({ delays: [Duration.zero] }),
        Effect.provide(Layer.fresh(Layer.merge(TestDatabase.layerSql, layerWebhookDependencies)))
      ),
    120_000
  )
})
