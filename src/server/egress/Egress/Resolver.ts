import { Effect, Option, Result, type Scope } from "effect"
import { NetAddress } from "effect/net"
import * as NodeDns from "node:dns"

/** Longest DNS lookup, including retries and further name servers. */
const LOOKUP_TIMEOUT = "2 seconds"

/**
 * A query without a response is sent again after this long, in milliseconds, so that one lost packet does not fail the
 * attempt.
 */
const QUERY_TIMEOUT_MILLIS = 800
const QUERY_TRIES = 2

/** Addresses a name may have: no receiver needs more, and each is checked on every attempt. */
const MAX_ADDRESSES = 64

/** Why a lookup returned no addresses: there are none, or the name servers did not answer. */
export type LookupRefusal = "NameNotFound" | "LookupFailed"

/** Resolves a host name to its addresses, IPv4 first. */
export type Lookup = (name: string) => Effect.Effect<ReadonlyArray<NetAddress.IpAddress>, LookupRefusal>

const refuse = (reason: LookupRefusal) => Effect.fail(reason)

/** The result for one address family: addresses as text, `[]` if the name has none, undefined without a response. */
type Answer = ReadonlyArray<string> | undefined

const noRecords: ReadonlySet<string> = new Set([NodeDns.NOTFOUND, NodeDns.NODATA])

const addressesOf = (
  texts: ReadonlyArray<string>
): Result.Result<ReadonlyArray<NetAddress.IpAddress>, unknown> =>
  Result.all(texts.map(NetAddress.ipFromString))

/**
 * Resolves names with c-ares at the given servers, or the machine's, instead of `getaddrinfo`, which occupies a thread
 * of the pool for as long as a name server takes. The hosts file and search domains are not used. A lookup is one query
 * for A and one for AAAA. If only one is answered, the name has its addresses: an address that was not returned cannot
 * be connected to.
 */
export const makeResolver = (
  servers: ReadonlyArray<NetAddress.InetAddress>
): Effect.Effect<Lookup, never, Scope.Scope> =>
  Effect.gen(function* () {
    const resolver = yield* Effect.acquireRelease(
      Effect.sync(() => {
        const resolver = new NodeDns.Resolver({ timeout: QUERY_TIMEOUT_MILLIS, tries: QUERY_TRIES })
        if (servers.length > 0) resolver.setServers(servers.map(NetAddress.formatInet))
        return resolver
      }),
      (resolver) => Effect.sync(() => resolver.cancel())
    )

    // A single query cannot be cancelled: after an interruption its response is dropped, and c-ares times out by
    // itself.
    const query = (
      ask: (callback: (error: Error | null, addresses: ReadonlyArray<string>) => void) => void
    ) =>
      Effect.callback<Answer>((resume) => {
        ask((error, addresses) => {
          if (error === null) return resume(Effect.succeed(addresses))
          const code = "code" in error ? error.code : undefined
          resume(Effect.succeed(typeof code === "string" && noRecords.has(code) ? [] : undefined))
        })
      }).pipe(Effect.timeoutOption(LOOKUP_TIMEOUT), Effect.map(Option.getOrUndefined))

    return Effect.fnUntraced(function* (name: string) {
      const answers = yield* Effect.all(
        [
          query((callback) => resolver.resolve4(name, callback)),
          query((callback) => resolver.resolve6(name, callback))
        ],
        { concurrency: 2 }
      )
      const texts = answers.flatMap((answer) => answer ?? [])
      if (texts.length === 0) {
        return yield* refuse(answers.includes(undefined) ? "LookupFailed" : "NameNotFound")
      }
      if (texts.length > MAX_ADDRESSES) return yield* refuse("LookupFailed")
      const addresses = addressesOf(texts)
      return Result.isSuccess(addresses) ? addresses.success : yield* refuse("LookupFailed")
    })
  })
