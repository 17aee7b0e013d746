import { Context, Effect, Layer } from "effect"
import { limitRefusals, limitUse } from "./metricDefinitions.ts"
import type { MetricCollector } from "./Metrics.ts"

/** The limits that are seen in the metrics. */
export const limitNames = [
  "key_requests",
  "organization_requests",
  "key_lookups",
  "leak_reports",
  "concurrent_runs",
  "run_bytes",
  "api_keys",
  "open_sessions",
  "stored_runs",
  "stored_feedback",
  "stored_bytes",
  "endpoint_tests",
  "endpoint_challenges",
  "address_mails",
  "verification_links",
  "email_confirmations",
  "end_user_feedback",
  "unread_responses",
  "concurrent_reads",
  "event_loop_turns",
  "large_bodies",
  "rule_tests",
  "budget_counters"
] as const
export type LimitName = (typeof limitNames)[number]

/**
 * Counts refusals by limits, and notes how near any one organization, key or address has come to each. Plain and synchronous, because some
 * limits are checked with every request.
 */
export class LimitUse extends Context.Service<
  LimitUse,
  {
    /** Notes the use of a limit, as a fraction of it. */
    readonly used: (limit: LimitName, ratio: number) => void
    readonly refused: (limit: LimitName) => void
    /** Publishes the highest use of each limit since the last call. */
    readonly collect: MetricCollector
  }
>()("countersign/server/observability/LimitUse") {
  /** Records into the metrics of the service. */
  static readonly layer = Layer.effect(
    LimitUse,
    Effect.contextWith((context: Context.Context<never>) =>
      Effect.sync(() => {
        const highest = new Map<LimitName, number>()
        // Prometheus sees an increase only from an existing value, so the counters exist before their first increment.
        for (const limit of limitNames) limitRefusals(limit).updateUnsafe(0, context)
        return {
          used: (limit: LimitName, ratio: number) => {
            if (ratio > (highest.get(limit) ?? 0)) highest.set(limit, ratio)
          },
          refused: (limit: LimitName) => {
            highest.set(limit, 1)
            limitRefusals(limit).updateUnsafe(1, context)
          },
          collect: Effect.sync(() => {
            for (const limit of limitNames) limitUse(limit).updateUnsafe(highest.get(limit) ?? 0, context)
            highest.clear()
          })
        }
      })
    )
  )

  /** Records nothing, for the command line, which has no metrics. */
  static readonly layerNone = Layer.succeed(LimitUse, {
    used: () => undefined,
    refused: () => undefined,
    collect: Effect.void
  })
}
