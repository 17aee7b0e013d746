import { Cause, ConfigProvider, Effect, Exit, Layer, Option, Redacted, Tracer } from "effect"
import { FetchHttpClient, HttpClient, HttpClientError, HttpMiddleware } from "effect/http"
import { OtlpExporter, OtlpMetrics, OtlpSerialization, OtlpTracer } from "effect/observability"
import { VERSION } from "../../domain/Version.ts"
import { probePaths } from "./probePaths.ts"

/** The collector of the service's own telemetry. */
export interface OwnTelemetrySettings {
  /** Full URL for traces; undefined: none are exported. */
  readonly traces: Redacted.Redacted | undefined
  /** Full URL for metrics; undefined: none are exported. */
  readonly metrics: Redacted.Redacted | undefined
  readonly headers: Redacted.Redacted | undefined
  readonly serviceName: string
  readonly attributes: Readonly<Record<string, string>>
}

/** Time-out of a request to the collector, in milliseconds. Without it, spans would pile up behind a hanging request. */
const EXCHANGE_MILLIS = 3_000

/** The most traces that start in a second; others are not sampled. It bounds the buffer while a collector is unavailable. */
const TRACES_PER_SECOND = 200

/** Interval of metric collection and export. */
export const EXPORT_INTERVAL = "15 seconds"

/**
 * Allowlist of span attributes. Others, of this or a later version of a library, may contain tenants' data: raw paths, queries, addresses.
 * `worker.*` are the counts of a background worker's run.
 */
const ALLOWED_ATTRIBUTES =
  /^(http\.(request\.method|response\.status_code|route)|db\.(system\.name|operation\.name)|error\.type|worker\.[a-z_]+)$/

/**
 * Exports the service's own traces and metrics to the operator's collector, with Effect's exporter and on best effort.
 * It is separate from the span export of tenants. Logs are not exported. Undefined: nothing is exported.
 */
export const layer = (settings: OwnTelemetrySettings | undefined): Layer.Layer<never> => {
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
          Effect.map(OtlpTracer.make({ ...common, url: Redacted.value(settings.traces) }), redactSpans)
        )
  const metrics =
    settings.metrics === undefined
      ? Layer.empty
      : OtlpMetrics.layer({
          ...common,
          url: Redacted.value(settings.metrics),
          exportInterval: EXPORT_INTERVAL
        })
  return Layer.mergeAll(
    traces,
    Layer.effectDiscard(Layer.build(metrics)),
    HttpMiddleware.layerTracerDisabledForUrls(probePaths)
  ).pipe(
    Layer.provide([
      OtlpExporter.layerFlusher,
      OtlpSerialization.layerJson,
      layerClient,
      // The exporter must not read the environment itself: the settings have its variables, validated.
      ConfigProvider.layer(ConfigProvider.fromUnknown({}))
    ])
  )
}

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
export const headersOf = (headers: Redacted.Redacted | undefined): Record<string, string> =>
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

/** Percent-decodes a text; an invalid encoding is taken literally. */
const decode = (text: string): string => {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/**
 * A tracer whose spans contain no tenant data: only allowed attributes, only the kind of a failure, and no events, which are log lines.
 */
const redactSpans = (tracer: Tracer.Tracer): Tracer.Tracer => {
  let second = 0
  let started = 0
  const isWithinLimit = (startTime: bigint): boolean => {
    const now = Number(startTime / 1_000_000_000n)
    if (now !== second) {
      second = now
      started = 0
    }
    return ++started <= TRACES_PER_SECOND
  }
  return Tracer.make({
    span: (options) => {
      const isRoot = Option.isNone(options.parent) || options.parent.value._tag === "ExternalSpan"
      const sampled = options.sampled && (!isRoot || isWithinLimit(options.startTime))
      const span = tracer.span({ ...options, sampled })
      const attribute = span.attribute.bind(span)
      const end = span.end.bind(span)
      return Object.assign(span, {
        attribute: (key: string, value: unknown) => {
          if (ALLOWED_ATTRIBUTES.test(key)) attribute(key, value)
        },
        event: () => {},
        end: (endTime: bigint, exit: Exit.Exit<unknown, unknown>) => end(endTime, kindOf(exit))
      })
    },
    ...(tracer.context === undefined ? {} : { context: tracer.context })
  })
}

/** An exit whose error has only the kind of the original error as its message. */
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
