import { Effect, Result } from "effect"
import { NetAddress } from "effect/net"
import { createServer } from "node:http"
import { Pool } from "undici"
import { judgeAddress, parseAllowances } from "../../src/domain/PublicAddress.ts"
import { PublicUrl, urlRule } from "../../src/domain/PublicUrl.ts"
import { Egress } from "../../src/server/Egress.ts"
import { nameServer } from "../../test/support/dns.ts"

/**
 * What the care for outgoing requests costs, in microseconds: the rule alone, and the processor time of a whole
 * request next to the same request by undici alone, eight in flight to a server in this process, whose share is in
 * both. Medians over rounds.
 */

const rounds = 15
const checksPerRound = 20_000
const requestsPerRound = 1_000
const inFlight = 8

const median = (values: ReadonlyArray<number>): number => {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}

const print = (what: string, microseconds: number): void => {
  process.stdout.write(`${what.padEnd(64)} ${microseconds.toFixed(2).padStart(9)} µs\n`)
}

const sync = (what: string, run: () => void): void => {
  const round = (): number => {
    const begin = performance.now()
    for (let count = 0; count < checksPerRound; count++) run()
    return ((performance.now() - begin) * 1_000) / checksPerRound
  }
  round()
  print(what, median(Array.from({ length: rounds }, round)))
}

const asynchronous = (what: string, request: Effect.Effect<unknown, unknown>): Effect.Effect<void, unknown> =>
  Effect.gen(function* () {
    const times: Array<number> = []
    const all = Array.from({ length: requestsPerRound }, () => request)
    for (let round = -1; round < rounds; round++) {
      const before = process.cpuUsage()
      yield* Effect.all(all, { concurrency: inFlight, discard: true })
      const { user, system } = process.cpuUsage(before)
      if (round >= 0) times.push((user + system) / requestsPerRound)
    }
    print(what, median(times))
  })

const body = Buffer.from(JSON.stringify({ hello: "world" }))
const headers = { "content-type": "application/json" }

/** One POST by undici alone, its body read to the end. */
const bare = (pool: Pool): Effect.Effect<void, Error> =>
  Effect.callback<void, Error>((resume) => {
    pool.dispatch(
      { method: "POST", path: "/hook", headers, body },
      {
        onRequestStart: () => undefined,
        onResponseStart: () => undefined,
        onResponseData: () => undefined,
        onResponseEnd: () => resume(Effect.void),
        onResponseError: (_controller, error) => resume(Effect.fail(error))
      }
    )
  })

const program = Effect.gen(function* () {
  const server = createServer((request, response) => {
    request.resume()
    request.on("end", () => response.writeHead(200, { "content-length": "2" }).end("ok"))
  })
  yield* Effect.callback<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void)))
  const address = server.address()
  const port = typeof address === "object" && address !== null ? address.port : 0
  const dns = yield* nameServer(() => ["127.0.0.1"])

  const rule = urlRule({ allow: [], allowHttp: false, deny: [], ownHost: "app.acme.com" })
  const url = "https://hooks.acme.com/services/T00000000/B00000000?source=countersign"
  const literal = "https://93.184.216.34:8443/services/T00000000/B00000000"
  const ipv4 = NetAddress.ipFromStringUnsafe("93.184.216.34")
  const ipv6 = NetAddress.ipFromStringUnsafe("2606:2800:220:1:248:1893:25c8:1946")
  sync("rule: the text of a URL with a name", () => void PublicUrl.parse(url, rule))
  sync("rule: the text of a URL with an address, judged", () => void PublicUrl.parse(literal, rule))
  sync("rule: one IPv4 address judged", () => void judgeAddress(rule.addresses, ipv4, 443))
  sync("rule: one IPv6 address judged", () => void judgeAddress(rule.addresses, ipv6, 443))
  sync("of these, new URL alone", () => void URL.parse(url))

  const pool = new Pool(`http://127.0.0.1:${port}`, { allowH2: false })
  const { send } = yield* Egress.pipe(
    Effect.provide(
      Egress.layer({
        dnsServers: [dns.address],
        allow: Result.getOrThrow(parseAllowances("127.0.0.0/8")),
        allowHttp: true,
        deny: [],
        ownHost: undefined
      })
    )
  )
  const to = (host: string) =>
    send({
      pool: "nep_1",
      url: `http://${host}:${port}/hook`,
      method: "POST",
      headers,
      body,
      timeout: "5 seconds",
      maxResponseBytes: 16_384
    })
  yield* asynchronous("request: undici alone, connection kept open", bare(pool))
  yield* asynchronous("request: Egress, a literal address, connection kept open", to("127.0.0.1"))
  yield* asynchronous("request: Egress, a name, looked up each time", to("hooks.acme.com"))
  yield* Effect.promise(() => pool.close())
  server.closeAllConnections()
  server.close()
})

await Effect.runPromise(Effect.scoped(program))
