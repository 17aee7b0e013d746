import { Array as Arr, Result } from "effect"
import { IpNetwork, NetAddress } from "effect/net"

/** What is let through although it is not public: a network on every port, or on the one port named. */
export interface AllowedNetwork {
  readonly network: IpNetwork.IpNetwork
  readonly port: number | undefined
}

/** Longest list read from the configuration: each entry is compared with every address. */
const MAX_LIST_ENTRIES = 256

const entriesOf = (text: string): ReadonlyArray<string> =>
  text
    .split(",")
    .map((entry) => entry.trim())
    .filter((entry) => entry !== "")

const parseList = <A>(
  text: string,
  parse: (entry: string) => Result.Result<A, string>
): Result.Result<ReadonlyArray<A>, string> => {
  const entries = entriesOf(text)
  return entries.length > MAX_LIST_ENTRIES
    ? Result.fail(`has more than ${MAX_LIST_ENTRIES} entries`)
    : Result.all(Arr.map(entries, parse))
}

const parseNetwork = (entry: string): Result.Result<IpNetwork.IpNetwork, string> =>
  Result.mapError(
    IpNetwork.fromString(entry),
    (error) => `has "${entry}", which is no network such as 10.0.0.0/8: ${error.message}`
  )

const parseAllowance = (entry: string): Result.Result<AllowedNetwork, string> => {
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

/** Networks, separated by commas. Fails with the rest of a sentence whose subject is the variable. */
export const parseNetworks = (text: string): Result.Result<ReadonlyArray<IpNetwork.IpNetwork>, string> =>
  parseList(text, parseNetwork)

/**
 * Networks and `address:port` (`[address]:port` for IPv6), separated by commas. Fails with the rest of a sentence
 * whose subject is the variable.
 */
export const parseAllowedNetworks = (text: string): Result.Result<ReadonlyArray<AllowedNetwork>, string> =>
  parseList(text, parseAllowance)
