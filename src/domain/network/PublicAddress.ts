import { IpNetwork, NetAddress } from "effect/net"
import type { AllowedNetwork } from "./PublicAddress/AllowedNetwork.ts"
import { isOpenPort } from "./PublicUrl/isOpenPort.ts"

export {
  type AllowedNetwork,
  parseAllowedNetworks,
  parseNetworks,
  parseProviderNetworks
} from "./PublicAddress/AllowedNetwork.ts"

/**
 * Which addresses may be requested. IPv4: everything except the blocks below. IPv6: only the global unicast block, except the blocks below;
 * mapped, compatible, translated (NAT64, SIIT), 6to4 and Teredo addresses all lie outside it, so the ways to embed an IPv4 address need no
 * list.
 */

/**
 * Refused IPv4 blocks: IANA's special-purpose registry (RFC 6890 and its successors), the AS112 and AMT blocks, multicast and above, and
 * the one public address that a cloud serves inside its guests.
 */
const refusedIpv4: ReadonlyArray<readonly [cidr: string, what: string]> = [
  ["0.0.0.0/8", "this network"],
  ["10.0.0.0/8", "private use"],
  ["100.64.0.0/10", "shared address space"],
  ["127.0.0.0/8", "loopback"],
  ["168.63.129.16/32", "Azure's host services"],
  ["169.254.0.0/16", "link-local, with most clouds' metadata"],
  ["172.16.0.0/12", "private use"],
  ["192.0.0.0/24", "protocol assignments"],
  ["192.0.2.0/24", "documentation"],
  ["192.31.196.0/24", "AS112"],
  ["192.52.193.0/24", "AMT"],
  ["192.88.99.0/24", "6to4 relays"],
  ["192.168.0.0/16", "private use"],
  ["192.175.48.0/24", "AS112"],
  ["198.18.0.0/15", "benchmarks"],
  ["198.51.100.0/24", "documentation"],
  ["203.0.113.0/24", "documentation"],
  ["224.0.0.0/3", "multicast, reserved, broadcast"]
]

/** The only accepted IPv6 block: the allocated part of global unicast. */
const acceptedIpv6 = "2000::/3"

/** Refused blocks within {@link acceptedIpv6}. */
const refusedIpv6: ReadonlyArray<readonly [cidr: string, what: string]> = [
  ["2001::/23", "protocol assignments, Teredo among them"],
  ["2001:db8::/32", "documentation"],
  ["2002::/16", "6to4"],
  ["2620:4f:8000::/48", "AS112"],
  ["3fff::/20", "documentation"]
]

/** IPv6 blocks whose addresses embed an IPv4 address. ISATAP does so in any block, see {@link wrapsIpv4}. */
const wrappingIpv6: ReadonlyArray<readonly [cidr: string, what: string]> = [
  ["::/96", "IPv4-compatible (RFC 4291, 2.5.5.1)"],
  ["::ffff:0:0/96", "IPv4-mapped (RFC 4291, 2.5.5.2)"],
  ["::ffff:0:0:0/96", "IPv4-translated (RFC 2765)"],
  ["64:ff9b::/96", "NAT64 (RFC 6052)"],
  ["64:ff9b:1::/48", "local NAT64 (RFC 8215)"],
  ["2001::/32", "Teredo (RFC 4380)"],
  ["2002::/16", "6to4 (RFC 3056)"]
]

/** A network as its leading octets: comparing these takes 0.1 µs for the whole table. */
interface Block {
  readonly octets: ReadonlyArray<number>
  readonly prefix: number
}

const octetsOf = (address: NetAddress.IpAddress): ReadonlyArray<number> =>
  NetAddress.isIpv4Address(address) ? NetAddress.ipv4ToOctets(address) : NetAddress.ipv6ToOctets(address)

const blockOf = (network: IpNetwork.IpNetwork): Block => ({
  octets: octetsOf(network.address),
  prefix: network.prefixLength
})

const blocksOf = (rows: ReadonlyArray<readonly [cidr: string, what: string]>): ReadonlyArray<Block> =>
  rows.map(([cidr]) => blockOf(IpNetwork.fromStringUnsafe(cidr)))

