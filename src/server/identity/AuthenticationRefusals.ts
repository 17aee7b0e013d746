import { Context, Duration, Effect, Layer } from "effect"
import { IpInterface, IpNetwork, NetAddress } from "effect/net"
import { parseClientAddress } from "../../domain/identity/AllowedNetworks.ts"
import { onShutdown, runWorker, startWorkers } from "../concurrency/Worker.ts"
import { authenticationRefusals } from "../observability/metricDefinitions.ts"
import type { KeyRef } from "./KeyRef.ts"

/**
 * Why a request was not authenticated. `session`: its console session is unknown or has ended. `forbidden`: it was
 * authenticated, and refused with 403, for a scope that its key lacks or a decision that is not its own.
 */
export const refusalReasons = [
  "malformed",
  "checksum",
  "unknown",
  "revoked",
  "expired",
  "address",
  "session",
  "forbidden"
] as const
export type RefusalReason = (typeof refusalReasons)[number]

/** A request that was not authenticated or not authorized. */
export interface AuthenticationRefusal {
  readonly reason: RefusalReason
  /** The client's address. */
  readonly address: string
  /** The key, if there is one: it was revoked, has expired, may not be used from this address, or lacks a right. */
  readonly key?: KeyRef | undefined
}

/** Pause between two reports. */
const REPORT_EVERY = Duration.minutes(1)

/** Maximum number of lines per report. Further refusals are counted together, by reason. */
const MAX_LINES = 100

interface RefusalCount extends AuthenticationRefusal {
  count: number
}

/**
 * Counts refused authentications and authorizations in a metric, and logs them once a minute, however many requests an attacker sends: one
 * line for each reason, network and key, up to 100 lines, then one for each reason.
 */
export class AuthenticationRefusals extends Context.Service<
  AuthenticationRefusals,
  {
    readonly record: (refusal: AuthenticationRefusal) => void
    /** Logs the refusals since the last call. Returns the number of lines. */
    readonly report: Effect.Effect<number>
  }
>()("countersign/server/identity/AuthenticationRefusals") {
  /** Records into the metrics and the log of the service. */
  static readonly layer = Layer.effect(
    AuthenticationRefusals,
    Effect.gen(function* () {
      const context = yield* Effect.context<never>()
      // Prometheus sees an increase only from an existing value, so the counters exist before their first increment.
      for (const reason of refusalReasons) authenticationRefusals(reason).updateUnsafe(0, context)
      let counts = new Map<string, RefusalCount>()

      const report = Effect.suspend(() => {
        const lines = [...counts.values()]
        counts = new Map()
        return Effect.as(
          Effect.forEach(
            lines,
            ({ address, count, key, reason }) =>
              Effect.logWarning(reason === "forbidden" ? "Refused authorization" : "Refused authentication", {
                reason,
                address,
                count,
                ...(key === undefined ? {} : { org_id: key.org_id, key_id: key.key_id })
              }),
            { discard: true }
          ),
          lines.length
        )
      })

      const record = (refusal: AuthenticationRefusal): void => {
        const { key, reason } = refusal
        authenticationRefusals(reason).updateUnsafe(1, context)
        const address = networkOf(refusal.address)
        const name = `${reason} ${address} ${key?.key_id ?? ""}`
        const known = counts.get(name)
        if (known !== undefined) known.count++
        else if (counts.size < MAX_LINES) counts.set(name, { reason, address, key, count: 1 })
        else {
          const others = counts.get(reason)
          if (others !== undefined) others.count++
          else counts.set(reason, { reason, address: "others", count: 1 })
        }
      }

      yield* onShutdown(Effect.asVoid(report))
      yield* startWorkers([
        runWorker({
          name: "authentication_refusals",
          runOnce: Effect.map(report, (lines) => ({ counts: { lines } })),
          every: REPORT_EVERY,
          firstRun: "after_pause"
        })
      ])
      return AuthenticationRefusals.of({ record, report })
    })
  )

  /** Records nothing, for the command line, which authenticates no request. */
  static readonly layerNone = Layer.succeed(AuthenticationRefusals, {
    record: () => undefined,
    report: Effect.succeed(0)
  })
}

/**
 * The name of a client in the log: its IPv4 address, or its /64 IPv6 network, which usually belongs to one customer.
 */
const networkOf = (text: string): string => {
  const address = parseClientAddress(text)
  if (address === undefined) return "unknown"
  return NetAddress.isIpv4Address(address)
    ? NetAddress.formatIp(address)
    : IpNetwork.format(IpNetwork.fromInterface(IpInterface.makeUnsafe(address, 64)))
}
