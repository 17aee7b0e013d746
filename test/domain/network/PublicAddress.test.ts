import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import { NetAddress } from "effect/net"
import fc from "fast-check"
import { BlockList, isIPv4 } from "node:net"
import {
  makeAddressRule,
  isPublic,
  classifyAddress,
  parseAllowedNetworks,
  parseProviderNetworks,
  parseNetworks,
  wrapsIpv4
} from "../../../src/domain/network/PublicAddress.ts"

// The oracle: Node's block list with the contract's blocks, transcribed again from the registries.
const ipv4Blocks =
  `0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 168.63.129.16/32 169.254.0.0/16 172.16.0.0/12
  192.0.0.0/24 192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24
  198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/3`.split(/\s+/)
const ipv6Refused = ["2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"]
// Refused without being listed, because it is outside 2000::/3.
const ipv6Unnamed =
  `::/128 ::1/128 ::/96 ::ffff:0:0/96 ::ffff:0:0:0/96 64:ff9b::/96 64:ff9b:1::/48 100::/64 100:0:0:1::/64
  200::/7 4000::/3 5f00::/16 fc00::/7 fd00:ec2::254/128 fd20:ce::254/128 fe80::/10 fec0::/10 ff00::/8`.split(
    /\s+/
  )

const listOf = (cidrs: ReadonlyArray<string>): BlockList => {
  const list = new BlockList()
  for (const cidr of cidrs) {
    const [address = "", prefix] = cidr.split("/")
    list.addSubnet(address, Number(prefix), isIPv4(address) ? "ipv4" : "ipv6")
  }
  return list
}
const refused4 = listOf(ipv4Blocks)
const accepted6 = listOf(["2000::/3"])
const refused6 = listOf(ipv6Refused)
const oracle = (text: string): boolean =>
  isIPv4(text)
    ? !refused4.check(text, "ipv4")
    : accepted6.check(text, "ipv6") && !refused6.check(text, "ipv6")

// Addresses as numbers, independent of the code under test.
const text4 = (value: bigint): string =>
  [24n, 16n, 8n, 0n].map((shift) => String((value >> shift) & 0xffn)).join(".")
const text6 = (value: bigint): string =>
  [112n, 96n, 80n, 64n, 48n, 32n, 16n, 0n].map((shift) => ((value >> shift) & 0xffffn).toString(16)).join(":")
const max4 = 2n ** 32n - 1n
const max6 = 2n ** 128n - 1n
const value4 = (text: string): bigint => text.split(".").reduce((sum, part) => sum * 256n + BigInt(part), 0n)
const value6 = (text: string): bigint => {
  const [head = "", tail] = text.split("::")
  const parts = (half: string) => (half === "" ? [] : half.split(":"))
  const [before, after] = [parts(head), parts(tail ?? "")]
  const zeros = tail === undefined ? [] : Array.from({ length: 8 - before.length - after.length }, () => "0")
  return [...before, ...zeros, ...after].reduce((sum, part) => sum * 65_536n + BigInt(`0x${part}`), 0n)
}

const ip = NetAddress.ipFromStringUnsafe

/** Both ends of a block, and their neighbours outside. */
const borders = (cidr: string): ReadonlyArray<string> => {
  const [address = "", prefix = ""] = cidr.split("/")
  const four = isIPv4(address)
  const first = four ? value4(address) : value6(address)
  const last = first + 2n ** BigInt((four ? 32 : 128) - Number(prefix)) - 1n
  return [first - 1n, first, (first + last) / 2n, last, last + 1n]
    .filter((value) => value >= 0n && value <= (four ? max4 : max6))
    .map(four ? text4 : text6)
}

describe("isPublic", () => {
  it("agrees with the oracle at the borders of every block", () => {
    for (const cidr of [...ipv4Blocks, ...ipv6Refused, ...ipv6Unnamed, "2000::/3"]) {
      for (const address of borders(cidr)) {
        assert.strictEqual(isPublic(ip(address)), oracle(address), `${address}, at a border of ${cidr}`)
      }
    }
  })

  it("agrees with the oracle on any IPv4 address", () => {
    fc.assert(
      fc.property(fc.bigInt(0n, max4), (value) => isPublic(ip(text4(value))) === oracle(text4(value))),
      { numRuns: 20_000 }
    )
  })

  it("agrees with the oracle on any IPv6 address, mostly near a block", () => {
    const near = fc
      .tuple(fc.constantFrom(...ipv6Refused, ...ipv6Unnamed, "2000::/3"), fc.bigInt(0n, max6), fc.nat(127))
      .map(([cidr, noise, shift]) => value6(cidr.split("/")[0] ?? "") ^ (noise >> BigInt(shift)))
    fc.assert(
      fc.property(fc.oneof(near, fc.bigInt(0n, max6)), (value) => {
        // An ISATAP identifier is the only refused form inside the accepted block that is not a prefix.
        fc.pre(((value >> 32n) & 0xfdffffffn) !== 0x5efen)
        return isPublic(ip(text6(value))) === oracle(text6(value))
      }),
      { numRuns: 20_000 }
    )
  })

  it.each([
    "169.254.169.254",
    "169.254.170.2",
    "169.254.42.42",
    "100.100.100.200",
    "192.0.0.192",
    "168.63.129.16",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd20:ce::254"
  ])("refuses the metadata address %s", (address) => assert.isFalse(isPublic(ip(address))))

  it.each([
    "1.1.1.1",
    "8.8.8.8",
    "93.184.216.34",
    "168.63.129.15",
    "2606:4700::1111",
    "2a00:1450:4001::200e"
  ])("accepts %s", (address) => assert.isTrue(isPublic(ip(address))))
})

