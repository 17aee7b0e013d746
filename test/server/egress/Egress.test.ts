import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Fiber, Result } from "effect"
import { NetAddress } from "effect/net"
import fc from "fast-check"
import { subscribe, unsubscribe } from "node:diagnostics_channel"
import { Socket } from "node:net"
import { monotonicMillis } from "../../../src/server/concurrency/monotonicMillis.ts"
import { nameServer, type Zone } from "../../support/dns.ts"
import { suspendableClock } from "../../support/suspendableClock.ts"
import { answers, egress, ok, peer, post } from "./Egress/peers.ts"

const hooks = "hooks.acme.com"

/** A name server that resolves one name. The n-th lookup returns the n-th zone, later ones the last. */
const moving = (...zones: ReadonlyArray<Zone>) =>
  nameServer((question, before) =>
    question.name === hooks ? (zones[Math.min(before, zones.length - 1)] ?? "NXDOMAIN") : "NXDOMAIN"
  )

describe("Egress › DNS lookup", () => {
  it.live(
    "each attempt looks its host up once per address family, also when a connection is kept alive",
    () =>
      Effect.gen(function* () {
        const dns = yield* moving(["127.0.0.1"])
        const receiver = yield* peer(answers(ok()))
        const { send } = yield* egress({ dns: dns.address })
        for (let attempt = 1; attempt <= 3; attempt++) {
          const answer = yield* send(post(`http://${hooks}:${receiver.port}/`))
          assert.strictEqual(answer.status, 200)
          assert.deepStrictEqual(dns.questions.map(({ name, type }) => `${name} ${type}`).toSorted(), [
            ...Array.from({ length: attempt }, () => `${hooks} A`),
            ...Array.from({ length: attempt }, () => `${hooks} AAAA`)
          ])
        }
        assert.strictEqual(receiver.connections(), 1)
        assert.include(receiver.requests[0], `host: ${hooks}:${receiver.port}\r\n`)
      })
  )

  it.live("a literal IP address is not looked up", () =>
    Effect.gen(function* () {
      const dns = yield* moving(["127.0.0.1"])
      const receiver = yield* peer(answers(ok()))
      const { send } = yield* egress({ dns: dns.address })
      yield* send(post(`http://127.0.0.1:${receiver.port}/`))
      assert.lengthOf(dns.questions, 0)
    })
  )

  it.live(
    "a host that moves to a refused address is not reached, with or without a kept-alive connection",
    () =>
      Effect.gen(function* () {
        const receiver = yield* peer(answers(ok()))
        const canary = yield* peer(answers(ok()), { host: "127.0.0.2", port: receiver.port })
        const dns = yield* moving(["127.0.0.1"], ["127.0.0.2"])
        const { send } = yield* egress({ dns: dns.address, allow: `127.0.0.1:${receiver.port}` })
        const request = post(`http://${hooks}:${receiver.port}/`)
        assert.strictEqual((yield* send(request)).status, 200)
        const second = yield* Effect.flip(send(request))
        assert.strictEqual(second.reason, "RefusedAddress")
        const third = yield* Effect.flip(send({ ...request, pool: "nep_2" }))
        assert.strictEqual(third.reason, "RefusedAddress")
        assert.strictEqual(receiver.connections(), 1)
        assert.strictEqual(canary.connections(), 0)
      })
  )

  it.live(
    "a host that moves to another allowed address is reached there, not over the connection to the first",
    () =>
      Effect.gen(function* () {
        const first = yield* peer(answers(ok("first")))
        const second = yield* peer(answers(ok("second")), { host: "127.0.0.2", port: first.port })
        const dns = yield* moving(["127.0.0.1"], ["127.0.0.2"])
        const { send } = yield* egress({ dns: dns.address })
        const request = post(`http://${hooks}:${first.port}/`)
        assert.strictEqual(Buffer.from((yield* send(request)).body).toString(), "first")
        assert.strictEqual(Buffer.from((yield* send(request)).body).toString(), "second")
        assert.deepStrictEqual([first.connections(), second.connections()], [1, 1])
      })
  )

  it.live("a host with random addresses is reached only if all of them are allowed", () =>
    Effect.gen(function* () {
      const open = ["127.0.0.1", "127.0.0.3"]
      const closed = [
        "127.0.0.2",
        "::1",
        "::ffff:127.0.0.2",
        "10.0.0.1",
        "169.254.169.254",
        "64:ff9b::7f00:2"
      ]
      const receiver = yield* peer(answers(ok()))
      yield* peer(answers(ok()), { host: "127.0.0.3", port: receiver.port })
      const canary = yield* peer(answers(ok()), { host: "127.0.0.2", port: receiver.port })
      const sets = fc.sample(fc.subarray([...open, ...closed]), { numRuns: 300 })
      const dns = yield* nameServer((_question, before) => sets[before] ?? [])
      const { send } = yield* egress({ dns: dns.address, allow: "127.0.0.1/32,127.0.0.3/32" })
      for (const set of sets) {
        const result = yield* Effect.result(send(post(`http://${hooks}:${receiver.port}/`)))
        const expected =
          set.length === 0 ? "NameNotFound" : set.every((one) => open.includes(one)) ? 200 : "RefusedAddress"
        assert.strictEqual(Result.isSuccess(result) ? result.success.status : result.failure.reason, expected)
      }
      assert.strictEqual(canary.connections(), 0)
      assert.lengthOf(dns.questions, 2 * sets.length)
    })
  )

  it.live.each([
    [["127.0.0.1", "10.0.0.1"]],
    [["10.0.0.1", "127.0.0.1"]],
    [["127.0.0.1", "::1"]],
    [["127.0.0.1", "::ffff:127.0.0.1"]],
    [["127.0.0.1", "64:ff9b::7f00:1"]],
    [["127.0.0.1", "169.254.169.254", "8.8.8.8"]]
  ])("a host with one refused address among %j is refused", ([addresses]) =>
    Effect.gen(function* () {
      const dns = yield* moving(addresses ?? [])
      const receiver = yield* peer(answers(ok()))
      const { send, vet } = yield* egress({ dns: dns.address })
      const url = `http://${hooks}:${receiver.port}/`
      assert.strictEqual((yield* Effect.flip(send(post(url)))).reason, "RefusedAddress")
      assert.strictEqual((yield* Effect.flip(vet(url))).reason, "NotPublic")
      assert.strictEqual(receiver.connections(), 0)
    })
  )

  it.live.each([
    ["an unknown name", "NXDOMAIN", "NameNotFound"],
    ["no address", [], "NameNotFound"],
    ["a server's failure", "SERVFAIL", "LookupFailed"],
    ["65 addresses", Array.from({ length: 65 }, (_, index) => `127.0.0.${index + 1}`), "LookupFailed"]
  ] as const)("a lookup answered with %s fails", ([, zone, reason]) =>
    Effect.gen(function* () {
      const dns = yield* moving(zone)
      const { send, vet } = yield* egress({ dns: dns.address })
      assert.strictEqual((yield* Effect.flip(send(post(`https://${hooks}/`)))).reason, reason)
      assert.strictEqual((yield* Effect.flip(vet(`https://${hooks}/`))).reason, reason)
    })
  )

  it.live("a lookup without a response ends at the attempt's deadline, or by itself after two seconds", () =>
    Effect.gen(function* () {
      const dns = yield* moving("silence")
      const { send, vet } = yield* egress({ dns: dns.address })
      const short = yield* Effect.flip(send(post(`https://${hooks}/`, { timeout: "100 millis" })))
      assert.strictEqual(short.reason, "TimedOut")
      const began = monotonicMillis(yield* Clock.Clock) - 10_000
      const late = yield* Effect.flip(send(post(`https://${hooks}/`, { timeout: "10 seconds", began })))
      assert.strictEqual(late.reason, "TimedOut")
      const long = yield* Effect.flip(vet(`https://${hooks}/`))
      assert.strictEqual(long.reason, "LookupFailed")
    })
  )

  it.live("a lookup answered for one address family uses that family's addresses", () =>
    Effect.gen(function* () {
      const dns = yield* nameServer((question) => (question.type === "A" ? ["127.0.0.1"] : "SERVFAIL"))
      const receiver = yield* peer(answers(ok()))
      const { send } = yield* egress({ dns: dns.address })
      assert.strictEqual((yield* send(post(`http://${hooks}:${receiver.port}/`))).status, 200)
    })
  )

  it.live("host names with underscores are looked up", () =>
    Effect.gen(function* () {
      const dns = yield* nameServer(() => ["127.0.0.1"])
      const { vet } = yield* egress({ dns: dns.address })
      assert.strictEqual((yield* vet("https://_my_hook.acme.com/")).host, "_my_hook.acme.com")
      assert.strictEqual((yield* vet("https://bücher.de/")).host, "xn--bcher-kva.de")
      assert.deepInclude(dns.questions, { name: "_my_hook.acme.com", type: "A" })
    })
  )

  it.live("the next address of a name is tried when one refuses the connection", () =>
    Effect.gen(function* () {
      const receiver = yield* peer(answers(ok()), { host: "127.0.0.3" })
      const dns = yield* moving(["127.0.0.2", "127.0.0.3"])
      const { send } = yield* egress({ dns: dns.address })
      assert.strictEqual((yield* send(post(`http://${hooks}:${receiver.port}/`))).status, 200)
      assert.lengthOf(dns.questions, 2)
    })
  )
})

