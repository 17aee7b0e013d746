import { Effect, type Schema } from "effect"
import { RateLimited } from "../../../api/Problems.ts"
import type { OrganizationLimitValues } from "../../../domain/identity/OrganizationLimitValues.ts"
import type { OrgId } from "../../../domain/Ids.ts"
import { KeyedBudget } from "../../admission/KeyedBudget.ts"
import type { LimitUse } from "../../observability/LimitUse.ts"
import { reportQuota } from "../../observability/reportQuota.ts"

/** Seconds after which a refused run may be tried again. */
const RETRY_AFTER_SECONDS = 1

const MEBIBYTE = 1024 * 1024

/**
 * Bounds the runs of each organization that wait for a provider, by number and by the bytes of their inputs. A provider
 * may take two minutes for each, and an input occupies several times its size in memory. A run beyond a limit is
 * refused and not queued, because its input would occupy the same memory while it waited.
 */
export const makeRunSlots = (
  limits: Pick<OrganizationLimitValues, "concurrentRuns" | "runBytes">,
  use: LimitUse["Service"]
) => {
  const runs = new KeyedBudget<OrgId>({})
  const runBytes = new KeyedBudget<OrgId>({})

  return (org_id: OrgId, input: Schema.Json) =>
    <A, E, R>(run: Effect.Effect<A, E, R>): Effect.Effect<A, E | RateLimited, R> =>
      // Not interruptible in between: a run that was counted and then interrupted before it started would stay counted
      // until the process ends.
      Effect.uninterruptibleMask((restore): Effect.Effect<A, E | RateLimited, R> => {
        const bytes = limits.runBytes === 0 ? 0 : sizeOf(input)
        /** Names the limits in the response, with their remaining amounts. */
        const report = Effect.suspend(() =>
          Effect.andThen(
            limits.concurrentRuns === 0
              ? Effect.void
              : reportQuota({
                  name: "concurrent_runs",
                  limit: limits.concurrentRuns,
                  remaining: limits.concurrentRuns - runs.inUseBy(org_id),
                  unit: "concurrent-requests"
                }),
            limits.runBytes === 0
              ? Effect.void
              : reportQuota({
                  name: "run_bytes",
                  limit: limits.runBytes,
                  remaining: limits.runBytes - runBytes.inUseBy(org_id),
                  unit: "content-bytes"
                })
          )
        )
        if (limits.concurrentRuns > 0) {
          if (runs.inUseBy(org_id) >= limits.concurrentRuns) {
            use.refused("concurrent_runs")
            return Effect.andThen(report, refuse(`${limits.concurrentRuns} runs`))
          }
          use.used("concurrent_runs", (runs.inUseBy(org_id) + 1) / limits.concurrentRuns)
        }
        if (limits.runBytes > 0) {
          // A single run is admitted whatever its size: bodies have a limit of their own.
          if (runs.inUseBy(org_id) > 0 && runBytes.inUseBy(org_id) + bytes > limits.runBytes) {
            use.refused("run_bytes")
            return Effect.andThen(
              report,
              refuse(`runs with inputs of ${limits.runBytes / MEBIBYTE} MiB in all`)
            )
          }
          use.used("run_bytes", (runBytes.inUseBy(org_id) + bytes) / limits.runBytes)
        }
        runs.take(org_id)
        runBytes.take(org_id, bytes)
        return Effect.ensuring(
          Effect.andThen(report, restore(run)),
          Effect.sync(() => {
            runs.giveBack(org_id)
            runBytes.giveBack(org_id, bytes)
          })
        )
      })
}

const refuse = (limit: string) =>
  Effect.fail(
    new RateLimited({
      detail: `The organization has ${limit} waiting for a model provider on this replica, which is the limit. Wait for some to end.`,
      retry_after_seconds: RETRY_AFTER_SECONDS
    })
  )

/** Bytes that a value without strings occupies in memory, at least. */
const VALUE_BYTES = 8

/** Approximate size of a JSON value, without encoding it. */
const sizeOf = (value: Schema.Json): number => {
  let bytes = 0
  const open: Array<Schema.Json> = [value]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    bytes += VALUE_BYTES
    if (typeof next === "string") bytes += next.length
    else if (typeof next === "object" && next !== null) {
      for (const [name, member] of Object.entries(next)) {
        if (!Array.isArray(next)) bytes += name.length
        open.push(member)
      }
    }
  }
  return bytes
}
