/** Mutants of egress requests: which addresses are reached, over which connections, and how much is read. */
import type { ListedMutant } from "../list.ts"

const client = "server/egress/Egress.ts"
const connections = "server/egress/Egress/Connections.ts"
const exchange = "server/egress/Egress/Exchange.ts"
const resolver = "server/egress/Egress/Resolver.ts"
const publicAddress = "domain/network/PublicAddress.ts"
const publicUrl = "domain/network/PublicUrl.ts"

const egressTests = ["server/egress/Egress.test.ts"]
const connectionTests = ["server/egress/Egress/Connections.test.ts", "server/egress/Egress.test.ts"]
const exchangeTests = ["server/egress/Egress/Exchange.test.ts"]
const addressTests = ["domain/network/PublicAddress.test.ts"]
const urlTests = ["domain/network/PublicUrl.test.ts"]

export const egress: ReadonlyArray<ListedMutant> = [
  {
    file: client,
    from: "addresses.some((address) => url.checkAddress(address, rule) !== undefined)",
    to: "addresses.every((address) => url.checkAddress(address, rule) !== undefined)",
    tests: egressTests
  },
  {
    file: client,
    from: "for (const address of addresses) {",
    to: "for (const address of addresses.slice(0, 1)) {",
    tests: egressTests
  },
  { file: client, from: "const MAX_DIALS = 4", to: "const MAX_DIALS = 5", tests: egressTests },
  {
    file: client,
    from: "request.admit === undefined || request.admit(address)",
    to: "true",
    tests: egressTests
  },
  {
    file: client,
    from: "!progress.started && nextAddressReasons.has(failed.reason)",
    to: "nextAddressReasons.has(failed.reason)",
    tests: egressTests
  },
  { file: client, from: "hasPassed: () => now() >= until", to: "hasPassed: () => false", tests: egressTests },
  {
    file: client,
    from: "vet: makeVet(rule, withPrefetchedAnswers(lookup))",
    to: "vet: makeVet(rule, lookup)",
    tests: ["server/http/Idempotency.test.ts"]
  },
  {
    file: connections,
    from: "const hostname = NetAddress.formatIp(address)",
    to: "const hostname = url.host",
    tests: connectionTests
  },
  { file: connections, from: "maxCachedSessions: 0", to: "maxCachedSessions: 100", tests: connectionTests },
  {
    file: connections,
    from: "`${destination} ${NetAddress.formatIp(address)} ${url.origin}`",
    to: "`${NetAddress.formatIp(address)} ${url.origin}`",
    tests: connectionTests
  },
  {
    file: connections,
    from: "`${destination} ${NetAddress.formatIp(address)} ${url.origin}`",
    to: "`${destination} ${url.origin}`",
    tests: ["server/egress/Egress.test.ts"]
  },
  {
    file: connections,
    from: "`${destination} ${NetAddress.formatIp(address)} ${url.origin}`",
    to: "`${destination} ${NetAddress.formatIp(address)}`",
    tests: connectionTests
  },
  {
    file: connections,
    from: 'url.secure && url.address === undefined ? url.host : ""',
    to: 'url.secure ? hostname : ""',
    tests: connectionTests
  },
  {
    file: connections,
    from: "const MAX_CONNECTIONS_PER_POOL = 64",
    to: "const MAX_CONNECTIONS_PER_POOL = 1_024",
    tests: connectionTests
  },
  {
    file: connections,
    from: "const MAX_HEADER_BYTES = 16 * 1024",
    to: "const MAX_HEADER_BYTES = 1024 * 1024",
    tests: exchangeTests
  },
  {
    file: connections,
    from: "clock.monotonicTimeNanosUnsafe() < until",
    to: "true",
    tests: connectionTests
  },
  {
    file: exchange,
    from: 'if (deadline.hasPassed()) end(false, "TimedOut")',
    to: "",
    tests: exchangeTests
  },
  { file: exchange, from: "if (over) return started.abort(aborted)", to: "", tests: exchangeTests },
  { file: exchange, from: "progress.started = true", to: "", tests: egressTests },
  {
    file: exchange,
    from: "const MAX_INTERIM = 16",
    to: "const MAX_INTERIM = Infinity",
    tests: exchangeTests
  },
  {
    file: exchange,
    from: "const kept = chunk.length <= capacity ? chunk : chunk.subarray(0, capacity)",
    to: "const kept = chunk",
    tests: exchangeTests
  },
  {
    file: exchange,
    from: 'end(false, "TimedOut") cut()',
    to: 'end(false, "TimedOut")',
    tests: exchangeTests
  },
  { file: exchange, from: "immediate = setImmediate(expire)", to: "expire()", tests: exchangeTests },
  {
    file: resolver,
    from: "limit(organization)(lookup(name))",
    to: 'limit("")(lookup(name))',
    tests: ["server/egress/Egress/Resolver.test.ts"]
  },
  {
    file: resolver,
    from: 'if (texts.length > MAX_ADDRESSES) return refuse("LookupFailed")',
    to: "",
    tests: egressTests
  },
  {
    file: publicAddress,
    from: 'if (anyContains(rule.deny, octets)) return "Denied"',
    to: "",
    tests: addressTests
  },
  {
    file: publicAddress,
    from: `["168.63.129.16/32", "Azure's host services"],`,
    to: "",
    tests: addressTests
  },
  {
    file: publicAddress,
    from: "&& !anyContains(ipv6Blocks, octets) && !isIsatap(octets)",
    to: "&& !anyContains(ipv6Blocks, octets)",
    tests: addressTests
  },
  {
    file: publicAddress,
    from: "(octets[8] === 0 || octets[8] === 2)",
    to: "octets[8] === 0",
    tests: addressTests
  },
  {
    file: publicAddress,
    from: '(allowed === "http" ? port === 80 || isOpenPort(port) : allowed === port)',
    to: '(allowed === "http" || allowed === port)',
    tests: addressTests
  },
  {
    file: publicUrl,
    from: '(verdict !== "Allowed" || own.ports.includes(port))',
    to: "own.ports.includes(port)",
    tests: urlTests
  },
  {
    file: publicUrl,
    from: "if (!this.requiresAllowedAddress) return undefined",
    to: "if (true) return undefined",
    tests: urlTests
  },
  {
    file: publicUrl,
    from: 'if (verdict === "NotPublic" || verdict === "Denied") return',
    to: 'if (verdict === "NotPublic") return',
    tests: urlTests
  },
  {
    file: publicUrl,
    from: 'typed === host ? Result.succeed(address.success) : Result.fail("AddressForm")',
    to: "Result.succeed(address.success)",
    tests: urlTests
  },
  {
    file: "domain/network/PublicUrl/checkHostName.ts",
    from: "name === known || name.endsWith(`.${known}`)",
    to: "name === known",
    tests: urlTests
  },
  {
    file: "domain/network/addressNetwork.ts",
    from: "NetAddress.ipv6ToOctets(address).slice(0, 6)",
    to: "NetAddress.ipv6ToOctets(address).slice(0, 8)",
    tests: ["domain/network/addressNetwork.test.ts"]
  }
]