/** Calls back with each connection that the client opens, until the scope closes. */
const onClientConnection = (callback: (socket: Socket) => void) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const listener = (message: unknown) => {
        const socket: unknown =
          typeof message === "object" && message !== null ? Reflect.get(message, "socket") : undefined
        if (socket instanceof Socket) callback(socket)
      }
      subscribe("undici:client:connected", listener)
      return listener
    }),
    (listener) => Effect.sync(() => unsubscribe("undici:client:connected", listener))
  )

describe("Egress › host with many addresses", () => {
  it.live("a request that may have been written is not sent to the next address", () =>
    Effect.gen(function* () {
      const sockets: Array<Socket> = []
      yield* onClientConnection((socket) => void sockets.push(socket))
      // The network fails right after the request was written, as a router reports it.
      const lost = Object.assign(new Error("unreachable"), { code: "EHOSTUNREACH" })
      const first = yield* peer(() => sockets[0]?.destroy(lost), { host: "127.0.0.2" })
      const second = yield* peer(answers(ok()), { host: "127.0.0.3", port: first.port })
      const dns = yield* moving(["127.0.0.2", "127.0.0.3"])
      const { send } = yield* egress({ dns: dns.address })
      const failed = yield* Effect.flip(send(post(`http://${hooks}:${first.port}/`)))
      assert.strictEqual(failed.reason, "Unreachable")
      assert.lengthOf(first.requests, 1)
      assert.strictEqual(second.connections(), 0)
    })
  )

  it.live("an address that the caller does not admit gets no connection", () =>
    Effect.gen(function* () {
      const receiver = yield* peer(answers(ok()))
      const { send } = yield* egress()
      const asked: Array<string> = []
      const admit = (address: NetAddress.IpAddress) => {
        asked.push(NetAddress.formatIp(address))
        return asked.length > 1
      }
      const request = post(`http://127.0.0.1:${receiver.port}/`, { admit })
      assert.strictEqual((yield* Effect.flip(send(request))).reason, "HeldBack")
      assert.strictEqual(receiver.connections(), 0)
      assert.strictEqual((yield* send(request)).status, 200)
      assert.deepStrictEqual(asked, ["127.0.0.1", "127.0.0.1"])
    })
  )

  it.live("at most four addresses of a name are tried", () =>
    Effect.gen(function* () {
      const canary = yield* peer(answers(ok()), { host: "127.0.0.6" })
      const dns = yield* moving(["127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6"])
      const { send } = yield* egress({ dns: dns.address })
      const failed = yield* Effect.flip(send(post(`http://${hooks}:${canary.port}/`)))
      assert.strictEqual(failed.reason, "ConnectionRefused")
      assert.strictEqual(canary.connections(), 0)
    })
  )
})

