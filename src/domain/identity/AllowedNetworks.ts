import { Option, Result } from "effect"
import { IpNetwork, NetAddress } from "effect/net"

/** Maximum number of networks of one key: each of its requests is compared with all of them. */
export const MAX_ALLOWED_NETWORKS = 50

/**
 * Parses a network in CIDR notation, such as `203.0.113.0/24` or `2001:db8::/32`. An IPv4 network must not be written
 * as IPv6 (`::ffff:203.0.113.0/120`), since the address of an IPv4 client is always IPv4 here. The error describes the
 * expected notation.
 */
export const parseAllowedNetwork = (text: string): Result.Result<IpNetwork.IpNetwork, string> => {
  const parsed = IpNetwork.fromString(text)
  if (Result.isFailure(parsed)) return Result.fail("a network such as 203.0.113.0/24 or 2001:db8::/32")
  const { address } = parsed.success
  return NetAddress.isIpv6Address(address) && NetAddress.isIpv4Mapped(address)
    ? Result.fail("an IPv4 network in its own notation, such as 203.0.113.0/24")
    : Result.succeed(parsed.success)
}

/**
 * Parses the address of a client. An IPv4 address in an IPv6 socket (`::ffff:203.0.113.7`) is IPv4; the zone of
 * `fe80::1%eth0` is dropped.
 */
export const parseClientAddress = (text: string): NetAddress.IpAddress | undefined => {
  const parsed = NetAddress.ipFromString(text.replace(/%.*$/, ""))
  if (Result.isFailure(parsed)) return undefined
  const address = parsed.success
  return NetAddress.isIpv6Address(address)
    ? Option.getOrElse(NetAddress.fromIpv4Mapped(address), () => address)
    : address
}

/** Whether any of the networks contains the address. An address that cannot be parsed is in none. */
export const containsAddress = (networks: ReadonlyArray<IpNetwork.IpNetwork>, address: string): boolean => {
  const parsed = parseClientAddress(address)
  return parsed !== undefined && networks.some((network) => IpNetwork.contains(network, parsed))
}

/** The position of the first network that is not within any of `limits`; -1 if each one is. */
export const findNetworkOutside = (
  networks: ReadonlyArray<IpNetwork.IpNetwork>,
  limits: ReadonlyArray<IpNetwork.IpNetwork>
): number =>
  networks.findIndex((network) => !limits.some((limit) => IpNetwork.containsNetwork(limit, network)))