describe("an IPv4 address embedded in an IPv6 address", () => {
  const hex = (value: bigint): string => `${(value >> 16n).toString(16)}:${(value & 0xffffn).toString(16)}`
  const wrappings: Readonly<Record<string, (inner: bigint) => string>> = {
    compatible: (inner) => `::${hex(inner)}`,
    mapped: (inner) => `::ffff:${hex(inner)}`,
    translated: (inner) => `::ffff:0:${hex(inner)}`,
    nat64: (inner) => `64:ff9b::${hex(inner)}`,
    localNat64: (inner) => `64:ff9b:1::${hex(inner)}`,
    sixToFour: (inner) => `2002:${hex(inner)}::1`,
    teredo: (inner) => `2001:0:0:0:0:0:${hex(inner ^ max4)}`,
    isatap: (inner) => `2a00:1450:4001:1:0:5efe:${hex(inner)}`,
    isatapUnique: (inner) => `2a00:1450:4001:1:200:5efe:${hex(inner)}`
  }

  it.each(Object.entries(wrappings))(
    "in the form %s is detected and refused, public or not",
    (_name, wrap) => {
      fc.assert(
        // 0 and 1 would make `::` and `::1`, which do not embed an address.
        fc.property(fc.bigInt(2n, max4), (inner) => {
          const address = NetAddress.ipFromStringUnsafe(wrap(inner))
          assert.isTrue(NetAddress.isIpv6Address(address) && wrapsIpv4(address))
          assert.isFalse(isPublic(address))
        })
      )
    }
  )
})

describe("the configured allowlist and denylist", () => {
  const rule = (allow: string, deny: string) =>
    makeAddressRule({
      allow: Result.getOrThrow(parseAllowedNetworks(allow)),
      deny: Result.getOrThrow(parseNetworks(deny))
    })

  it("an allowed network is allowed on every port, an allowed address and port on that port only", () => {
    const lists = rule("10.1.0.0/16, 127.0.0.1:8443, [::1]:8443", "")
    assert.strictEqual(classifyAddress(lists, ip("10.1.2.3"), 80), "Allowed")
    assert.strictEqual(classifyAddress(lists, ip("10.2.2.3"), 80), "NotPublic")
    assert.strictEqual(classifyAddress(lists, ip("127.0.0.1"), 8443), "Allowed")
    assert.strictEqual(classifyAddress(lists, ip("127.0.0.1"), 8444), "NotPublic")
    assert.strictEqual(classifyAddress(lists, ip("::1"), 8443), "Allowed")
    assert.strictEqual(classifyAddress(lists, ip("::ffff:127.0.0.1"), 8443), "NotPublic")
  })

  it("a network with a port is allowed on that port only", () => {
    const lists = rule("10.1.0.0/16:8000, [fd00::/8]:8000", "")
    assert.strictEqual(classifyAddress(lists, ip("10.1.2.3"), 8000), "Allowed")
    assert.strictEqual(classifyAddress(lists, ip("10.1.2.3"), 22), "NotPublic")
    assert.strictEqual(classifyAddress(lists, ip("fd00::1"), 8000), "Allowed")
    assert.strictEqual(classifyAddress(lists, ip("fd00::1"), 6379), "NotPublic")
  })

  it("a provider's network without a port is allowed on the ports of HTTP servers only", () => {
    const lists = makeAddressRule({
      allow: Result.getOrThrow(parseProviderNetworks("10.1.0.0/16,10.2.0.0/16:22")),
      deny: []
    })
    for (const port of [80, 443, 8000, 8080, 11434]) {
      assert.strictEqual(classifyAddress(lists, ip("10.1.2.3"), port), "Allowed")
    }
    for (const port of [22, 25, 2375, 5432, 6379, 9200]) {
      assert.strictEqual(classifyAddress(lists, ip("10.1.2.3"), port), "NotPublic")
    }
    assert.strictEqual(classifyAddress(lists, ip("10.2.2.3"), 22), "Allowed")
  })

  it("the denylist also applies to public and allowed addresses", () => {
    const lists = rule("10.0.0.0/8", "8.8.8.0/24,10.9.0.0/16,2606:4700::/32")
    assert.strictEqual(classifyAddress(lists, ip("8.8.8.8"), 443), "Denied")
    assert.strictEqual(classifyAddress(lists, ip("8.8.4.4"), 443), "Public")
    assert.strictEqual(classifyAddress(lists, ip("10.9.0.1"), 443), "Denied")
    assert.strictEqual(classifyAddress(lists, ip("2606:4700::1111"), 443), "Denied")
  })

  it.each([
    "10.0.0.0",
    "10.0.0.1/8",
    "10.0.0.0/33",
    "localhost:80",
    "127.0.0.1:99999",
    "127.1:80",
    "::1:80",
    "10.0.0.0/8:99999",
    "fd00::/8:80"
  ])("the entry %s is rejected and named", (entry) => {
    const parsed = parseAllowedNetworks(`10.0.0.0/8,${entry}`)
    assert.include(Result.isFailure(parsed) ? parsed.failure : "", `"${entry}"`)
  })

  it("a port in a list of networks is rejected, and so is a list over the limit", () => {
    assert.isTrue(Result.isFailure(parseNetworks("127.0.0.1:8443")))
    assert.isTrue(Result.isFailure(parseNetworks(Array.from({ length: 257 }, () => "10.0.0.0/8").join(","))))
  })
})
