import { Clock, Duration, Effect, type Scope } from "effect"
import { NetAddress } from "effect/net"
import { createSecureContext, getCACertificates, type SecureContext } from "node:tls"
import { buildConnector, type Dispatcher, Pool } from "undici"
import { LruCache } from "../../concurrency/LruCache.ts"
import { runWorker, startWorkers } from "../../concurrency/Worker.ts"
import type { PublicUrl } from "../../../domain/network/PublicUrl.ts"

/**
 * A kept-alive connection lives at most a minute: no request uses a pool older than {@link REUSE}, older pools are
 * closed within {@link SWEEP_EVERY}, and a request in flight is bounded by its own deadline.
 */
const REUSE = Duration.seconds(45)
const SWEEP_EVERY = Duration.seconds(5)

/** Shorter than the keep-alive of common servers (5 s in Node), so that this side closes first. */
const IDLE_MILLIS = 4_000
const LONGEST_IDLE_MILLIS = 30_000

/** An attempt's own deadline is usually shorter; this ends a connect that outlives its attempt. */
const CONNECT_TIMEOUT_MILLIS = 10_000

/**
 * Limits on destinations with kept-alive connections, and on connections to each. The least recently used destination
 * is evicted.
 */
const MAX_POOLS = 1_024
const MAX_CONNECTIONS_PER_POOL = 64

/** Largest head of a response, including status line and trailers, in bytes. Some gateways add many cookies and policies. */
const MAX_HEADER_BYTES = 64 * 1024

/** A destination's pool for one address. */
export interface PoolOfAddress {
  readonly dispatcher: Dispatcher
  /** How many connections it has opened. A request during which none was opened used one that another request had used. */
  readonly opened: () => number
}

/** Connection pools by destination, address, port and host name. */
export interface Connections {
  /** Whether the destination has a pool for this address. */
  readonly has: (destination: string, url: PublicUrl, address: NetAddress.IpAddress) => boolean
  /** Returns the destination's pool for this address. Opens no connection itself. */
  readonly to: (destination: string, url: PublicUrl, address: NetAddress.IpAddress) => PoolOfAddress
  /** The same, after its open connections have been given up: the next request opens one. */
  readonly fresh: (destination: string, url: PublicUrl, address: NetAddress.IpAddress) => PoolOfAddress
}

/** A pool and when it becomes too old for new requests, in nanoseconds on the monotonic clock. */
interface KeptPool extends PoolOfAddress {
  readonly dispatcher: Pool
  readonly until: bigint
}

const keyOf = (destination: string, url: PublicUrl, address: NetAddress.IpAddress): string =>
  `${destination} ${NetAddress.formatIp(address)} ${url.origin}`

/** A failed close is ignored: the connection is gone either way. */
const ignoreCloseErrors = (closing: Promise<void>): void => void closing.catch(() => undefined)

/**
 * Trusts the system's certificates, Node's own list with `NODE_EXTRA_CA_CERTS`, and the given ones. Created once,
 * because reading the lists takes a tenth of a second.
 */
const makeTrust = (certificates: ReadonlyArray<string>): (() => SecureContext) => {
  let context: SecureContext | undefined
  return () =>
    (context ??= createSecureContext({
      ca: [...new Set([...getCACertificates("default"), ...getCACertificates("system"), ...certificates])]
    }))
}

/**
 * A pool that connects to one address, whatever the host name in its URL. SNI, certificate check and Host header use
 * the host name, and nothing resolves it again. HTTP/1.1 only; no TLS session is resumed, because a resumed session
 * skips the certificate check. Undici's dispatchers add no proxy, redirect, retry, cookie or content decoding.
 */
const makePool = (
  url: PublicUrl,
  address: NetAddress.IpAddress,
  trust: () => SecureContext
): Omit<KeptPool, "until"> => {
  let opened = 0
  const dial = buildConnector({
    allowH2: false,
    maxCachedSessions: 0,
    timeout: CONNECT_TIMEOUT_MILLIS,
    ...(url.secure ? { secureContext: trust() } : {})
  })
  const hostname = NetAddress.formatIp(address)
  const servername = url.secure && url.address === undefined ? url.host : ""
  const dispatcher = new Pool(url.origin, {
    connect: (options, callback) => {
      opened++
      dial({ ...options, hostname, servername }, callback)
    },
    allowH2: false,
    connections: MAX_CONNECTIONS_PER_POOL,
    pipelining: 1,
    keepAliveTimeout: IDLE_MILLIS,
    keepAliveMaxTimeout: LONGEST_IDLE_MILLIS,
    maxHeaderSize: MAX_HEADER_BYTES,
    // The attempt's deadline covers these phases; undici's own timeouts use a coarse clock.
    headersTimeout: 0,
    bodyTimeout: 0
  })
  return { dispatcher, opened: () => opened }
}

/** Starts without pools. Closing the scope destroys all connections, including those in use. */
export const makeConnections = (
  certificates: ReadonlyArray<string>
): Effect.Effect<Connections, never, Scope.Scope> =>
  Effect.gen(function* () {
    const clock = yield* Clock.Clock
    const trust = makeTrust(certificates)
    const reuseNanos = BigInt(Duration.toMillis(REUSE)) * 1_000_000n
    // Evicted or too old, with requests still in flight.
    const retired = new Set<Pool>()

    /** Closes a pool after its requests in flight have ended. */
    const retire = ({ dispatcher }: KeptPool): void => {
      retired.add(dispatcher)
      ignoreCloseErrors(dispatcher.close().finally(() => retired.delete(dispatcher)))
    }

    const pools = new LruCache<KeptPool>({ entries: MAX_POOLS, weight: MAX_POOLS }, retire)

    const isFresh = ({ until }: KeptPool): boolean => clock.monotonicTimeNanosUnsafe() < until

    const sweep = Effect.sync(() => {
      for (const [key, cached] of pools.entries()) {
        if (isFresh(cached)) continue
        pools.delete(key)
        retire(cached)
      }
    })

    yield* startWorkers([runWorker({ name: "egress_connections", runOnce: sweep, every: SWEEP_EVERY })])
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        for (const [key, { dispatcher }] of pools.entries()) {
          pools.delete(key)
          ignoreCloseErrors(dispatcher.destroy())
        }
        for (const dispatcher of retired) ignoreCloseErrors(dispatcher.destroy())
      })
    )

    const make = (key: string, url: PublicUrl, address: NetAddress.IpAddress): PoolOfAddress => {
      const cached = pools.get(key)
      if (cached !== undefined) {
        pools.delete(key)
        retire(cached)
      }
      const kept = { ...makePool(url, address, trust), until: clock.monotonicTimeNanosUnsafe() + reuseNanos }
      pools.set(key, kept, 1)
      return kept
    }

    return {
      has: (destination, url, address) => {
        const cached = pools.get(keyOf(destination, url, address))
        return cached !== undefined && isFresh(cached)
      },
      to: (destination, url, address) => {
        const key = keyOf(destination, url, address)
        const cached = pools.get(key)
        return cached !== undefined && isFresh(cached) ? cached : make(key, url, address)
      },
      fresh: (destination, url, address) => make(keyOf(destination, url, address), url, address)
    }
  })
