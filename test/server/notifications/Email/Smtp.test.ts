import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Logger, Redacted } from "effect"
import { createServer } from "node:net"
import { type Mail, makeSmtp } from "../../../../src/server/notifications/Email/Smtp.ts"
import { makeAuthority, selfSigned } from "../../../support/ca.ts"
import { REFUSAL_TEXT, mailServer, type MailServerOptions } from "../../../support/mail.ts"
import { listenOnFreePort } from "../../../support/listenOnFreePort.ts"

const mail: Mail = {
  to: "ada@example.org",
  subject: "payments.refund waits",
  text: "text",
  html: "<p>text</p>",
  messageId: "<evt_1@example.org>",
  thread: "<apr_1@example.org>",
  date: new Date("2026-11-21T08:00:00Z")
}

/** Sends to a URL from a new connection pool. */
const sendTo = (url: string, one: Partial<Mail> = {}) =>
  Effect.scoped(
    Effect.flatMap(makeSmtp({ url: Redacted.make(url), from: "c@example.org" }), (smtp) =>
      smtp.send({ ...mail, ...one })
    )
  )

/** Sends to a new server with this behaviour. */
const sendToServer = (options: MailServerOptions, one: Partial<Mail> = {}) =>
  Effect.scoped(
    Effect.gen(function* () {
      const server = yield* mailServer(options)
      const outcome = yield* sendTo(`smtp://127.0.0.1:${server.port}`, one)
      return { outcome, received: server.received, named: server.named }
    })
  )

const retry = (error: string, status: number | null) =>
  ({ _tag: "Retry", error, status, retryAfter: null }) as const

