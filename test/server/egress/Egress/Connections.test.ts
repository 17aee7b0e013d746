import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Scope } from "effect"
import { TestClock } from "effect/testing"
import { execFile } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import type { Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { TLSSocket } from "node:tls"
import type { EgressReason } from "../../../../src/server/egress/EgressFailed.ts"
import { makeAuthority, selfSigned } from "../../../support/ca.ts"
import { nameServer } from "../../../support/dns.ts"
import { answers, egress, ok, peer, post } from "./peers.ts"

const hooks = "hooks.acme.com"
const authority = makeAuthority()
const day = 86_400_000
const daysFromNow = (days: number) => new Date(Date.now() + days * day)

/** An egress that trusts the test's authority and resolves every name to these addresses. */
const trusting = (...addresses: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const dns = yield* nameServer(() => addresses)
    return yield* egress({ dns: dns.address, certificates: [authority.certificate] })
  })

describe("Connections › TLS", () => {
  it.live(
    "SNI, certificate check and Host header use the host name, while the connection goes to the checked address",
    () =>
      Effect.gen(function* () {
        const names: Array<unknown> = []
        const receiver = yield* peer(answers(ok()), {
          tls: {
            ...authority.issue({ hosts: [hooks] }),
            ALPNProtocols: ["h2", "http/1.1"]
          },
          onConnection: (socket) => {
            if (socket instanceof TLSSocket) names.push([socket.servername, socket.alpnProtocol])
          }
        })
        const { send } = yield* trusting("127.0.0.1")
        assert.strictEqual((yield* send(post(`https://${hooks}:${receiver.port}/`))).status, 200)
        assert.deepStrictEqual(names, [[hooks, "http/1.1"]])
        assert.include(receiver.requests[0], `host: ${hooks}:${receiver.port}\r\n`)
      })
  )

  it.live("TLS uses the host name of the URL, whatever the Host header is", () =>
    Effect.gen(function* () {
      const receiver = yield* peer(answers(ok()), { tls: authority.issue({ hosts: [hooks] }) })
      const { send } = yield* trusting("127.0.0.1")
      const request = post(`https://${hooks}:${receiver.port}/`, { headers: { host: "other.acme.com" } })
      assert.strictEqual((yield* send(request)).status, 200)
    })
  )

  it.live("TLS to a literal address checks the certificate for that address", () =>
    Effect.gen(function* () {
      const right = yield* peer(answers(ok()), { tls: authority.issue({ hosts: ["127.0.0.1"] }) })
      const wrong = yield* peer(answers(ok()), { tls: authority.issue({ hosts: ["127.0.0.9", hooks] }) })
      const { send } = yield* trusting()
      assert.strictEqual((yield* send(post(`https://127.0.0.1:${right.port}/`))).status, 200)
      const refused = yield* Effect.flip(send(post(`https://127.0.0.1:${wrong.port}/`)))
      assert.strictEqual(refused.reason, "CertificateName")
    })
  )

  it.live.each([
    ["for another name", authority.issue({ hosts: ["other.acme.com"] }), "CertificateName"],
    ["for the address instead of the name", authority.issue({ hosts: ["127.0.0.1"] }), "CertificateName"],
    [
      "that has expired",
      authority.issue({ hosts: [hooks], from: daysFromNow(-2), to: daysFromNow(-1) }),
      "CertificateExpired"
    ],
    [
      "that is not valid yet",
      authority.issue({ hosts: [hooks], from: daysFromNow(1), to: daysFromNow(2) }),
      "CertificateExpired"
    ],
    ["that vouches for itself", selfSigned({ hosts: [hooks] }), "CertificateUntrusted"],
    ["of an authority unknown", makeAuthority().issue({ hosts: [hooks] }), "CertificateUntrusted"]
  ] as const)("a certificate %s is refused before a byte of the request is written", ([, identity, reason]) =>
    Effect.gen(function* () {
      const receiver = yield* peer(answers(ok()), { tls: identity })
      const { send } = yield* trusting("127.0.0.1")
      const refused = yield* Effect.flip(send(post(`https://${hooks}:${receiver.port}/`)))
      assert.strictEqual(refused.reason, reason)
      assert.lengthOf(receiver.requests, 0)
    })
  )

  it.live.each<readonly [string, EgressReason, Parameters<typeof peer>[1]]>([
    ["plain text", "TlsFailed", { onConnection: (socket) => void socket.write("HTTP/1.1 200 OK\r\n\r\n") }],
    ["nothing", "TimedOut", {}],
    ["a closed connection", "ConnectionClosed", { onConnection: (socket) => void socket.destroy() }],
    [
      "TLS 1.1",
      "TlsFailed",
      {
        tls: {
          ...authority.issue({ hosts: [hooks] }),
          minVersion: "TLSv1",
          maxVersion: "TLSv1.1",
          ciphers: "DEFAULT@SECLEVEL=0"
        }
      }
    ]
  ])("a TLS handshake answered with %s fails", ([, reason, options]) =>
    Effect.gen(function* () {
      const receiver = yield* peer(() => undefined, options)
      const { send } = yield* trusting("127.0.0.1")
      // Only a response that never comes is waited for to the end.
      const timeout = reason === "TimedOut" ? "400 millis" : "20 seconds"
      const refused = yield* Effect.flip(send(post(`https://${hooks}:${receiver.port}/`, { timeout })))
      assert.strictEqual(refused.reason, reason)
      assert.lengthOf(receiver.requests, 0)
    })
  )

  it.live("a TLS failure does not lead to the next address of the name", () =>
    Effect.gen(function* () {
      const wrong = yield* peer(answers(ok()), { tls: selfSigned({ hosts: [hooks] }) })
      const right = yield* peer(answers(ok()), {
        host: "127.0.0.2",
        port: wrong.port,
        tls: authority.issue({ hosts: [hooks] })
      })
      const { send } = yield* trusting("127.0.0.1", "127.0.0.2")
      const refused = yield* Effect.flip(send(post(`https://${hooks}:${wrong.port}/`)))
      assert.strictEqual(refused.reason, "CertificateUntrusted")
      assert.deepStrictEqual([wrong.connections(), right.connections()], [1, 0])
    })
  )

  it.live("a server that requires a client certificate is a failure", () =>
    Effect.gen(function* () {
      const receiver = yield* peer(() => undefined, {
        tls: { ...authority.issue({ hosts: [hooks] }), requestCert: true, rejectUnauthorized: true }
      })
      const { send } = yield* trusting("127.0.0.1")
      const refused = yield* Effect.flip(send(post(`https://${hooks}:${receiver.port}/`)))
      // The server reports it after the handshake (TLS 1.3), so its alert and the end of the connection race.
      assert.include(["TlsFailed", "ConnectionClosed"], refused.reason)
      assert.lengthOf(receiver.requests, 0)
    })
  )

  it.live("TLS sessions are not resumed, on the same address or another", () =>
    Effect.gen(function* () {
      const resumed: Array<boolean> = []
      const identity = authority.issue({ hosts: [hooks] })
      // The same ticket keys on both servers, so either would resume the other's sessions.
      const tls = { ...identity, ticketKeys: Buffer.alloc(48, 7) }
      const options = {
        tls,
        onConnection: (socket: unknown) =>
          void (socket instanceof TLSSocket && resumed.push(socket.isSessionReused()))
      }
      const closing = answers(ok("", ["connection: close"]))
      const first = yield* peer(closing, options)
      yield* peer(closing, { ...options, host: "127.0.0.2", port: first.port })
      const dns = yield* nameServer((_question, before) => [before % 3 < 2 ? "127.0.0.1" : "127.0.0.2"])
      const { send } = yield* egress({ dns: dns.address, certificates: [authority.certificate] })
      for (let count = 0; count < 6; count++) yield* send(post(`https://${hooks}:${first.port}/`))
      assert.deepStrictEqual(resumed, [false, false, false, false, false, false])
    })
  )

  it.live("certificates of NODE_EXTRA_CA_CERTS and of the system are trusted, and no others", () =>
    Effect.gen(function* () {
      const receiver = yield* peer(answers(ok()), { tls: authority.issue({ hosts: ["127.0.0.1"] }) })
      const folder = yield* Effect.acquireRelease(
        Effect.sync(() => mkdtempSync(join(tmpdir(), "trust-"))),
        (folder) => Effect.sync(() => rmSync(folder, { recursive: true }))
      )
      const file = join(folder, "ca.pem")
      writeFileSync(file, authority.certificate)
      const script = `
        import { Effect } from "effect"
        import { egress, post } from ${JSON.stringify(join(import.meta.dirname, "peers.ts"))}
        const program = Effect.gen(function* () {
          const { send } = yield* egress()
          return yield* Effect.result(send(post("https://127.0.0.1:${receiver.port}/")))
        })
        const result = await Effect.runPromise(Effect.scoped(program))
        process.stdout.write(result._tag === "Success" ? String(result.success.status) : result.failure.reason)`
      const run = (env: Readonly<Record<string, string>>) =>
        Effect.callback<string>((resume) => {
          execFile(
            process.execPath,
            ["--input-type=module-typescript", "--eval", script],
            { env: { ...process.env, ...env } },
            (error, stdout) => resume(Effect.succeed(error === null ? stdout : error.message))
          )
        })
      // The system's certificate store is set the way OpenSSL reads it.
      const results = yield* Effect.all(
        [run({ NODE_EXTRA_CA_CERTS: file }), run({ SSL_CERT_FILE: file }), run({})],
        { concurrency: 2 }
      )
      assert.deepStrictEqual(results, ["200", "200", "CertificateUntrusted"])
    })
  )
})

