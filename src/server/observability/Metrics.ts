import { Context, Effect, Layer, Metric } from "effect"
import { PrometheusMetrics } from "effect/observability"
import { SqlClient } from "effect/sql"
import { Delivery } from "../delivery/Delivery.ts"
import {
  deliveryCoolingDestinations,
  metricsFailures,
  deliveryInFlight,
  deliveryOldestDue,
  deliveryQueueFull,
  deliveryShards,
  deliveryQueueDepth
} from "./metricDefinitions.ts"
import { makeProcessCollector } from "./Metrics/processCollector.ts"
import { collectDatabase } from "./Metrics/store.ts"

/** Who asks more often than this is told the same: looking must not become a load of its own. */
const FRESH_FOR = "5 seconds"

/** The longest that the store is asked. */
const ASK_MILLIS = 3_000

/**
 * What operators see of the service: `Metrics/definitions.ts` has each metric with its meaning. What is counted while it happens is always
 * up to date; what is looked at is looked at when somebody asks.
 */
export class Metrics extends Context.Service<
  Metrics,
  {
    /** Looks at the process, the engine and the store. Does not fail: what cannot be asked stays as it was. */
    readonly collect: Effect.Effect<void>
    /** All of it as Prometheus text, version 0.0.4. */
    readonly text: Effect.Effect<string>
  }
>()("countersign/server/observability/Metrics") {
  static readonly layer = Layer.effect(
    Metrics,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const delivery = yield* Delivery
      const registry = yield* Metric.MetricRegistry
      const collectProcess = yield* makeProcessCollector

      const collectDelivery = Effect.gen(function* () {
        const figures = yield* delivery.stats
        yield* Metric.update(deliveryShards, figures.shards)
        for (const [channel, of] of figures.channels) {
          yield* Metric.update(deliveryQueueDepth(channel), of.waiting)
          yield* Metric.update(deliveryOldestDue(channel), of.overdueSeconds)
          yield* Metric.update(deliveryInFlight(channel), of.inFlight)
          yield* Metric.update(deliveryCoolingDestinations(channel), of.coolingDown)
          // There before the first of them: a rise is seen only from a number.
          yield* Metric.update(deliveryQueueFull(channel), 0)
        }
      })

      const ask = Effect.all([collectDelivery, collectDatabase(sql)], { discard: true }).pipe(
        Effect.timeout(ASK_MILLIS),
        Effect.andThen(Metric.update(metricsFailures, 0)),
        Effect.catchCause((cause) =>
          Effect.andThen(
            Metric.update(metricsFailures, 1),
            Effect.logDebug("The store could not be asked for metrics", cause)
          )
        )
      )

      const collect = yield* Effect.cachedWithTTL(
        // Whose request it is matters neither for the series nor for the spans.
        Effect.andThen(collectProcess, ask).pipe(
          Effect.provideService(Metric.MetricRegistry, registry),
          Effect.withTracerEnabled(false)
        ),
        FRESH_FOR
      )

      return Metrics.of({
        collect,
        text: Effect.andThen(collect, PrometheusMetrics.format()).pipe(
          Effect.provideService(Metric.MetricRegistry, registry)
        )
      })
    })
  )
}

/** A registry of its own: of several services in one process each tells of itself. */
export const layerRegistry: Layer.Layer<never> = Layer.sync(Metric.MetricRegistry, () => new Map())