describe("Smtp", () => {
  it.live("an accepted email is delivered", () =>
    Effect.gen(function* () {
      const { outcome, received } = yield* sendToServer({})
      assert.deepStrictEqual(outcome, { _tag: "Delivered", status: 250 })
      const [one] = received
      assert.strictEqual(one?.text, "text\n")
      assert.strictEqual(one?.html, "<p>text</p>\n")
      assert.strictEqual(one?.headers.get("message-id"), mail.messageId)
      assert.strictEqual(one?.headers.get("in-reply-to"), mail.thread)
      assert.strictEqual(one?.headers.get("date"), "Sat, 21 Nov 2026 08:00:00 +0000")
    })
  )

  it.live("a deferred email is retried, a rejected one is not, and neither is a fault of the server", () =>
    Effect.gen(function* () {
      const greylisted = yield* sendToServer({ recipient: () => 451 })
      assert.deepStrictEqual(greylisted.outcome, {
        ...retry("SMTP 451: the mail server deferred the message", 451),
        fault: "delivery"
      })
      const unknown = yield* sendToServer({ recipient: () => 550 })
      assert.deepStrictEqual(unknown.outcome, {
        _tag: "Failed",
        error: "SMTP 550: the mail server rejected the message",
        status: 550,
        fault: "delivery"
      })
      const later = yield* sendToServer({ message: () => 452 })
      assert.deepStrictEqual(later.outcome, {
        ...retry("SMTP 452: the mail server deferred the message", 452),
        fault: "delivery"
      })
      const spam = yield* sendToServer({ message: () => 554 })
      assert.strictEqual(spam.outcome._tag, "Failed")
    })
  )

  it.live("faults of the server and of its configuration are retried", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(
        (yield* sendToServer({ sender: () => 550 })).outcome,
        retry("SMTP 550: the mail server rejected the sender", 550)
      )
      assert.deepStrictEqual(
        (yield* sendToServer({ connect: () => 554 })).outcome,
        retry("SMTP 554: the mail server does not accept mail", 554)
      )
      assert.deepStrictEqual(
        (yield* sendToServer({ message: () => 421 })).outcome,
        retry("SMTP 421: the mail server is shutting down", 421)
      )
      const { port } = yield* Effect.scoped(mailServer())
      assert.deepStrictEqual(
        yield* sendTo(`smtp://127.0.0.1:${port}`),
        retry("the mail server refused the connection", null)
      )
      assert.deepStrictEqual(
        yield* sendTo("smtp://no-such-host.invalid:25"),
        retry("the mail server's name could not be resolved", null)
      )
    })
  )

  it.live("a server that does not speak SMTP is a fault of the server", () =>
    Effect.gen(function* () {
      const server = createServer((socket) => {
        socket.on("error", () => {})
        socket.end("HTTP/1.1 400 Bad Request\r\n\r\n")
      })
      const port = yield* Effect.promise(() => listenOnFreePort(server))
      const outcome = yield* sendTo(`smtp://127.0.0.1:${port}`)
      server.close()
      assert.deepStrictEqual(outcome, retry("the mail server does not speak SMTP", null))
    })
  )

  it.live("a login uses TLS if the server offers it", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const login = { user: "countersign", password: "hunter2/%:@" }
        const server = yield* mailServer({ login, tls: selfSigned({ hosts: ["127.0.0.1"] }) })
        const url = (password: string, query: string) =>
          `smtp://countersign:${encodeURIComponent(password)}@127.0.0.1:${server.port}${query}`
        const trusting = "?tls.rejectUnauthorized=false"
        assert.strictEqual((yield* sendTo(url(login.password, trusting)))._tag, "Delivered")
        assert.isTrue(server.received[0]?.secure)
        assert.strictEqual(server.received[0]?.user, "countersign")
        assert.deepStrictEqual(
          yield* sendTo(url("wrong", trusting)),
          retry("SMTP 535: the mail server rejected the login", 535)
        )
        // An untrusted certificate is refused unless the operator allows it.
        assert.deepStrictEqual(
          yield* sendTo(url(login.password, "")),
          retry("the mail server's TLS certificate is not trusted", null)
        )
        assert.lengthOf(server.received, 1)
      })
    )
  )

  it.live("smtps uses TLS from the first byte", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const tls = makeAuthority().issue({ hosts: ["127.0.0.1"] })
        const server = yield* mailServer({ tls, implicitTls: true })
        const url = `smtps://127.0.0.1:${server.port}`
        assert.deepStrictEqual(
          yield* sendTo(url),
          retry("the mail server's TLS certificate is not trusted", null)
        )
        assert.strictEqual((yield* sendTo(`${url}?tls.rejectUnauthorized=false`))._tag, "Delivered")
        assert.isTrue(server.received[0]?.secure)
      })
    )
  )

  it.live("a password is sent without TLS only to this machine", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const login = { user: "countersign", password: "hunter2" }
        const server = yield* mailServer({ login })
        const url = (host: string) => `smtp://countersign:hunter2@${host}:${server.port}`
        // An address of this machine that is not recognized as one.
        assert.deepStrictEqual(yield* sendTo(url("0.0.0.0")), {
          ...retry("SMTP 500: the TLS handshake with the mail server failed", 500)
        })
        assert.lengthOf(server.received, 0)
        assert.strictEqual((yield* sendTo(url("127.0.0.1")))._tag, "Delivered")
        assert.strictEqual((yield* sendTo(`${url("0.0.0.0")}?requireTLS=false`))._tag, "Delivered")
      })
    )
  )

  it.live("interruption closes the connection to a server that does not respond", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const server = yield* mailServer({ message: (nth) => (nth === 1 ? "never" : undefined) })
        const smtp = yield* makeSmtp({
          url: Redacted.make(`smtp://127.0.0.1:${server.port}`),
          from: "c@example.org"
        })
        const stuck = yield* Effect.forkChild(smtp.send(mail))
        yield* Effect.promise(() => server.hanging)
        yield* Fiber.interrupt(stuck)
        // The connection that hung is closed, and the next mail gets a new one.
        assert.strictEqual((yield* smtp.send(mail))._tag, "Delivered")
        assert.strictEqual(server.connections(), 2)
      })
    )
  )

  it.live("a connection is reused for several emails", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const server = yield* mailServer({ recipient: (_, nth) => (nth === 2 ? 550 : undefined) })
        const smtp = yield* makeSmtp({
          url: Redacted.make(`smtp://127.0.0.1:${server.port}`),
          from: "c@example.org"
        })
        for (const expected of ["Delivered", "Failed", "Delivered", "Delivered", "Delivered"]) {
          assert.strictEqual((yield* smtp.send(mail))._tag, expected)
        }
        // A connection may still be finishing one email when the next one needs a connection.
        assert.isAtMost(server.connections(), 2)
      })
    )
  )

  it.live("subject and address cannot inject headers or recipients", () =>
    Effect.gen(function* () {
      const { named, outcome, received } = yield* sendToServer(
        {},
        { subject: "a\r\nBcc: mallory@example.net\r\n\r\nbody", to: "ada@example.org" }
      )
      assert.strictEqual(outcome._tag, "Delivered")
      assert.deepStrictEqual(named, ["ada@example.org"])
      assert.notInclude(received[0]?.headerNames ?? [], "bcc")
      const injected = yield* sendToServer({}, { to: "ada@example.org>\r\nRCPT TO:<mallory@example.net" })
      assert.notInclude(injected.named, "mallory@example.net")
    })
  )

  it.live("neither log nor outcome contains the login or text of the server", () =>
    Effect.gen(function* () {
      const lines: Array<string> = []
      const capture = Logger.make(({ cause, message }) => {
        lines.push(JSON.stringify([message, String(cause)]))
      })
      const wrote: Array<string> = []
      const levels = ["log", "debug", "info", "warn", "error"] as const
      const before = levels.map((level) => console[level])
      for (const level of levels) {
        console[level] = (...list: ReadonlyArray<unknown>) => void wrote.push(list.map(String).join(" "))
      }
      const outcomes = yield* Effect.scoped(
        Effect.gen(function* () {
          const login = { user: "countersign", password: "right" }
          const server = yield* mailServer({ login })
          const refusing = yield* mailServer({ recipient: () => 550 })
          return [
            yield* sendTo(`smtp://countersign:hunter2@127.0.0.1:${server.port}?logger=true&debug=true`),
            yield* sendTo(`smtp://127.0.0.1:${refusing.port}?transactionLog=true&logger=true`)
          ]
        })
      ).pipe(
        Effect.provide(Logger.layer([capture])),
        Effect.ensuring(
          Effect.sync(() => {
            for (const [index, level] of levels.entries()) console[level] = before[index] ?? console[level]
          })
        )
      )
      const all = JSON.stringify([lines, wrote, outcomes])
      assert.notInclude(all, "hunter2")
      assert.notInclude(all, Buffer.from("hunter2").toString("base64"))
      assert.notInclude(all, REFUSAL_TEXT)
      assert.deepStrictEqual(wrote, [])
    })
  )
})
