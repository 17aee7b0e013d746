import { Cause, ConfigProvider, Effect, Exit, Layer, Option, Redacted, Schedule, Tracer } from "effect"
import { FetchHttpClient, HttpClient, HttpClientError, HttpMiddleware } from "effect/http"
import { OtlpExporter, OtlpMetrics, OtlpSerialization, OtlpTracer } from "effect/observability"
import { VERSION } from "../../domain/Version.ts"
import { Metrics } from "./Metrics.ts"
import type { Settings } from "../config/Settings.ts"

/** The longest exchange with the collector. Without an end, one that hangs would have spans pile up behind it. */
const EXCHANGE_MILLIS = 3_000

/** Traces that begin in a second, at most; the others are not sampled. It bounds what waits while a collector is away. */
const TRACES_PER_SECOND = 200

/** How often metrics are looked at and sent. */
const EVERY = "15 seconds"

/** Paths that are asked for by machines, every few seconds. */
const PROBES = ["/healthz", "/readyz", "/metrics"]

/**
 * The attributes that leave the house. What else spans are given, now or by a later version of a library, may be a tenant's: paths as
 * they were typed, queries, addresses.
 */
const ATTRIBUTES =
  /^(http\.(request\.method|response\.status_code|route)|db\.(system\.name|operation\.name)|error\.type)$/

/**
 * The service's own traces and metrics, sent to the operator's collector by Effect's exporter: best effort, apart from the export that
 * tenants ask for. Logs stay where they are written. Undefined: nothing is sent, and no span is made.
 */
export const layer = (settings: Settings["ownTelemetry"]): Layer.Layer<never> => {
  if (settings === undefined) return Layer.empty
  const common = {
    headers: headersOf(settings.headers),
    resource: {
      serviceName: settings.serviceName,
      serviceVersion: VERSION,
      attributes: { ...settings.attributes }
    },
    compression: "gzip" as const
  }
  const traces =
    settings.traces === undefined
      ? Layer.empty
      : Layer.effect(
          Tracer.Tracer,
          Effect.map(OtlpTracer.make({ ...common, url: Redacted.value(settings.traces) }), discreet)
        )
  const metrics =
    settings.metrics === undefined
      ? Layer.empty
      : OtlpMetrics.layer({ ...common, url: Redacted.value(settings.metrics), exportInterval: EVERY })
  return Layer.mergeAll(
    traces,
    Layer.effectDiscard(Layer.build(metrics)),
    HttpMiddleware.layerTracerDisabledForUrls(PROBES)
  ).pipe(
    Layer.provide([
      OtlpExporter.layerFlusher,
      OtlpSerialization.layerJson,
      layerClient,
      // What the exporter would read of the environment is in the settings, checked.
      ConfigProvider.layer(ConfigProvider.fromUnknown({}))
    ])
  )
}

/** Looks at what metrics tell, so that the exporter finds it fresh. */
export const layerPeriodicCollection = (
  settings: Settings["ownTelemetry"]
): Layer.Layer<never, never, Metrics> =>
  settings === undefined
    ? Layer.empty
    : Layer.effectDiscard(
        Effect.flatMap(Metrics, ({ collect }) =>
          Effect.forkScoped(Effect.repeat(collect, Schedule.spaced(EVERY)))
        )
      )

const layerClient = Layer.effect(
  HttpClient.HttpClient,
  Effect.map(
    HttpClient.HttpClient,
    HttpClient.transform((exchange, request) =>
      Effect.timeoutOrElse(exchange, {
        duration: EXCHANGE_MILLIS,
        orElse: () =>
          Effect.fail(
            new HttpClientError.HttpClientError({
              reason: new HttpClientError.TransportError({ request, description: "timed out" })
            })
          )
      })
    )
  )
).pipe(Layer.provide(FetchHttpClient.layer))

/** `name=value` pairs, percent-encoded (OpenTelemetry specification, OTLP exporter configuration). */
const headersOf = (headers: Redacted.Redacted | undefined): Record<string, string> =>
  headers === undefined
    ? {}
    : Object.fromEntries(
        Redacted.value(headers)
          .split(",")
          .map((pair) => {
            const at = pair.indexOf("=")
            return [pair.slice(0, at).trim(), decode(pair.slice(at + 1).trim())]
          })
      )

/** What is not percent-encoded after all is taken as it stands. */
const decode = (text: string): string => {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/**
 * A tracer that says what was done and how long it took, and nothing of what it was done with: the attributes listed, of a failure its
 * kind, and no events, which are what was logged meanwhile.
 */
const discreet = (tracer: Tracer.Tracer): Tracer.Tracer => {
  let second = 0
  let begun = 0
  const mayBegin = (startTime: bigint): boolean => {
    const now = Number(startTime / 1_000_000_000n)
    if (now !== second) {
      second = now
      begun = 0
    }
    return ++begun <= TRACES_PER_SECOND
  }
  return Tracer.make({
    span: (options) => {
      const isRoot = Option.isNone(options.parent) || options.parent.value._tag === "ExternalSpan"
      const sampled = options.sampled && (!isRoot || mayBegin(options.startTime))
      const span = tracer.span({ ...options, sampled })
      const attribute = span.attribute.bind(span)
      const end = span.end.bind(span)
      return Object.assign(span, {
        attribute: (key: string, value: unknown) => {
          if (ATTRIBUTES.test(key)) attribute(key, value)
        },
        event: () => {},
        end: (endTime: bigint, exit: Exit.Exit<unknown, unknown>) => end(endTime, kindOf(exit))
      })
    },
    ...(tracer.context === undefined ? {} : { context: tracer.context })
  })
}

/** An exit without what it failed with: the kind of the error is its message. */
const kindOf = (exit: Exit.Exit<unknown, unknown>): Exit.Exit<unknown, unknown> => {
  if (Exit.isSuccess(exit)) return Exit.void
  if (Cause.hasInterruptsOnly(exit.cause)) return exit
  const [reason] = exit.cause.reasons
  const error =
    reason === undefined || Cause.isInterruptReason(reason)
      ? undefined
      : Cause.isFailReason(reason)
        ? reason.error
        : reason.defect
  const plain = new Error(nameOf(error))
  plain.name = plain.message
  plain.stack = ""
  return Exit.fail(plain)
}

const nameOf = (error: unknown): string => {
  if (typeof error !== "object" || error === null) return "Error"
  if ("_tag" in error && typeof error._tag === "string") return error._tag
  return error instanceof Error ? error.name : "Error"
}
