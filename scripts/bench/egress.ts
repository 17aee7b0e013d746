import { Effect, Result } from "effect"
import { NetAddress } from "effect/net"
import { createServer } from "node:http"
import { Pool } from "undici"
import { classifyAddress, parseAllowedNetworks } from "../../src/domain/network/PublicAddress.ts"
import { PublicUrl, makeUrlRule } from "../../src/domain/network/PublicUrl.ts"
import { Egress } from "../../src/server/egress/Egress.ts"
import { makeConnections } from "../../src/server/egress/Egress/Connections.ts"
import { nameServer } from "../../test/support/dns.ts"
import { alternate, line, machine, median } from "./measure.ts"

/**
 * Processor time of the SSRF checks on outgoing requests, in microseconds: the address rule alone, the check of one delivery attempt, and
 * a whole request beside the same request by undici alone, in interleaved rounds with eight in flight. The server runs in this process, so
 * its share is in both figures.
 */

const ROUNDS = 15
const CHECKS = 20_000
const REQUESTS = 1_000
const IN_FLIGHT = 8

const measure = (run: () => void): ReadonlyArray<number> => {
  const round = (): number => {
    const before = process.cpuUsage()
    for (let count = 0; count < CHECKS; count++) run()
    const { system, user } = process.cpuUsage(before)
    return (user + system) / CHECKS
  }
  round()
  return Array.from({ length: ROUNDS }, round)
}
const show = (what: string, run: () => void): void => console.log(line(what, measure(run), "µs"))

/** A round of requests; returns the processor time of one. */
const round = (request: Effect.Effect<unknown, unknown>) => async (): Promise<number> => {
  const before = process.cpuUsage()
  await Effect.runPromise(
    Effect.all(
      Array.from({ length: REQUESTS }, () => request),
      { concurrency: IN_FLIGHT, discard: true }
    )
  )
  const { system, user } = process.cpuUsage(before)
  return (user + system) / REQUESTS
}

const body = Buffer.from(JSON.stringify({ hello: "world" }))
const headers = { "content-type": "application/json" }

/** One POST by undici alone, its response body read to the end. */
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
  console.log(machine())
  const server = createServer((request, response) => {
    request.resume()
    request.on("end", () => response.writeHead(200, { "content-length": "2" }).end("ok"))
  })
  yield* Effect.callback<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void)))
  const address = server.address()
  const port = typeof address === "object" && address !== null ? address.port : 0
  const dns = yield* nameServer(() => ["127.0.0.1"])

  const rule = makeUrlRule({ allow: [], allowHttp: false, deny: [], ownHost: "app.acme.com" })
  const url = "https://hooks.acme.com/services/T00000000/B00000000?source=countersign"
  const ipv4 = NetAddress.ipFromStringUnsafe("93.184.216.34")
  const ipv6 = NetAddress.ipFromStringUnsafe("2606:2800:220:1:248:1893:25c8:1946")
  show("parse and check a URL at creation", () => void PublicUrl.parse(url, rule))
  show("of this, new URL alone", () => void URL.parse(url))
  show("check one IPv4 address", () => void classifyAddress(rule.addresses, ipv4, 443))
  show("check one IPv6 address", () => void classifyAddress(rule.addresses, ipv6, 443))
  // As in a delivery attempt: the URL is parsed already, all resolved addresses are checked, the connection pool exists.
  const connections = yield* makeConnections([])
  const remembered = new Map([[url, Result.getOrThrow(PublicUrl.parse(url, rule))]])
  connections.to("nep_1", Result.getOrThrow(PublicUrl.parse(url, rule)), ipv4)
  const check = measure(() => {
    const known = remembered.get(url)
    if (known === undefined || [ipv4, ipv6].some((one) => known.checkAddress(one, rule) !== undefined)) return
    if ([ipv4, ipv6].some((one) => connections.has("nep_1", known, one))) connections.to("nep_1", known, ipv4)
  })

  console.log(line("check of an attempt: two addresses, pool reused", check, "µs"))

  const pool = new Pool(`http://127.0.0.1:${port}`, { allowH2: false })
  const { send } = yield* Egress.pipe(
    Effect.provide(
      Egress.layer({
        dnsServers: [dns.address],
        allow: Result.getOrThrow(parseAllowedNetworks("127.0.0.0/8")),
        allowHttp: true,
        deny: [],
        ownHost: undefined
      })
    )
  )
  const to = (host: string) =>
    send({
      organization: "org_1",
      pool: "nep_1",
      url: `http://${host}:${port}/hook`,
      method: "POST",
      headers,
      body,
      timeout: "5 seconds",
      maxResponseBytes: 16_384
    })
  const [alone = [], literal = [], named = []] = yield* Effect.promise(() =>
    alternate([round(bare(pool)), round(to("127.0.0.1")), round(to("hooks.acme.com"))], {
      warmUp: 2,
      rounds: ROUNDS
    })
  )
  console.log(line("request by undici alone, connection reused", alone, "µs"))
  console.log(line("request by Egress, literal address", literal, "µs"))
  console.log(line("request by Egress, name resolved each time", named, "µs"))
  const more = median(literal.map((value, index) => value - (alone[index] ?? Number.NaN)))
  console.log(
    `Egress adds ${more.toFixed(1)} µs to a request by undici; a name look-up adds two packets in each direction.`
  )
  yield* Effect.promise(() => pool.close())
  server.closeAllConnections()
  server.close()
})

await Effect.runPromise(Effect.scoped(program))
