import { Array as Arr, Result } from "effect"
import { IpNetwork, NetAddress } from "effect/net"

/** An allowlist entry. */
export interface AllowedNetwork {
  readonly network: IpNetwork.IpNetwork
  /**
   * One port; `http`: port 80 and the ports of public URLs, which exclude well-known ports of databases and caches;
   * undefined: every port.
   */
  readonly port: number | "http" | undefined
}

/** Maximum length of a configured list: every address is compared with every entry. */
const MAX_LIST_ENTRIES = 256

const splitList = (text: string): ReadonlyArray<string> =>
  text
    .split(",")
    .map((entry) => entry.trim())
    .filter((entry) => entry !== "")

const parseList = <A>(
  text: string,
  parse: (entry: string) => Result.Result<A, string>
): Result.Result<ReadonlyArray<A>, string> => {
  const entries = splitList(text)
  return entries.length > MAX_LIST_ENTRIES
    ? Result.fail(`has more than ${MAX_LIST_ENTRIES} entries`)
    : Result.all(Arr.map(entries, parse))
}

const parseNetwork = (entry: string): Result.Result<IpNetwork.IpNetwork, string> =>
  Result.mapError(
    IpNetwork.fromString(entry),
    (error) => `has "${entry}", which is not a network such as 10.0.0.0/8: ${error.message}`
  )

/** `10.0.0.0/8:8000` or `[fd00::/8]:8000`. */
const NETWORK_AND_PORT = /^(?:\[([^\]]+\/\d+)\]|([\d.]+\/\d+)):(\d{1,5})$/

const parseAllowance = (entry: string): Result.Result<AllowedNetwork, string> => {
  const withPort = NETWORK_AND_PORT.exec(entry)
  if (withPort !== null) {
    const [, inBrackets, plain, digits] = withPort
    const port = Number(digits)
    if (port > 65_535) return Result.fail(`has "${entry}", whose port is not one from 0 to 65535`)
    return Result.map(parseNetwork(inBrackets ?? plain ?? ""), (network) => ({ network, port }))
  }
  if (entry.includes("/")) {
    return Result.map(parseNetwork(entry), (network) => ({ network, port: undefined }))
  }
  return Result.mapBoth(NetAddress.inetAddressFromString(entry), {
    onFailure: (error) =>
      `has "${entry}", which is neither a network such as 10.0.0.0/8 nor an address and port such as 127.0.0.1:8443: ${error.message}`,
    onSuccess: (inet) => ({
      network: IpNetwork.fromAddressUnsafe(inet.address, NetAddress.width(inet.address)),
      port: inet.port
    })
  })
}

/** Parses networks separated by commas. The error is the rest of a sentence that starts with the variable's name. */
export const parseNetworks = (text: string): Result.Result<ReadonlyArray<IpNetwork.IpNetwork>, string> =>
  parseList(text, parseNetwork)

/**
 * Parses networks, `network:port` and `address:port` (in brackets for IPv6: `[address]:port`) separated by commas. The
 * error is the rest of a sentence that starts with the variable's name.
 */
export const parseAllowedNetworks = (text: string): Result.Result<ReadonlyArray<AllowedNetwork>, string> =>
  parseList(text, parseAllowance)

/** The same, but a network without a port is open on the ports of HTTP servers only. */
export const parseProviderNetworks = (text: string): Result.Result<ReadonlyArray<AllowedNetwork>, string> =>
  Result.map(parseAllowedNetworks(text), (allowed) =>
    allowed.map(({ network, port }) => ({ network, port: port ?? "http" }))
  )
