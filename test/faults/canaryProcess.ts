import { Effect, Result } from "effect"
import { NetAddress } from "effect/net"
import { spawnSync } from "node:child_process"
import { createServer } from "node:http"
import { parseAllowedNetworks } from "../../src/domain/network/PublicAddress.ts"
import { Egress } from "../../src/server/egress/Egress.ts"
import { nameServer } from "../support/dns.ts"
import { randomFrom } from "../support/robustness/random.ts"

/**
 * Sends requests from a process of its own, so that it can run in its own network namespace. `public` is the only allowed address; the
 * `denied` addresses accept connections too and must never get one. Prints the counts as JSON.
 *
 * canaryProcess.ts <attempts> <public> <denied, comma-separated> <whether to add the addresses to the loopback interface>
 */
const [attempts = "0", open = "", list = "", setUp = ""] = process.argv.slice(2)
const denied = list.split(",")
/** Concurrent attempts. */
const CONCURRENCY = 32

if (setUp === "true") {
  for (const args of [
    ["link", "set", "lo", "up"],
    ...[open, ...denied].map((address) => ["addr", "add", address, "dev", "lo"])
  ]) {
    const { status, stderr } = spawnSync("ip", args, { encoding: "utf8" })
    if (status !== 0) throw new Error(`ip ${args.join(" ")}: ${stderr}`)
  }
}

const program = Effect.gen(function* () {
  const random = randomFrom(20_261_121)
  const dial = (address: string) => (address.includes(":") ? `[${address}]` : address)
  const reached = { open: 0, canaries: 0 }
  const server = createServer((_request, response) => {
    // Redirects must never be followed.
    const target = random.pick(["127.0.0.1", ...denied])
    const status = random.pick([200, 301, 302, 303, 307, 308])
    response.writeHead(status, { location: `http://${dial(target)}:${port}/latest/meta-data` }).end("{}")
  })
  server.on("connection", (socket) => {
    const local = socket.localAddress?.replace(/^::ffff:/, "")
    if (local === open) reached.open++
    else reached.canaries++
  })
  yield* Effect.callback<void>((resume) => void server.listen(0, "::", () => resume(Effect.void)))
  const address = server.address()
  const port = typeof address === "object" && address !== null ? address.port : 0

  const dns = yield* nameServer(() => {
    if (random.chance(0.3)) return [open]
    const some = [open, ...denied].filter(() => random.chance(0.3))
    return some.length === 0 ? "NXDOMAIN" : some
  })
  const { send, vet } = yield* Egress.pipe(
    Effect.provide(
      Egress.layer({
        dnsServers: [dns.address],
        allow: Result.getOrThrow(parseAllowedNetworks(`${open}/32`)),
        allowHttp: true,
        deny: [],
        ownHost: undefined
      })
    )
  )
  const spelt = (host: string): string => {
    const ip = NetAddress.ipFromStringUnsafe(host)
    if (!NetAddress.isIpv4Address(ip)) return `[${host}]`
    const [a, b, c, d] = NetAddress.ipv4ToOctets(ip)
    const whole = ((a << 24) >>> 0) + (b << 16) + (c << 8) + d
    return random.pick([
      host,
      `${host}.`,
      String(whole),
      `0x${whole.toString(16)}`,
      `0${a.toString(8)}.${b}.${c}.${d}`,
      `[::ffff:${host}]`,
      `[::${host}]`,
      `[64:ff9b::${host}]`,
      `user@${host}`
    ])
  }

  let names = 0
  let answered = 0
  const one = Effect.gen(function* () {
    const byName = random.chance(0.6)
    const host = byName ? "hooks.acme.com" : spelt(random.pick([open, ...denied]))
    const url = `http://${host}:${port}/hook`
    if (byName) names++
    // A name checked at creation is resolved there, and once more at the attempt.
    if (byName && random.chance(0.1)) {
      names++
      yield* Effect.ignore(vet(url))
    }
    const result = yield* Effect.result(
      send({
        organization: "org_1",
        pool: `nep_${random.below(50)}`,
        url,
        method: "POST",
        headers: {},
        body: Buffer.from("{}"),
        timeout: "5 seconds",
        maxResponseBytes: 1_024
      })
    )
    if (Result.isSuccess(result)) answered++
  })
  yield* Effect.forEach(Array.from({ length: Number(attempts) }), () => one, {
    concurrency: CONCURRENCY,
    discard: true
  })
  process.stdout.write(JSON.stringify({ ...reached, answered, lookUps: dns.questions.length, names }))
  server.closeAllConnections()
  server.close()
})

await Effect.runPromise(Effect.scoped(program))
process.exit(0)