describe("Connections › keep-alive", () => {
  it.live("a kept-alive connection is not shared by two destinations with the same URL", () =>
    Effect.gen(function* () {
      const receiver = yield* peer(answers(ok()))
      const { send } = yield* trusting("127.0.0.1")
      const request = post(`http://${hooks}:${receiver.port}/`)
      yield* send(request)
      yield* send(request)
      assert.strictEqual(receiver.connections(), 1)
      yield* send({ ...request, pool: "nep_2" })
      assert.strictEqual(receiver.connections(), 2)
    })
  )

  it.live("a kept-alive connection is not shared by two names at one address", () =>
    Effect.gen(function* () {
      const receiver = yield* peer(answers(ok()))
      const { send } = yield* trusting("127.0.0.1")
      yield* send(post(`http://a.acme.com:${receiver.port}/`))
      yield* send(post(`http://b.acme.com:${receiver.port}/`))
      assert.strictEqual(receiver.connections(), 2)
    })
  )

  // The clock moves only when the test adjusts it, so no deadline passes in these tests.
  it.effect("a connection is not used for new requests once it is 45 seconds old", () =>
    Effect.gen(function* () {
      const receiver = yield* peer(answers(ok("", ["keep-alive: timeout=3600"])))
      const { send } = yield* egress()
      const request = post(`http://127.0.0.1:${receiver.port}/`)
      yield* send(request)
      yield* TestClock.adjust("44 seconds")
      yield* send(request)
      assert.strictEqual(receiver.connections(), 1)
      yield* TestClock.adjust("1 second")
      yield* send(request)
      assert.strictEqual(receiver.connections(), 2)
    })
  )

  it.effect("an idle connection is closed within 50 seconds", () =>
    Effect.gen(function* () {
      const receiver = yield* peer(answers(ok("", ["keep-alive: timeout=3600"])))
      const { send } = yield* egress()
      yield* send(post(`http://127.0.0.1:${receiver.port}/`))
      yield* TestClock.adjust("50 seconds")
      yield* receiver.closed
    })
  )

  it.live("the least recently used of more than 1,024 destinations loses its connections", () =>
    Effect.gen(function* () {
      const receiver = yield* peer(answers(ok("", ["keep-alive: timeout=3600"])))
      const others = yield* peer(answers(ok("", ["connection: close"])))
      const { send } = yield* egress()
      yield* send(post(`http://127.0.0.1:${receiver.port}/`, { pool: "nep_0" }))
      for (let count = 1; count <= 1_024; count++) {
        yield* send(post(`http://127.0.0.1:${others.port}/`, { pool: `nep_${count}` }))
      }
      yield* receiver.closed
      yield* send(post(`http://127.0.0.1:${receiver.port}/`, { pool: "nep_0" }))
      assert.strictEqual(receiver.connections(), 2)
    })
  )

  it.live("kept-alive connections are closed when the layer's scope closes", () =>
    Effect.gen(function* () {
      const receiver = yield* peer(answers(ok()))
      const scope = yield* Scope.make()
      const { send } = yield* egress().pipe(Effect.provideService(Scope.Scope, scope))
      yield* send(post(`http://127.0.0.1:${receiver.port}/`))
      yield* Scope.close(scope, Exit.void)
      yield* receiver.closed
    })
  )
})

