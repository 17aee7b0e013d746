/** Counts completed deliveries, and logs failed ones: they have no later attempt, so nothing else would report them. */
import { type Context, Effect } from "effect"
import { deliveriesCompleted, type DeliveryVerdict } from "../../observability/metricDefinitions.ts"

/** A delivery that reached its final status. */
export interface Completed {
  readonly channel: string
  readonly org_id: string
  readonly destination_id: string
  readonly delivery_id: string
  readonly verdict: DeliveryVerdict
  /** Null: it was delivered. */
  readonly error: string | null
}

/** Verdicts of deliveries that are lost unless they are replayed. Others of an unsent one, such as a mail about a closed approval, are usual. */
const lost: ReadonlySet<DeliveryVerdict> = new Set(["failed", "gone", "queue_full"])

/** Counts deliveries in the metrics of a service. */
export const countCompleted = (list: ReadonlyArray<Completed>, context: Context.Context<never>): void => {
  for (const { channel, verdict } of list) deliveriesCompleted(channel, verdict).updateUnsafe(1, context)
}

/** Logs the failed ones of these deliveries: one line for each destination and verdict, however many there are. */
export const logFailed = (list: ReadonlyArray<Completed>): Effect.Effect<void> => {
  const failed = list.filter(({ verdict }) => verdict !== "delivered" && verdict !== "partial")
  if (failed.length === 0) return Effect.void
  const groups = Map.groupBy(failed, (one) => `${one.org_id}/${one.destination_id}/${one.verdict}`)
  return Effect.forEach(
    groups.values(),
    (group) => {
      const [first] = group
      if (first === undefined) return Effect.void
      const { error, ...ids } = first
      const text = `${group.length === 1 ? "A delivery" : `${group.length} deliveries`} failed and will not be retried: ${error}`
      return Effect.annotateLogs(lost.has(first.verdict) ? Effect.logWarning(text) : Effect.logInfo(text), {
        ...ids,
        count: group.length
      })
    },
    { discard: true }
  )
}
