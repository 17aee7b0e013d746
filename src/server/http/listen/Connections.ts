import { Result } from "effect"
import { IpNetwork, NetAddress } from "effect/net"
import { BlockList, type Socket } from "node:net"
import type { ServerResponse } from "node:http"

/** Limits on the connections of a server and on the memory of their unread responses. */
export interface ConnectionLimits {
  /** Open connections of all clients. Default 10,000. */
  readonly connections: number
  /** Open connections of one client address, or of one IPv6 network of 64 bits. Default 1,000. */
  readonly connectionsPerAddress: number
  /** Bytes of responses that clients have not read, in all. They take up to twice as much memory, as text too. Default 128 MiB. */
  readonly unsentBytes: number
  /** The same for one client address. Default 32 MiB. */
  readonly unsentBytesPerAddress: number
  /** Requests that wait on one connection for the responses of earlier ones. Default 32. */
  readonly pipelined: number
  /** Reverse proxies, which stand for many clients: the limits per address do not apply to them. Default: loopback. */
  readonly trustedProxies: ReadonlyArray<IpNetwork.IpNetwork>
}

/** The addresses of this machine, from which only its own programs connect, such as a reverse proxy. */
export const loopbackNetworks: ReadonlyArray<IpNetwork.IpNetwork> = [
  IpNetwork.fromStringUnsafe("127.0.0.0/8"),
  IpNetwork.fromStringUnsafe("::1/128")
]

/** The default limits. */
export const defaultConnectionLimits: ConnectionLimits = {
  connections: 10_000,
  connectionsPerAddress: 1_000,
  unsentBytes: 128 * 1024 * 1024,
  unsentBytesPerAddress: 32 * 1024 * 1024,
  pipelined: 32,
  trustedProxies: loopbackNetworks
}

/** Responses of fewer bytes are not counted: with 10,000 connections they take at most 160 MiB. */
export const COUNTED_BYTES = 16 * 1024

/** Why a connection is refused: the limit of its address, or of all connections. */
export type ConnectionRefusal = "address" | "total"

/** Why a connection is cut: its client reads nothing, unread responses take too much memory, or too many requests are pipelined. */
export type ConnectionCut = "stalled" | "memory" | "pipelining"

/** All connections of one address. */
interface Client {
  readonly limited: boolean
  connections: number
  unsentBytes: number
  /** Unread responses, the oldest first. */
  readonly unsent: Set<UnsentResponse>
}

interface UnsentResponse {
  readonly socket: Socket
  readonly bytes: number
}

/** The state of one connection. */
export interface Connection {
  readonly client: Client
  /** The response that is under way, or the last one. */
  response: ServerResponse | undefined
  /** Whether the end of a response serves the next of `waiting`. */
  isQueueing: boolean
  /** Pipelined requests that wait for their turn. */
  readonly waiting: Array<() => void>
}

/** Counts connections and unread responses by client address, and cuts connections past the limits. */
export class Connections {
  readonly #limits: ConnectionLimits
  readonly #trusted = new BlockList()
  readonly #clients = new Map<string, Client>()
  readonly #connections = new Map<Socket, Connection>()
  #unsentBytes = 0

  /** Refused connections since the start. */
  readonly refused: Record<ConnectionRefusal, number> = { address: 0, total: 0 }
  /** Connections that were cut since the start. */
  readonly cuts: Record<ConnectionCut, number> = { stalled: 0, memory: 0, pipelining: 0 }

  constructor(limits: ConnectionLimits) {
    this.#limits = limits
    for (const { address, prefixLength } of limits.trustedProxies) {
      const family = NetAddress.isIpv4Address(address) ? "ipv4" : "ipv6"
      this.#trusted.addSubnet(NetAddress.formatIp(address), prefixLength, family)
    }
  }

  /** Open connections. */
  get open(): number {
    return this.#connections.size
  }

  /** Bytes of counted responses that clients have not read. */
  get unsentBytes(): number {
    return this.#unsentBytes
  }

  /** The state of an admitted connection. */
  get(socket: Socket): Connection | undefined {
    return this.#connections.get(socket)
  }

  /** Counts a connection until it closes, unless a limit refuses it. */
  admit(socket: Socket): ConnectionRefusal | undefined {
    const address = socket.remoteAddress ?? ""
    const key = addressKey(address)
    const known = this.#clients.get(key)
    const client = known ?? this.#newClient(address)
    const refusal =
      this.#connections.size >= this.#limits.connections
        ? "total"
        : client.limited && client.connections >= this.#limits.connectionsPerAddress
          ? "address"
          : undefined
    if (refusal !== undefined) {
      this.refused[refusal]++
      return refusal
    }
    if (known === undefined) this.#clients.set(key, client)
    client.connections++
    this.#connections.set(socket, { client, response: undefined, isQueueing: false, waiting: [] })
    socket.once("close", () => {
      this.#connections.delete(socket)
      client.connections--
      if (client.connections === 0) this.#clients.delete(key)
    })
    return undefined
  }

  /** Counts a response until its client has read it or its connection closes. Past a limit, cuts the connections of the oldest ones. */
  addUnsent(response: ServerResponse, bytes: number): void {
    const { socket } = response.req
    const client = this.#connections.get(socket)?.client
    if (client === undefined) return
    const unsent = { socket, bytes }
    client.unsent.add(unsent)
    client.unsentBytes += bytes
    this.#unsentBytes += bytes
    response.once("close", () => this.#removeUnsent(client, unsent))
    while (client.limited && client.unsentBytes > this.#limits.unsentBytesPerAddress) this.#cutOldest(client)
    // The client with the most unread bytes, so that one address does not cost others their connections.
    while (this.#unsentBytes > this.#limits.unsentBytes) this.#cutOldest(this.#largestClient())
  }

  /** Closes a connection at once: a reset also frees the system's buffers. */
  cut(socket: Socket, reason: ConnectionCut): void {
    this.cuts[reason]++
    socket.resetAndDestroy()
  }

  /** Whether a connection has more requests waiting than the limit allows. */
  hasTooManyWaiting({ waiting }: Connection): boolean {
    return waiting.length >= this.#limits.pipelined
  }

  #newClient(address: string): Client {
    const trusted = this.#trusted.check(address, address.includes(":") ? "ipv6" : "ipv4")
    return { limited: !trusted, connections: 0, unsentBytes: 0, unsent: new Set() }
  }

  #largestClient(): Client | undefined {
    let largest: Client | undefined
    for (const client of this.#clients.values()) {
      if (client.unsentBytes > (largest?.unsentBytes ?? 0)) largest = client
    }
    return largest
  }

  #cutOldest(client: Client | undefined): void {
    const [oldest] = client?.unsent ?? []
    if (client === undefined || oldest === undefined) return
    this.#removeUnsent(client, oldest)
    this.cut(oldest.socket, "memory")
  }

  #removeUnsent(client: Client, unsent: UnsentResponse): void {
    if (!client.unsent.delete(unsent)) return
    client.unsentBytes -= unsent.bytes
    this.#unsentBytes -= unsent.bytes
  }
}

/** The key under which an address is counted: IPv6 clients usually have a network of 64 bits to themselves. */
export const addressKey = (address: string): string => {
  const mapped = /^::ffff:(?<ipv4>[\d.]+)$/i.exec(address)?.groups?.["ipv4"]
  if (mapped !== undefined) return mapped
  if (!address.includes(":")) return address
  const parsed = NetAddress.ipv6FromString(address.replace(/%.*$/, ""))
  return Result.isSuccess(parsed) ? NetAddress.ipv6ToSegments(parsed.success).slice(0, 4).join(":") : address
}
