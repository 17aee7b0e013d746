/** Why a header of this name must not be sent to a collector. */
export type HeaderNameRefusal = "Transport" | "Forwarding" | "TraceContext" | "Cookie" | "Own" | "Prototype"

/**
 * Refused names in lower case, by reason; `*` matches any rest. The connection and the message describe themselves (RFC 9110, 7.6.1 and 8;
 * RFC 9113, 8.2.2), only proxies may name a request's origin, and trace context of any vendor belongs to a span.
 */
const refusedNames: Readonly<Record<HeaderNameRefusal, ReadonlyArray<string>>> = {
  Transport: [
    ..."host connection keep-alive te trailer transfer-encoding upgrade http2-settings alt-used max-forwards expect".split(
      " "
    ),
    ..."accept-encoding date via content-* proxy-* sec-*".split(" ")
  ],
  Forwarding: "forwarded x-forwarded x-forwarded-* x-real-ip".split(" "),
  TraceContext: [
    // W3C, B3, Jaeger and OpenTracing, and gRPC's OpenCensus headers
    ..."traceparent tracestate traceresponse baggage b3 x-b3-* uber-* uberctx-* jaeger-* ot-*".split(" "),
    ..."x-ot-span-context grpc-trace-bin grpc-tags-bin".split(" "),
    // clouds and meshes
    ..."x-amzn-trace-id x-cloud-trace-context x-client-trace-id l5d-ctx-*".split(" "),
    // Datadog, Sentry, New Relic, Elastic, Dynatrace, Instana, SkyWalking, Pinpoint, SolarWinds, Application Insights
    ..."x-datadog-* sentry-trace newrelic x-newrelic-* elastic-apm-traceparent x-dynatrace x-dynatrace-*".split(
      " "
    ),
    ..."x-instana-* sw6 sw8 sw8-* pinpoint-* x-trace x-trace-options x-trace-options-*".split(" "),
    ..."request-id request-context correlation-context".split(" ")
  ],
  Cookie: "cookie cookie2 set-cookie set-cookie2".split(" "),
  Own: "user-agent x-svc-*".split(" "),
  Prototype: ["prototype", ...Object.getOwnPropertyNames(Object.prototype).map((name) => name.toLowerCase())]
}

const names = new Map<string, HeaderNameRefusal>()
const beginnings = new Map<string, HeaderNameRefusal>()
for (const refusal of ["Transport", "Forwarding", "TraceContext", "Cookie", "Own", "Prototype"] as const) {
  for (const name of refusedNames[refusal]) {
    if (name.endsWith("*")) beginnings.set(name.slice(0, -1), refusal)
    else names.set(name, refusal)
  }
}

/** Whether this is one of the refused names, instead of one that only begins like them. */
export const isRefusedName = (name: string): boolean => names.has(name.toLowerCase())

/** Returns why a header of this name is refused, regardless of case; undefined if it is accepted. */
export const checkHeaderName = (name: string): HeaderNameRefusal | undefined => {
  const lower = name.toLowerCase()
  const exact = names.get(lower)
  if (exact !== undefined) return exact
  for (const [beginning, refusal] of beginnings) if (lower.startsWith(beginning)) return refusal
  return undefined
}
