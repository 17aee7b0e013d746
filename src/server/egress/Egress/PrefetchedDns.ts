import { Cause, Context, Effect, type Exit } from "effect"
import type { NetAddress } from "effect/net"
import type { Lookup } from "./Resolver.ts"

/** Look-ups that one run may make. No operation names more hosts. */
const MAX_LOOKUPS = 4

interface PrefetchedLookup {
  readonly lookup: Lookup
  readonly host: string
  readonly exit: Exit.Exit<ReadonlyArray<NetAddress.IpAddress>, Effect.Error<ReturnType<Lookup>>>
}

/** What was looked up for the run at hand; undefined: look-ups are made where they stand. */
const PrefetchedLookups = Context.Reference<Array<PrefetchedLookup> | undefined>(
  "countersign/server/egress/Egress/PrefetchedDns/Ahead",
  {
    defaultValue: () => undefined
  }
)

/** Ends a run that needs a look-up first. */
class NeedsLookup {
  readonly lookup: Lookup
  readonly host: string

  constructor(lookup: Lookup, host: string) {
    this.lookup = lookup
    this.host = host
  }
}

/** A look-up that `lookingUpAhead` makes outside of what it runs. Elsewhere it is as it was. */
export const withPrefetchedAnswers =
  (lookup: Lookup): Lookup =>
  (host) =>
    Effect.flatMap(PrefetchedLookups, (known) => {
      if (known === undefined) return lookup(host)
      const found = known.find((one) => one.lookup === lookup && one.host === host)
      return found === undefined ? Effect.die(new NeedsLookup(lookup, host)) : found.exit
    })

/**
 * Runs a transaction that may look a name up, without holding its connection meanwhile: a name server that is slow must not leave
 * others without one. The run ends where it asks for a name, with nothing written, and begins again when the answer is there. So an
 * operation looks up before it does anything that a rollback does not undo.
 */
export const withDnsPrefetch = <A, E, R>(transaction: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.suspend(() => {
    const known: Array<PrefetchedLookup> = []
    const run: Effect.Effect<A, E, R> = Effect.catchCause(
      Effect.provideService(transaction, PrefetchedLookups, known),
      (cause) => {
        const first = cause.reasons.flatMap((reason) =>
          Cause.isDieReason(reason) && reason.defect instanceof NeedsLookup ? [reason.defect] : []
        )[0]
        if (first === undefined || known.length === MAX_LOOKUPS) return Effect.failCause(cause)
        const { host, lookup } = first
        return Effect.flatMap(Effect.exit(lookup(host)), (exit) => {
          known.push({ lookup, host, exit })
          return run
        })
      }
    )
    return run
  })
