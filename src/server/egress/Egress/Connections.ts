import { Clock, Duration, Effect, Schedule, type Scope } from "effect"
import { NetAddress } from "effect/net"
import { createSecureContext, getCACertificates, type SecureContext } from "node:tls"
import { buildConnector, type Dispatcher, Pool } from "undici"
import type { PublicUrl } from "../../../domain/network/PublicUrl.ts"

/**
 * A kept-open connection lives at most a minute: no request starts on one older than {@link REUSE}, those of that
 * age are found within {@link SWEEP_EVERY}, and a request in flight is bounded by its own deadline.
 */
const REUSE = Duration.seconds(45)
const SWEEP_EVERY = Duration.seconds(5)

/** Shorter than what servers commonly keep (5 s in Node), so that ours is the side that closes. */
const IDLE_MILLIS = 4_000
const LONGEST_IDLE_MILLIS = 30_000

/** An attempt's own deadline is shorter as a rule: this ends the dialling that an ended attempt leaves behind. */
const CONNECT_TIMEOUT_MILLIS = 10_000

/** Most destinations with connections kept open, and most connections to one of them. The oldest give way. */
const MAX_POOLS = 1_024
const MAX_CONNECTIONS_PER_POOL = 64

/** Largest head of an answer, status line and trailers included. */
const MAX_HEADER_BYTES = 16 * 1024

/** Connections by destination, address, port and name. */
export interface Connections {
  /** Whether connections to this address are kept for the destination. */
  readonly has: (destination: string, url: PublicUrl, address: NetAddress.IpAddress) => boolean
  /** The destination's connections to this address. Makes none itself. */
  readonly to: (destination: string, url: PublicUrl, address: NetAddress.IpAddress) => Dispatcher
}

const keyOf = (destination: string, url: PublicUrl, address: NetAddress.IpAddress): string =>
  `${destination} ${NetAddress.formatIp(address)} ${url.origin}`

/** Errors of closing are of no use to anyone: the connection is gone either way. */
const ignoreCloseErrors = (closing: Promise<void>): void => void closing.catch(() => undefined)

/**
 * Trust in what the system trusts, in Node's own list with `NODE_EXTRA_CA_CERTS`, and in the certificates given.
 * Made once: reading the lists takes a tenth of a second.
 */
const makeTrust = (certificates: ReadonlyArray<string>): (() => SecureContext) => {
  let context: SecureContext | undefined
  return () =>
    (context ??= createSecureContext({
      ca: [...new Set([...getCACertificates("default"), ...getCACertificates("system"), ...certificates])]
    }))
}

/**
 * A pool that dials one address, whatever the name in its URL: SNI, the certificate's check and the Host header go by
 * the name, and nothing looks it up again. HTTP/1.1 only; no TLS session outlives its connection, since a resumed one
 * would skip the certificate; no proxy, redirect, retry, cookie or decoding, as undici's dispatchers add none.
 */
const makePool = (url: PublicUrl, address: NetAddress.IpAddress, trust: () => SecureContext): Pool => {
  const dial = buildConnector({
    allowH2: false,
    maxCachedSessions: 0,
    timeout: CONNECT_TIMEOUT_MILLIS,
    ...(url.secure ? { secureContext: trust() } : {})
  })
  const hostname = NetAddress.formatIp(address)
  const servername = url.secure && url.address === undefined ? url.host : ""
  return new Pool(url.origin, {
    connect: (options, callback) => dial({ ...options, hostname, servername }, callback),
    allowH2: false,
    connections: MAX_CONNECTIONS_PER_POOL,
    pipelining: 1,
    keepAliveTimeout: IDLE_MILLIS,
    keepAliveMaxTimeout: LONGEST_IDLE_MILLIS,
    maxHeaderSize: MAX_HEADER_BYTES,
    // The deadline of the attempt stands over all of it; undici's own run on a coarse clock.
    headersTimeout: 0,
    bodyTimeout: 0
  })
}

/** Opens the book of connections. Closing the scope cuts them all, also those in use. */
export const makeConnections = (
  certificates: ReadonlyArray<string>
): Effect.Effect<Connections, never, Scope.Scope> =>
  Effect.gen(function* () {
    const clock = yield* Clock.Clock
    const trust = makeTrust(certificates)
    const reuseNanos = BigInt(Duration.toMillis(REUSE)) * 1_000_000n
    // In order of last use, so that the first is the one to give way.
    const pools = new Map<string, { readonly pool: Pool; readonly until: bigint }>()
    // Taken out of the book, with requests that have yet to end.
    const retired = new Set<Pool>()

    const fresh = (key: string) => {
      const entry = pools.get(key)
      return entry !== undefined && clock.monotonicTimeNanosUnsafe() < entry.until ? entry : undefined
    }

    /** Lets the requests in flight end, then closes. */
    const retire = (key: string): void => {
      const entry = pools.get(key)
      pools.delete(key)
      if (entry === undefined) return
      retired.add(entry.pool)
      ignoreCloseErrors(entry.pool.close().finally(() => retired.delete(entry.pool)))
    }

    const sweep = Effect.sync(() => {
      for (const key of pools.keys()) if (fresh(key) === undefined) retire(key)
    })

    yield* Effect.forkScoped(Effect.repeat(sweep, Schedule.spaced(SWEEP_EVERY)))
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        for (const pool of [...retired, ...Array.from(pools.values(), (entry) => entry.pool)])
          ignoreCloseErrors(pool.destroy())
        pools.clear()
      })
    )

    return {
      has: (destination, url, address) => fresh(keyOf(destination, url, address)) !== undefined,
      to: (destination, url, address) => {
        const key = keyOf(destination, url, address)
        const known = fresh(key)
        if (known !== undefined) {
          pools.delete(key)
          pools.set(key, known)
          return known.pool
        }
        retire(key)
        const oldest = pools.size >= MAX_POOLS ? pools.keys().next() : undefined
        if (oldest?.done === false) retire(oldest.value)
        const pool = makePool(url, address, trust)
        pools.set(key, { pool, until: clock.monotonicTimeNanosUnsafe() + reuseNanos })
        return pool
      }
    }
  })
