import { assert, describe, it } from "@effect/vitest"
import { Redacted, Result } from "effect"
import { EventEmitter } from "node:events"
import { createServer, type RequestListener, request } from "node:http"
import { signatureHeaders, makeSigningKey } from "../../src/domain/delivery/WebhookSignature.ts"
import { memorySeen, nodeHandler, type ReceiverOptions, type WebhookEvent } from "../../src/webhook/index.ts"
import * as Events from "./events.ts"
import { listenOnFreePort } from "../support/listenOnFreePort.ts"

const secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
const keys = { current: Result.getOrThrow(makeSigningKey(Redacted.make(secret))), previous: null }
const at = 1_795_228_385
const body = JSON.stringify(Events.test)
const headers = signatureHeaders(keys, { eventId: "evt_1", eventType: "test", timestamp: at, body })

const optionsWith = (more: Partial<ReceiverOptions> = {}) => {
  const events: Array<WebhookEvent> = []
  const errors: Array<unknown> = []
  const options: ReceiverOptions = {
    secret,
    now: () => at * 1000,
    seen: memorySeen(),
    onEvent: (event) => events.push(event),
    onError: (error) => errors.push(error),
    ...more
  }
  return { events, errors, options }
}

const withServer = async <A>(listener: RequestListener, use: (port: number) => Promise<A>): Promise<A> => {
  const server = createServer(listener)
  const port = await listenOnFreePort(server)
  try {
    return await use(port)
  } finally {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
}

const post = (port: number, sent: string | Uint8Array<ArrayBuffer>) =>
  fetch(`http://127.0.0.1:${port}/hook`, { method: "POST", headers, body: sent })

describe("nodeHandler", () => {
  it("receives over node:http", async () => {
    const { events, options } = optionsWith()
    await withServer(nodeHandler(options), async (port) => {
      for (const _ of [1, 2]) {
        const handled = await post(port, body)
        assert.deepStrictEqual([handled.status, handled.headers.get("connection")], [204, "keep-alive"])
      }
      const refused = await post(port, `${body} `)
      assert.deepStrictEqual([refused.status, refused.headers.get("connection")], [401, "close"])
      assert.include(await refused.text(), "no_matching_signature")
    })
    assert.deepStrictEqual<unknown>(events, [Events.test])
  })

  it("responds to an endless body at its limit and closes the connection", async () => {
    const { events, options } = optionsWith({ maxBodyBytes: 10_000 })
    await withServer(nodeHandler(options), async (port) => {
      const status = await new Promise((resolve, reject) => {
        const sending = request({ port, host: "127.0.0.1", method: "POST", headers })
        const more = () => sending.write(Buffer.alloc(5_000))
        sending.on("drain", more)
        sending.on("response", (response) => {
          sending.off("drain", more)
          resolve(`${response.statusCode} ${response.headers.connection}`)
          sending.destroy()
        })
        sending.on("error", reject)
        for (let chunk = 0; chunk < 5; chunk++) more()
      })
      assert.strictEqual(status, "413 close")
    })
    assert.deepStrictEqual(events, [])
  })

  it("takes a body of exactly its limit, and refuses one byte more, also from a raw body parser", async () => {
    const raw = Buffer.from(body)
    for (const [maxBodyBytes, status] of [
      [raw.length, 204],
      [raw.length - 1, 413]
    ] as const) {
      const { options } = optionsWith({ maxBodyBytes })
      const listener = nodeHandler(options)
      await withServer(listener, async (port) => {
        assert.strictEqual((await post(port, body)).status, status)
      })
      await withServer(
        (incoming, response) => void listener(Object.assign(incoming, { body: raw }), response),
        async (port) => {
          assert.strictEqual((await post(port, body)).status, status)
        }
      )
    }
  })

  it("answers 400 if the connection fails or closes within the body", async () => {
    for (const end of ["error", "close"]) {
      const { events, options } = optionsWith()
      const sender = new EventEmitter()
      const statuses: Array<number> = []
      const lowerCase = Object.fromEntries(
        Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])
      )
      const answered = nodeHandler(options)(
        {
          method: "POST",
          headers: lowerCase,
          readableEnded: false,
          on: (event, listener) =>
            sender.on(event, (...args) => void Reflect.apply(listener, undefined, args))
        },
        { writeHead: (status) => statuses.push(status), end: () => undefined }
      )
      sender.emit("data", Buffer.from(body.slice(0, 10)))
      sender.emit(end)
      await answered
      assert.deepStrictEqual([statuses, events], [[400], []], end)
    }
  })

  it("reports a response that was sent before, such as by a time-out of the framework", async () => {
    const { errors, options } = optionsWith()
    const sent = new Error("headers sent")
    await nodeHandler(options)(
      { headers: {}, readableEnded: false, on: () => undefined },
      {
        writeHead: () => {
          throw sent
        },
        end: () => undefined
      }
    )
    assert.deepStrictEqual(errors, [sent])
  })

  it("refuses a request without a method", async () => {
    const { options } = optionsWith()
    const statuses: Array<number> = []
    await nodeHandler(options)(
      { headers: {}, readableEnded: false, on: () => undefined },
      { writeHead: (status) => statuses.push(status), end: () => undefined }
    )
    assert.deepStrictEqual(statuses, [405])
  })

  it("finds the bytes or the text that a framework has kept, and reports a parser that kept neither", async () => {
    const { errors, events, options } = optionsWith({
      seen: { claim: () => "claimed", complete: () => undefined, release: () => undefined }
    })
    const listener = nodeHandler(options)
    /** What a framework leaves on the request after it has read the body. */
    const statusAfter = (keep: (raw: Buffer) => { readonly body?: unknown; readonly rawBody?: unknown }) => {
      const behind: RequestListener = (incoming, response) => {
        const chunks: Array<Buffer> = []
        incoming.on("data", (chunk: Buffer) => chunks.push(chunk))
        incoming.on("end", () => {
          const read = Object.assign(incoming, keep(Buffer.concat(chunks)))
          setImmediate(() => void listener(read, response))
        })
      }
      return withServer(behind, async (port) => (await post(port, body)).status)
    }
    const parse = (raw: Buffer): unknown => JSON.parse(raw.toString())
    assert.strictEqual(await statusAfter((raw) => ({ body: raw })), 204, "express.raw")
    assert.strictEqual(await statusAfter((raw) => ({ body: raw.toString() })), 204, "express.text")
    assert.strictEqual(
      await statusAfter((raw) => ({ body: parse(raw), rawBody: raw })),
      204,
      "Firebase, Nest"
    )
    assert.strictEqual(
      await statusAfter((raw) => ({ body: parse(raw), rawBody: raw.toString() })),
      204,
      "Azure"
    )
    assert.strictEqual(events.length, 4)
    assert.strictEqual(await statusAfter((raw) => ({ body: parse(raw) })), 500, "express.json")
    assert.match(String(errors[0]), /let the parser keep the bytes or the text in rawBody or body/)
    assert.strictEqual(await statusAfter((raw) => ({ body: parse(raw), rawBody: `${raw.toString()} ` })), 401)
  })
})
