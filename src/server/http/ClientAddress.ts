import { Context, Layer, Option } from "effect"
import type { HttpServerRequest } from "effect/http"
import { type IpNetwork, NetAddress } from "effect/net"
import { containsAddress, parseClientAddress } from "../../domain/identity/AllowedNetworks.ts"

/** Maximum number of proxies in a chain: each address is compared with every trusted network. */
const MAX_HOPS = 20

/** The parts of a request that identify its client. */
type AddressedRequest = Pick<HttpServerRequest.HttpServerRequest, "remoteAddress" | "headers">

/**
 * Finds the address of the client that sent a request: the connection's, or, if that is a configured reverse proxy, the
 * last address in `X-Forwarded-For` that is not one. Earlier addresses are set by the client and ignored. Loopback is
 * not trusted unless it is configured: a local proxy that passes on its client's header would let the client choose its
 * address.
 */
export class ClientAddress extends Context.Service<
  ClientAddress,
  {
    /** The address as text; `unknown` if the connection has none. */
    readonly of: (request: AddressedRequest) => string
  }
>()("countersign/server/http/ClientAddress") {
  static readonly layer = (options: {
    readonly trustedProxies: ReadonlyArray<IpNetwork.IpNetwork>
  }): Layer.Layer<ClientAddress> =>
    Layer.succeed(ClientAddress, {
      of: ({ headers, remoteAddress }) =>
        clientAddress(
          options.trustedProxies,
          Option.getOrElse(remoteAddress, () => "unknown"),
          headers["x-forwarded-for"]
        )
    })
}

/** The client's address, of a request from `peer` with this header `X-Forwarded-For`: see {@link ClientAddress}. */
export const clientAddress = (
  trusted: ReadonlyArray<IpNetwork.IpNetwork>,
  peer: string,
  forwarded: string | undefined
): string => {
  if (forwarded === undefined || trusted.length === 0 || !containsAddress(trusted, peer)) return peer
  const hops = forwarded.split(",").slice(-MAX_HOPS).toReversed()
  let address = peer
  for (const hop of hops) {
    const parsed = parseClientAddress(withoutPort(hop.trim()))
    // Nothing before a malformed entry can be trusted: the address is that of the proxy that wrote it.
    if (parsed === undefined) return address
    address = NetAddress.formatIp(parsed)
    if (!containsAddress(trusted, address)) return address
  }
  return address
}

/** Some proxies write the client's port too: `203.0.113.7:5555`, `[2001:db8::7]:5555`. */
const withoutPort = (hop: string): string => {
  const groups = /^(?:(?<ipv4>[\d.]+):\d+|\[(?<ipv6>[^\]]+)\](?::\d+)?)$/.exec(hop)?.groups
  return groups?.["ipv4"] ?? groups?.["ipv6"] ?? hop
}