describe("Connections › requests in flight", () => {
  it.effect("a request in flight outlives its pool's age limit, and ends when the layer's scope closes", () =>
    Effect.gen(function* () {
      const asked = yield* Deferred.make<Socket>()
      const old = yield* peer((socket, count) => {
        if (count === 0) socket.write(ok("", ["keep-alive: timeout=3600"]))
        else Deferred.doneUnsafe(asked, Effect.succeed(socket))
      })
      const scope = yield* Scope.make()
      const { send } = yield* egress().pipe(Effect.provideService(Scope.Scope, scope))
      const request = post(`http://127.0.0.1:${old.port}/`, { timeout: "1 day" })
      yield* send(request)
      yield* TestClock.adjust("40 seconds")
      const fiber = yield* Effect.forkChild(send(request), { startImmediately: true })
      yield* Deferred.await(asked)
      yield* TestClock.adjust("30 seconds")
      assert.isUndefined(fiber.pollUnsafe())
      yield* Scope.close(scope, Exit.void)
      const failed = yield* Effect.flip(Fiber.join(fiber))
      assert.strictEqual(failed.reason, "ConnectionClosed")
      yield* old.closed
    })
  )

  it.live("requests to one destination run concurrently", () =>
    Effect.gen(function* () {
      // Responds only once the eighth request has arrived.
      const waiting: Array<() => void> = []
      const receiver = yield* peer((socket) => {
        waiting.push(() => void socket.write(ok()))
        if (waiting.length === 8) for (const answer of waiting) answer()
      })
      const { send } = yield* egress()
      const results = yield* Effect.all(
        Array.from({ length: 8 }, () => send(post(`http://127.0.0.1:${receiver.port}/`))),
        { concurrency: "unbounded" }
      )
      assert.isTrue(results.every(({ status }) => status === 200))
      assert.strictEqual(receiver.connections(), 8)
    })
  )

  it.live("requests to one destination share at most 64 connections", () =>
    Effect.gen(function* () {
      // Responds only once all 64 connections are in use.
      const waiting: Array<() => void> = []
      const receiver = yield* peer((socket, count) => {
        waiting.push(() => void socket.write(ok()))
        if (count >= 63) for (const answer of waiting.splice(0)) answer()
      })
      const { send } = yield* egress()
      const results = yield* Effect.all(
        Array.from({ length: 80 }, () => send(post(`http://127.0.0.1:${receiver.port}/`))),
        { concurrency: "unbounded" }
      )
      assert.isTrue(results.every(({ status }) => status === 200))
      assert.strictEqual(receiver.connections(), 64)
    })
  )

  it.live("requests to one destination do not wait for those to a hanging one", () =>
    Effect.gen(function* () {
      const hanging = yield* peer(() => undefined)
      const receiver = yield* peer(answers(ok()))
      const { send } = yield* egress()
      const stuck = yield* Effect.forkChild(
        Effect.all(
          Array.from({ length: 100 }, () =>
            send(post(`http://127.0.0.1:${hanging.port}/`, { pool: "nep_2" }))
          ),
          { concurrency: "unbounded" }
        ),
        { startImmediately: true }
      )
      assert.strictEqual((yield* send(post(`http://127.0.0.1:${receiver.port}/`))).status, 200)
      assert.isUndefined(stuck.pollUnsafe())
    })
  )
})
