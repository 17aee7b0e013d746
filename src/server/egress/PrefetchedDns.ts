import { Cause, Context, Effect, type Exit } from "effect"
import type { NetAddress } from "effect/net"
import type { Lookup } from "./Egress/Resolver.ts"

/** DNS lookups one run may need. No operation names more hosts. */
const MAX_LOOKUPS = 4

interface PrefetchedLookup {
  readonly lookup: Lookup
  readonly host: string
  readonly exit: Exit.Exit<ReadonlyArray<NetAddress.IpAddress>, Effect.Error<ReturnType<Lookup>>>
}

/** Lookup results for the current run; undefined outside `withDnsPrefetch`, where lookups run in place. */
const PrefetchedLookups = Context.Reference<Array<PrefetchedLookup> | undefined>(
  "countersign/server/egress/PrefetchedDns/PrefetchedLookups",
  {
    defaultValue: () => undefined
  }
)

/** Ends a run that needs a DNS lookup first. */
class NeedsLookup {
  readonly lookup: Lookup
  readonly host: string
  readonly organization: string

  constructor(lookup: Lookup, host: string, organization: string) {
    this.lookup = lookup
    this.host = host
    this.organization = organization
  }
}

/** A lookup that `withDnsPrefetch` resolves outside the effect it runs. Elsewhere it is unchanged. */
export const withPrefetchedAnswers =
  (lookup: Lookup): Lookup =>
  (host, organization) =>
    Effect.flatMap(PrefetchedLookups, (prefetched) => {
      if (prefetched === undefined) return lookup(host, organization)
      const found = prefetched.find((one) => one.lookup === lookup && one.host === host)
      return found === undefined ? Effect.die(new NeedsLookup(lookup, host, organization)) : found.exit
    })

/**
 * Runs a transaction that may resolve host names, without keeping its connection during the DNS lookup: a slow name
 * server must not use up the pool. On the first lookup the run ends and rolls back; it starts again with the result of
 * the lookup. So an operation must resolve host names before it does anything that a rollback does not undo.
 *
 * ```
 *   run ──> lookup needed? ── no ──> done
 *    ^          │ yes: defect NeedsLookup, rollback
 *    └── DNS lookup, without a transaction
 * ```
 */
export const withDnsPrefetch = <A, E, R>(transaction: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.suspend(() => {
    const prefetched: Array<PrefetchedLookup> = []
    const run: Effect.Effect<A, E, R> = Effect.catchCause(
      Effect.provideService(transaction, PrefetchedLookups, prefetched),
      (cause) => {
        const first = cause.reasons.flatMap((reason) =>
          Cause.isDieReason(reason) && reason.defect instanceof NeedsLookup ? [reason.defect] : []
        )[0]
        if (first === undefined || prefetched.length === MAX_LOOKUPS) return Effect.failCause(cause)
        const { host, lookup, organization } = first
        return Effect.flatMap(Effect.exit(lookup(host, organization)), (exit) => {
          prefetched.push({ lookup, host, exit })
          return run
        })
      }
    )
    return run
  })