describe("Egress › refused address", () => {
  it.live("a refused address is not connected to, however the URL spells it", () =>
    Effect.gen(function* () {
      const canary = yield* peer(answers(ok()))
      const { send, vet } = yield* egress({ allow: "" })
      const hosts =
        `127.0.0.1 127.1 127.0.1 2130706433 0x7f.1 0x7f000001 0177.0.0.1 017700000001 127.0.0.1. 0127.0.0.1
        ①②⑦.0.0.1 127。0。0。1 １２７.0.0.1 0.0.0.0 0 localhost LOCALHOST localhost. loc%61lhost a.localhost
        [::1] [::] [::127.0.0.1] [::7f00:1] [::ffff:127.0.0.1] [::ffff:7f00:1] [0:0:0:0:0:ffff:7f00:1] [::ffff:0:127.0.0.1]
        [64:ff9b::127.0.0.1] [64:ff9b:1::7f00:1] [2002:7f00:1::] [2001:0:0:0:0:0:80ff:fffe] [fe80::5efe:127.0.0.1]
        user@127.0.0.1 169.254.169.254 metadata.google.internal`.split(/\s+/)
      for (const host of hosts) {
        for (const scheme of ["https", "http"]) {
          const url = `${scheme}://${host}:${canary.port}/`
          yield* Effect.flip(vet(url))
          yield* Effect.flip(send(post(url)))
        }
      }
      assert.strictEqual(canary.connections(), 0)
    })
  )

  it.live.each([301, 302, 303, 307, 308])("a refused address is not reached over a %i redirect", (status) =>
    Effect.gen(function* () {
      const canary = yield* peer(answers(ok()), { host: "127.0.0.2" })
      for (const target of [
        `http://127.0.0.2:${canary.port}/`,
        "http://169.254.169.254/latest/meta-data/",
        `//127.0.0.2:${canary.port}/`
      ]) {
        const receiver = yield* peer(
          answers(`HTTP/1.1 ${status} Elsewhere\r\nlocation: ${target}\r\ncontent-length: 0\r\n\r\n`)
        )
        const { send } = yield* egress()
        const answer = yield* send(post(`http://127.0.0.1:${receiver.port}/`))
        assert.strictEqual(answer.status, status)
        assert.lengthOf(receiver.requests, 1)
      }
      assert.strictEqual(canary.connections(), 0)
    })
  )

  it.live("a denied network stays refused even if it is allowed as well", () =>
    Effect.gen(function* () {
      const canary = yield* peer(answers(ok()))
      const { send, vet } = yield* egress({ deny: "127.0.0.1/32" })
      const url = `http://127.0.0.1:${canary.port}/`
      assert.strictEqual((yield* Effect.flip(vet(url))).reason, "Denied")
      assert.strictEqual((yield* Effect.flip(send(post(url)))).reason, "RefusedAddress")
      assert.strictEqual(canary.connections(), 0)
    })
  )
})

