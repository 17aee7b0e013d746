import { Result } from "effect"
import { IpNetwork, NetAddress } from "effect/net"
import { BlockList, type Socket } from "node:net"
import type { ServerResponse } from "node:http"
import { type FairSlots, makeFairSlots } from "./FairSlots.ts"
import { unsentCuts } from "./UnsentResponses.ts"

/** Limits on the connections of a server. */
export interface ConnectionLimits {
  /** Open connections of all clients. Default 10,000. */
  readonly connections: number
  /** Open connections of one client address, or of one IPv6 network of 64 bits. Default 1,000. */
  readonly connectionsPerAddress: number
  /** Requests that wait on one connection for the responses of earlier ones. Default 32. */
  readonly pipelined: number
  /** Networks of reverse proxies, which stand for many clients: the limits per address do not apply to them. Default: loopback. */
  readonly unlimitedNetworks: ReadonlyArray<IpNetwork.IpNetwork>
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
  pipelined: 32,
  unlimitedNetworks: loopbackNetworks
}

/** Why a connection is refused: the limit of its address, or of all connections. */
export const connectionRefusals = ["address", "total"] as const
export type ConnectionRefusal = (typeof connectionRefusals)[number]

/**
 * Why a connection is closed: its client reads nothing, or too slowly, unread responses take too much memory, too many
 * requests are pipelined, or the limit of all connections is reached and its address has the most.
 */
export const connectionCuts = ["stalled", ...unsentCuts, "pipelining", "crowded"] as const
export type ConnectionCut = (typeof connectionCuts)[number]

/** Called for each change of the connections, for the metrics. */
export interface ConnectionObserver {
  readonly onOpen: (open: number) => void
  readonly onRefusal: (reason: ConnectionRefusal) => void
  readonly onCut: (reason: ConnectionCut) => void
}

const noObserver: ConnectionObserver = {
  onOpen: () => undefined,
  onRefusal: () => undefined,
  onCut: () => undefined
}

/** All connections of one address. */
export interface Client {
  /** The address as a key: IPv6 addresses are grouped by network. */
  readonly key: string
  /** Whether limits per address apply. */
  readonly limited: boolean
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

/** Counts connections by client address, and refuses connections beyond the limits. */
export class Connections {
  readonly #limits: ConnectionLimits
  readonly #unlimited = new BlockList()
  readonly #clients = new Map<string, Client>()
  readonly #connections = new Map<Socket, Connection>()
  readonly #slots: FairSlots<Client, Socket>
  readonly #observer: ConnectionObserver

  /** Refused connections since the start. */
  readonly refused: Record<ConnectionRefusal, number> = { address: 0, total: 0 }
  /** Connections that were cut since the start. */
  readonly cuts: Record<ConnectionCut, number> = { stalled: 0, memory: 0, slow: 0, pipelining: 0, crowded: 0 }

  constructor(limits: ConnectionLimits, observer: ConnectionObserver = noObserver) {
    this.#limits = limits
    this.#observer = observer
    this.#slots = makeFairSlots<Client, Socket>({
      max: limits.connections,
      end: (socket) => this.cut(socket, "crowded"),
      mayLose: ({ limited }) => limited,
      // Preferably one that serves no request.
      firstToEnd: (sockets) => sockets.find((socket) => this.#isIdle(socket))
    })
    for (const { address, prefixLength } of limits.unlimitedNetworks) {
      const family = NetAddress.isIpv4Address(address) ? "ipv4" : "ipv6"
      this.#unlimited.addSubnet(NetAddress.formatIp(address), prefixLength, family)
    }
  }

  /** Open connections. */
  get open(): number {
    return this.#connections.size
  }

  /** The state of an admitted connection. */
  get(socket: Socket): Connection | undefined {
    return this.#connections.get(socket)
  }

  /**
   * Counts a connection until it closes, unless a limit refuses it. If the limit of all connections is reached, the
   * address with the most gives one up, so that a few addresses cannot keep out the others.
   */
  admit(socket: Socket): ConnectionRefusal | undefined {
    const address = socket.remoteAddress ?? ""
    const key = addressKey(address)
    const known = this.#clients.get(key)
    const client = known ?? this.#newClient(key, address)
    const refusal =
      client.limited && this.#slots.sizeOf(client) >= this.#limits.connectionsPerAddress
        ? "address"
        : this.#slots.hasSlotFor(client)
          ? undefined
          : "total"
    if (refusal !== undefined) {
      this.refused[refusal]++
      this.#observer.onRefusal(refusal)
      return refusal
    }
    this.#clients.set(key, client)
    this.#slots.add(client, socket)
    this.#connections.set(socket, { client, response: undefined, isQueueing: false, waiting: [] })
    this.#observer.onOpen(this.open)
    socket.once("close", () => {
      this.#connections.delete(socket)
      this.#slots.remove(client, socket)
      this.#observer.onOpen(this.open)
      if (this.#slots.sizeOf(client) === 0) this.#clients.delete(key)
    })
    return undefined
  }

  /** Closes a connection at once: a reset also frees the system's buffers. */
  cut(socket: Socket, reason: ConnectionCut): void {
    this.cuts[reason]++
    this.#observer.onCut(reason)
    socket.resetAndDestroy()
  }

  /** Whether a connection has more requests waiting than the limit allows. */
  hasTooManyWaiting({ waiting }: Connection): boolean {
    return waiting.length >= this.#limits.pipelined
  }

  #isIdle(socket: Socket): boolean {
    const connection = this.#connections.get(socket)
    if (connection === undefined || socket.destroyed) return false
    const { response, waiting } = connection
    return waiting.length === 0 && (response === undefined || response.writableFinished)
  }

  #newClient(key: string, address: string): Client {
    const unlimited = this.#unlimited.check(address, address.includes(":") ? "ipv6" : "ipv4")
    return { key, limited: !unlimited }
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

/**
 * The network of a client, by its key: of an IPv6 address the first 48 bits, which one client may have to itself, with
 * 65,536 networks of 64 bits.
 */
export const networkKey = (key: string): string =>
  key.includes(":") ? key.split(":").slice(0, 3).join(":") : key
