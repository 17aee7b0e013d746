import { Effect, Option, Result, type Scope } from "effect"
import { Dns, NetAddress } from "effect/net"
import * as NodeDns from "node:dns"

/** Longest look-up, retries and further name servers included. */
const LOOKUP_TIMEOUT = "2 seconds"

/** A query that gets no answer is asked anew after this long, so that one lost packet does not cost the attempt. */
const QUERY_TIMEOUT_MILLIS = 800
const QUERY_TRIES = 2

/** Most addresses a name may have: no receiver needs more, and each is judged on each attempt. */
const MAX_ADDRESSES = 64

/** Why a look-up gave no addresses: there are none, or the name servers did not say. */
export type LookupRefusal = "NameNotFound" | "LookupFailed"

/** The addresses of a name, IPv4 first. */
export type Lookup = (name: string) => Effect.Effect<ReadonlyArray<NetAddress.IpAddress>, LookupRefusal>

const refuse = (reason: LookupRefusal) => Effect.fail(reason)

/** One family's answer: its addresses as text, `[]` where the name has none of it, `undefined` where none came. */
type Answer = ReadonlyArray<string> | undefined

const noRecords: ReadonlySet<string> = new Set([NodeDns.NOTFOUND, NodeDns.NODATA])

const addressesOf = (
  texts: ReadonlyArray<string>
): Result.Result<ReadonlyArray<NetAddress.IpAddress>, unknown> =>
  Result.all(texts.map(NetAddress.ipFromString))

/**
 * Looks names up with c-ares at the servers given, else the machine's, not with the system call that holds a thread
 * of the pool for as long as a name server pleases. The hosts file and search domains play no part. One look-up is
 * one query for A and one for AAAA. Where only one of the two is answered, its addresses are the name's: whatever
 * the other would have said is not dialled.
 */
export const makeLookup = (
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

    // A query cannot be cancelled alone: interrupted, its answer is dropped, and c-ares gives up on its own.
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

/**
 * Reads a comma-separated list of `address[:port]`, port 53 where none is given. Fails with the rest of a sentence
 * whose subject is the variable.
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
          (error) => `has "${entry}", which is no address such as 9.9.9.9 or 127.0.0.1:5353: ${error.message}`
        )
      )
  )