describe("Egress.vet", () => {
  it.live("vet returns the parsed URL, or a reason with a sentence for the caller", () =>
    Effect.gen(function* () {
      const dns = yield* nameServer((question) =>
        question.name === "inside.acme.com"
          ? ["10.0.0.1"]
          : question.name === hooks
            ? ["8.8.8.8"]
            : "NXDOMAIN"
      )
      const { vet } = yield* egress({ allow: "", http: false, dns: dns.address, own: "app.acme.com" })
      assert.strictEqual((yield* vet(`https://${hooks}/x`)).text, `https://${hooks}/x`)
      const refusals = {
        [`http://${hooks}/`]: "NotHttps",
        [`https://${hooks}/#x`]: "Fragment",
        [`https://a:b@${hooks}/`]: "Credentials",
        [`https://${hooks}:5432/`]: "RefusedPort",
        "https://inside.acme.com/": "NotPublic",
        "https://nowhere.acme.com/": "NameNotFound",
        "https://app.acme.com/": "OwnHost"
      }
      for (const [url, reason] of Object.entries(refusals)) {
        const refused = yield* Effect.flip(vet(url))
        assert.strictEqual(refused.reason, reason)
        assert.match(refused.phrase, /^[A-Z].+\.$/)
      }
    })
  )
})

describe("Egress › suspended process", () => {
  it.live("a request whose deadline passed while the process was suspended is not written", () =>
    Effect.gen(function* () {
      const { clock, suspend } = yield* suspendableClock
      const receiver = yield* peer(answers(ok()))
      const { send } = yield* Effect.provideService(egress(), Clock.Clock, clock)
      const sent = yield* Effect.forkChild(Effect.flip(send(post(`http://127.0.0.1:${receiver.port}/`))), {
        startImmediately: true
      })
      suspend(3_600)
      assert.strictEqual((yield* Fiber.join(sent)).reason, "TimedOut")
      assert.lengthOf(receiver.requests, 0)
    })
  )
})

describe("Egress › environment", () => {
  it.live("proxy variables of the environment are ignored", () =>
    Effect.gen(function* () {
      const canary = yield* peer(answers(ok()))
      const receiver = yield* peer(answers(ok()))
      const names = [
        "http_proxy",
        "HTTP_PROXY",
        "https_proxy",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "NODE_USE_ENV_PROXY"
      ]
      const before = names.map((name) => [name, process.env[name]] as const)
      yield* Effect.addFinalizer(() =>
        Effect.sync(() => {
          for (const [name, value] of before) {
            if (value === undefined) delete process.env[name]
            else process.env[name] = value
          }
        })
      )
      for (const name of names) process.env[name] = `http://127.0.0.1:${canary.port}`
      const { send } = yield* egress()
      assert.strictEqual((yield* send(post(`http://127.0.0.1:${receiver.port}/`))).status, 200)
      assert.strictEqual(canary.connections(), 0)
    })
  )
})
