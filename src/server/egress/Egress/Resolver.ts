import { Clock, Effect, Option, Result, type Scope } from "effect"
import { NetAddress } from "effect/net"
import * as NodeDns from "node:dns"
import { makeKeyedSemaphore } from "../../admission/KeyedSemaphore.ts"
import { monotonicMillis } from "../../concurrency/monotonicMillis.ts"

/** Longest DNS lookup, including retries and further name servers. */
const LOOKUP_TIMEOUT = "2 seconds"

/**
 * A query without a response is sent again after this long, in milliseconds, so that one lost packet does not fail the
 * attempt.
 */
const QUERY_TIMEOUT_MILLIS = 800
const QUERY_TRIES = 2

/**
 * Maximum number of concurrent lookups of one organization; further ones wait, and fail after {@link LOOKUP_TIMEOUT}.
 */
const MAX_LOOKUPS = 32

/** Maximum number of idle channels that are kept for further lookups. */
const MAX_IDLE = 32

/**
 * A channel is replaced after this many lookups or this time: a new one has another source port, which makes responses
 * harder to forge, and reads the machine's list of name servers again.
 */
const MAX_USES = 100
const MAX_AGE_MILLIS = 60_000

/** Addresses a name may have: no receiver needs more, and each is checked on every attempt. */
const MAX_ADDRESSES = 64

/** Why a lookup returned no addresses: there are none, or the name servers did not answer. */
export type LookupRefusal = "NameNotFound" | "LookupFailed"

/**
 * Resolves a host name to its addresses, IPv4 first, for an organization: {@link MAX_LOOKUPS} run at a time.
 * Lookups without an organization use the empty name.
 */
export type Lookup = (
  name: string,
  organization: string
) => Effect.Effect<ReadonlyArray<NetAddress.IpAddress>, LookupRefusal>

const refuse = (reason: LookupRefusal): Effect.Effect<never, LookupRefusal> => Effect.fail(reason)

/** The result for one address family: addresses as text, `[]` if the name has none, undefined without a response. */
type Answer = ReadonlyArray<string> | undefined

const noRecords: ReadonlySet<string> = new Set([NodeDns.NOTFOUND, NodeDns.NODATA])

const addressesOf = (
  texts: ReadonlyArray<string>
): Result.Result<ReadonlyArray<NetAddress.IpAddress>, unknown> =>
  Result.all(texts.map(NetAddress.ipFromString))

/** A channel of c-ares: its sockets and its queries under way. */
interface Channel {
  readonly resolver: NodeDns.Resolver
  readonly until: number
  uses: number
}

/**
 * Resolves names with c-ares at the given servers, or the machine's, instead of `getaddrinfo`, which occupies a thread
 * of the pool for as long as a name server takes. The hosts file and search domains are not used. A lookup is one query
 * for A and one for AAAA. If only one is answered, the name has its addresses: an address that was not returned cannot
 * be connected to.
 *
 * No two lookups use a channel at the same time, and one with a query that failed is discarded. A malformed response or
 * a time-out ends all queries of its channel: one tenant's name server would make the lookups of others fail.
 */
export const makeResolver = (
  servers: ReadonlyArray<NetAddress.InetAddress>
): Effect.Effect<Lookup, never, Scope.Scope> =>
  Effect.gen(function* () {
    const clock = yield* Clock.Clock
    const idle: Array<Channel> = []
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        for (const { resolver } of idle.splice(0)) resolver.cancel()
      })
    )

    const take = (): Channel => {
      const now = monotonicMillis(clock)
      for (let channel = idle.pop(); channel !== undefined; channel = idle.pop()) {
        if (now < channel.until) return channel
        channel.resolver.cancel()
      }
      const resolver = new NodeDns.Resolver({ timeout: QUERY_TIMEOUT_MILLIS, tries: QUERY_TRIES })
      if (servers.length > 0) resolver.setServers(servers.map(NetAddress.formatInet))
      return { resolver, until: now + MAX_AGE_MILLIS, uses: 0 }
    }

    const giveBack = (channel: Channel, isClean: boolean): void => {
      if (isClean && ++channel.uses < MAX_USES && idle.length < MAX_IDLE) idle.push(channel)
      // Ends the queries that are still under way.
      else channel.resolver.cancel()
    }

    const lookup = (name: string) =>
      Effect.suspend(() => {
        const channel = take()
        const { resolver } = channel
        let isClean = false
        return Effect.all(
          [
            query((callback) => resolver.resolve4(name, callback)),
            query((callback) => resolver.resolve6(name, callback))
          ],
          { concurrency: 2 }
        ).pipe(
          Effect.tap((answers) =>
            Effect.sync(() => {
              isClean = !answers.includes(undefined)
            })
          ),
          Effect.ensuring(Effect.sync(() => giveBack(channel, isClean))),
          Effect.flatMap(addressesIn)
        )
      })

    const limit = makeKeyedSemaphore({
      permits: MAX_LOOKUPS,
      timeout: LOOKUP_TIMEOUT,
      onTimeout: refuse("LookupFailed")
    })
    return (name, organization) => limit(organization)(lookup(name))
  })

const query = (ask: (callback: (error: Error | null, addresses: ReadonlyArray<string>) => void) => void) =>
  Effect.callback<Answer>((resume) => {
    ask((error, addresses) => {
      if (error === null) return resume(Effect.succeed(addresses))
      const code = "code" in error ? error.code : undefined
      resume(Effect.succeed(typeof code === "string" && noRecords.has(code) ? [] : undefined))
    })
  }).pipe(Effect.timeoutOption(LOOKUP_TIMEOUT), Effect.map(Option.getOrUndefined))

/** The addresses in the answers for both families. */
const addressesIn = (answers: ReadonlyArray<Answer>) => {
  const texts = answers.flatMap((answer) => answer ?? [])
  if (texts.length === 0) return refuse(answers.includes(undefined) ? "LookupFailed" : "NameNotFound")
  if (texts.length > MAX_ADDRESSES) return refuse("LookupFailed")
  const addresses = addressesOf(texts)
  return Result.isSuccess(addresses) ? Effect.succeed(addresses.success) : refuse("LookupFailed")
}
