import { NetAddress } from "effect/net"

/**
 * The network of an address: the first 24 bits of an IPv4 address, or the first 48 bits of an IPv6 address, which are
 * the smallest blocks that are routed on the internet. The owner of one address usually has others in its network.
 */
export const addressNetwork = (address: NetAddress.IpAddress): string =>
  NetAddress.isIpv4Address(address)
    ? `${NetAddress.ipv4ToOctets(address).slice(0, 3).join(".")}.0/24`
    : `${Buffer.from(NetAddress.ipv6ToOctets(address).slice(0, 6)).toString("hex")}/48`
