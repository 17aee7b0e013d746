import { type Cause, Context, type Duration, Effect, Layer, Metric, type Scope } from "effect"
import { PrometheusMetrics } from "effect/observability"
import { metricsFailures } from "./metricDefinitions.ts"
import { makeProcessCollector } from "./Metrics/processCollector.ts"

/** Within this time after a collection, readers get its values: scraping must not become a load of its own. */
const FRESH_FOR = "5 seconds"

/** The longest run of the collectors. */
const COLLECT_TIMEOUT_MILLIS = 3_000

/** The longest run of one of them, which leaves the others some time. They do not run concurrently: the database's would count the statements of the others. */
const COLLECTOR_TIMEOUT_MILLIS = 2_000

/** Updates gauges from their source. A failure leaves them as they were. */
export type MetricCollector = Effect.Effect<void, unknown>

/**
 * A collector that runs at most once in this time, for what tables have to be read for. A run that failed, or was interrupted because it took
 * too long, is followed by the next one at the next collection.
 */
export const collectAtMostEvery = (
  every: Duration.Input,
  collector: MetricCollector
): Effect.Effect<MetricCollector> =>
  Effect.map(Effect.cachedInvalidateWithTTL(collector, every), ([cached, invalidate]) =>
    Effect.onError(cached, () => invalidate)
  )

/**
 * The metrics of the service; `metricDefinitions.ts` has each with its meaning. Counters and histograms are updated as
 * things happen, gauges when metrics are read.
 */
export class Metrics extends Context.Service<
  Metrics,
  {
    /** Updates all gauges. Does not fail: gauges whose collector fails keep their values. */
    readonly collect: Effect.Effect<void>
    /** All metrics as Prometheus text, version 0.0.4. */
    readonly text: Effect.Effect<string>
  }
>()("countersign/server/observability/Metrics") {
  /** Collects the process's own gauges and runs the given collectors in order. */
  static readonly layer = <E, R>(
    collectors: Effect.Effect<ReadonlyArray<MetricCollector>, E, R>
  ): Layer.Layer<Metrics, E, Exclude<R, Scope.Scope>> =>
    Layer.effect(
      Metrics,
      Effect.gen(function* () {
        const registry = yield* Metric.MetricRegistry
        const collectProcess = yield* makeProcessCollector
        // Each runs, also if one before it failed: a count that is too slow must not freeze the other gauges.
        const collectOthers = Effect.validate(
          yield* collectors,
          (collector) => Effect.sandbox(Effect.timeout(collector, COLLECTOR_TIMEOUT_MILLIS)),
          { discard: true }
        ).pipe(
          Effect.timeout(COLLECT_TIMEOUT_MILLIS),
          Effect.andThen(Metric.update(metricsFailures, 0)),
          Effect.catchCause((cause: Cause.Cause<unknown>) =>
            Effect.andThen(
              Metric.update(metricsFailures, 1),
              Effect.logDebug("Metric collection failed", cause)
            )
          )
        )

        const collect = yield* Effect.cachedWithTTL(
          // The reader's own registry and tracer must affect neither the series nor the spans.
          Effect.andThen(collectProcess, collectOthers).pipe(
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

/** A registry of its own for each service: several services in one process do not share their metrics. */
export const layerRegistry: Layer.Layer<never> = Layer.sync(Metric.MetricRegistry, () => new Map())
