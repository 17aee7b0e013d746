import { Result } from "effect"
import { Dns, type NetAddress } from "effect/net"

/**
 * Parses a comma-separated list of `address[:port]`, default port 53. The error is the rest of a sentence
 * that starts with the variable's name.
 */
export const parseDnsServers = (text: string): Result.Result<ReadonlyArray<NetAddress.InetAddress>, string> =>
  Result.all(
    text
      .split(",")
      .map((entry) => entry.trim())
      .filter((entry) => entry !== "")
      .map((entry) =>
        Result.mapError(
          Dns.nameServerFromString(entry),
          (error) =>
            `has "${entry}", which is not an address such as 9.9.9.9 or 127.0.0.1:5353: ${error.message}`
        )
      )
  )
