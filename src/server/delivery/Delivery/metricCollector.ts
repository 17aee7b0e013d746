import { Effect, Metric } from "effect"
import type { MetricCollector } from "../../observability/Metrics.ts"
import {
  deliveriesCompleted,
  deliveriesHeld,
  deliveryCoolingDestinations,
  deliveryInFlight,
  deliveryOldestDue,
  deliveryQueueDepth,
  deliveryShards,
  deliveryVerdicts
} from "../../observability/metricDefinitions.ts"
import { Delivery } from "../Delivery.ts"

/** Updates the gauges of the delivery engine. */
export const makeDeliveryCollector: Effect.Effect<MetricCollector, never, Delivery> = Effect.map(
  Delivery,
  (delivery) =>
    Effect.gen(function* () {
      const stats = yield* delivery.stats
      yield* Metric.update(deliveryShards, stats.shards)
      for (const [channel, one] of stats.channels) {
        yield* Metric.update(deliveryQueueDepth(channel), one.waiting)
        yield* Metric.update(deliveryOldestDue(channel), one.overdueSeconds)
        yield* Metric.update(deliveryInFlight(channel), one.inFlight)
        yield* Metric.update(deliveryCoolingDestinations(channel), one.coolingDown)
        // Prometheus sees an increase only from an existing value, so a counter exists before its first increment.
        for (const verdict of deliveryVerdicts) yield* Metric.update(deliveriesCompleted(channel, verdict), 0)
        yield* Metric.update(deliveriesHeld(channel), 0)
      }
    })
)