const contains = (block: Block, octets: ReadonlyArray<number>): boolean => {
  if (block.octets.length !== octets.length) return false
  for (let index = 0, bits = block.prefix; bits > 0; index++, bits -= 8) {
    const difference = (octets[index] ?? 0) ^ (block.octets[index] ?? 0)
    if (difference >> Math.max(0, 8 - bits) !== 0) return false
  }
  return true
}

const anyContains = (blocks: ReadonlyArray<Block>, octets: ReadonlyArray<number>): boolean => {
  for (const block of blocks) if (contains(block, octets)) return true
  return false
}

const ipv4Blocks = blocksOf(refusedIpv4)
const ipv6Block = blockOf(IpNetwork.fromStringUnsafe(acceptedIpv6))
const ipv6Blocks = blocksOf(refusedIpv6)
const wrappingBlocks = blocksOf(wrappingIpv6)

/** Interface identifiers `0000:5efe` and `0200:5efe` before an IPv4 address (RFC 5214, 6.1), under any prefix. */
const isIsatap = (octets: ReadonlyArray<number>): boolean =>
  octets.length === 16 &&
  (octets[8] === 0 || octets[8] === 2) &&
  octets[9] === 0 &&
  octets[10] === 0x5e &&
  octets[11] === 0xfe

/** `::` and `::1`, which lie in the IPv4-compatible block but do not embed an IPv4 address. */
const isUnspecifiedOrLoopback = (octets: ReadonlyArray<number>): boolean =>
  octets.every((octet, index) => octet === 0 || (index === 15 && octet === 1))

/** Whether an IPv6 address embeds an IPv4 address in one of the standard ways. */
export const wrapsIpv4 = (address: NetAddress.Ipv6Address): boolean => {
  const octets = octetsOf(address)
  return (anyContains(wrappingBlocks, octets) && !isUnspecifiedOrLoopback(octets)) || isIsatap(octets)
}

const isPublicOctets = (octets: ReadonlyArray<number>): boolean =>
  octets.length === 4
    ? !anyContains(ipv4Blocks, octets)
    : contains(ipv6Block, octets) && !anyContains(ipv6Blocks, octets) && !isIsatap(octets)

/** Whether an address may be requested without any configuration. */
export const isPublic = (address: NetAddress.IpAddress): boolean => isPublicOctets(octetsOf(address))

/** The configured lists, prepared for {@link classifyAddress} by {@link makeAddressRule}. */
export interface AddressRule {
  readonly allow: ReadonlyArray<{ readonly block: Block; readonly port: AllowedNetwork["port"] }>
  readonly deny: ReadonlyArray<Block>
}

/** Prepares the lists once: each address is compared with them. */
export const makeAddressRule = (lists: {
  readonly allow: ReadonlyArray<AllowedNetwork>
  readonly deny: ReadonlyArray<IpNetwork.IpNetwork>
}): AddressRule => ({
  allow: lists.allow.map(({ network, port }) => ({ block: blockOf(network), port })),
  deny: lists.deny.map(blockOf)
})

const allowsPort = (allowed: AllowedNetwork["port"], port: number): boolean =>
  allowed === undefined || (allowed === "http" ? port === 80 || isOpenPort(port) : allowed === port)

/** `Allowed`: allowed by the configuration, on any port and without TLS. `Public`: accepted by the built-in blocks. */
export type AddressClass = "Allowed" | "Public" | "NotPublic" | "Denied"

/** Classifies an address. The denylist has precedence over the allowlist, and the allowlist over the built-in blocks. */
export const classifyAddress = (
  rule: AddressRule,
  address: NetAddress.IpAddress,
  port: number
): AddressClass => {
  const octets = octetsOf(address)
  if (anyContains(rule.deny, octets)) return "Denied"
  for (const allowance of rule.allow) {
    if (contains(allowance.block, octets) && allowsPort(allowance.port, port)) return "Allowed"
  }
  return isPublicOctets(octets) ? "Public" : "NotPublic"
}
