import { Clock, Context, Effect, Exit, Layer, Stream, Tracer } from "effect"
import { HttpBody, HttpServerRequest, HttpServerResponse } from "effect/http"
import { WaitsByDesign } from "../../api/Middleware.ts"
import type { Principal } from "../../domain/identity/Principal.ts"
import { VERIFY_EMAIL_PATH } from "../../domain/identity/VerificationLink.ts"
import { monotonicMillis } from "../concurrency/monotonicMillis.ts"
import { CurrentRequestFacts, type RequestFacts } from "../observability/RequestFacts.ts"
import { probePaths } from "../observability/probePaths.ts"
import { CLIENT_DISCONNECTED } from "../observability/recordRequest.ts"

/** Which requests are logged. */
export interface RequestLogSettings {
  /** Whether requests have a line each; without it only slow ones have. */
  readonly requests: boolean
  /**
   * The share of requests that have a line, from 0 to 1. Requests with a 5xx status and slow ones always have one; probes and scrapes
   * have one only if they fail.
   */
  readonly sampleRatio: number
  /** From which duration a request is slow, in milliseconds; 0: never. */
  readonly slowMillis: number
}

/**
 * Which requests have a log line. The line has the operation and the path's template: values of path parameters
 * are omitted, because callers choose some of them.
 */
export class RequestLog extends Context.Service<RequestLog, RequestLogSettings>()(
  "countersign/server/http/RequestLog"
) {}

/** Sets which requests are logged. */
export const layer = (settings: RequestLogSettings): Layer.Layer<RequestLog> =>
  Layer.succeed(RequestLog, settings)

/** Functions that middleware calls for each request; with neither the log nor a threshold they cost nothing. */
export const makeRequestLog = Effect.map(RequestLog, (settings) => {
  const isOn = settings.requests || settings.slowMillis > 0
  return {
    /** Logs the response of a request, for the outermost middleware. */
    logged: <E, R>(
      request_id: string,
      request: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
    ): Effect.Effect<HttpServerResponse.HttpServerResponse, E, R | HttpServerRequest.HttpServerRequest> =>
      isOn ? withLine(settings, request_id, request) : request,
    /** Notes the operation of the request. */
    operation: <A, E, R>(
      { endpoint, group }: Operation,
      request: Effect.Effect<A, E, R>
    ): Effect.Effect<A, E, R> => {
      if (!isOn) return request
      const facts = {
        operation: `${group.identifier}.${endpoint.identifier}`,
        route: endpoint.path,
        waits: endpoint.annotations !== undefined && Context.get(endpoint.annotations, WaitsByDesign)
      }
      return note(request, facts)
    },
    /** Notes who sent the request. */
    caller: <A, E, R>(
      { actor, org_id }: Pick<Principal, "actor" | "org_id">,
      request: Effect.Effect<A, E, R>
    ): Effect.Effect<A, E, R> => (isOn ? note(request, { key_id: actor.id, org_id }) : request)
  }
})

interface Operation {
  readonly endpoint: {
    readonly identifier: string
    readonly path: string
    readonly annotations?: Context.Context<never>
  }
  readonly group: { readonly identifier: string }
}

const note = <A, E, R>(
  request: Effect.Effect<A, E, R>,
  facts: Partial<RequestFacts>
): Effect.Effect<A, E, R> =>
  Effect.flatMap(CurrentRequestFacts, (current) => {
    if (current !== undefined) Object.assign(current, facts)
    return request
  })

/** Paths outside the API contract that are logged. Other paths may contain anything and are logged as unknown. */
const fixedPaths: ReadonlySet<string> = new Set([
  "/",
  ...probePaths,
  "/docs",
  "/openapi.json",
  "/.well-known/jwks.json",
  "/console",
  VERIFY_EMAIL_PATH
])

/** The path of a request without its query, which may contain a secret; null if it is not a fixed one. */
const fixedPathOf = (url: string): string | null => {
  const path = url.split("?", 1)[0] ?? ""
  if (fixedPaths.has(path)) return path
  return path.startsWith("/console/") ? "/console/*" : null
}

/** The id of the trace of a valid `traceparent` header (W3C Trace Context). */
const traceparent = /^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-|$)/

/** A trace id: 32 hex digits that are not all zero. */
const traceId = /^(?!0{32})[0-9a-f]{32}$/

/** The trace of the service's own span, else that of the caller's header, else null. */
const traceOf = (
  span: Tracer.AnySpan | undefined,
  headers: Readonly<Record<string, string | undefined>>
): string | null => {
  const id = span !== undefined && traceId.test(span.traceId) ? span.traceId : undefined
  const found = id ?? traceparent.exec(headers["traceparent"] ?? "")?.[1]
  return found !== undefined && traceId.test(found) ? found : null
}

/** Whether a request is in the sample: decided by the random end of its id, so evenly and the same for each line about it. */
const isSampled = (request_id: string, ratio: number): boolean =>
  ratio >= 1 || Number.parseInt(request_id.slice(-8), 16) / 2 ** 32 < ratio

/** The least status of a failure, and of one of this service. */
const FAILED = 400
const INTERNAL_ERROR = 500

const probes: ReadonlySet<string | null> = new Set(probePaths)

const withLine = <E, R>(
  { requests, sampleRatio, slowMillis }: RequestLogSettings,
  request_id: string,
  request: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
): Effect.Effect<HttpServerResponse.HttpServerResponse, E, R | HttpServerRequest.HttpServerRequest> =>
  Effect.contextWith((context: Context.Context<R | HttpServerRequest.HttpServerRequest>) => {
    const clock = Context.get(context, Clock.Clock)
    const { headers, method, url } = Context.get(context, HttpServerRequest.HttpServerRequest)
    const startedAt = monotonicMillis(clock)
    const facts: RequestFacts = {
      operation: null,
      route: fixedPathOf(url),
      org_id: null,
      key_id: null,
      waits: false
    }

    /** `responseMillis`: until the response began, which a stream's end comes after. */
    const line = (status: number, bytes: number | null, responseMillis: number) => {
      const isSlow = slowMillis > 0 && responseMillis >= slowMillis && !facts.waits
      const isKept = isSlow || status >= INTERNAL_ERROR
      const isQuiet = probes.has(facts.route) && status < FAILED
      if (!isSlow && !(requests && (isKept || (!isQuiet && isSampled(request_id, sampleRatio)))))
        return Effect.void
      const { waits: _, ...shown } = facts
      const text = `${isSlow ? "Slow request: " : ""}${method} ${facts.route ?? "(unknown path)"} ${status}`
      return Effect.annotateLogs(
        isSlow || status >= INTERNAL_ERROR ? Effect.logWarning(text) : Effect.logInfo(text),
        {
          method,
          status,
          ms: Math.round((monotonicMillis(clock) - startedAt) * 10) / 10,
          bytes,
          request_id,
          trace_id: traceOf(Context.getOrUndefined(context, Tracer.ParentSpan), headers),
          ...shown,
          ...(isSlow ? { slow: true } : {}),
          // Without the log of requests a slow one is not a sample of them.
          ...(requests ? { sample_ratio: isKept ? 1 : sampleRatio } : {})
        }
      )
    }

    return Effect.onExit(
      Effect.flatMap(Effect.provideService(request, CurrentRequestFacts, facts), (response) => {
        const { body, status } = response
        const millis = monotonicMillis(clock) - startedAt
        if (body._tag !== "Stream" || method === "HEAD") {
          return Effect.as(line(status, method === "HEAD" ? 0 : lengthOf(body), millis), response)
        }
        // Logged once the stream has ended, since its length is unknown before.
        let bytes = 0
        const counted = Stream.map(body.stream, (chunk) => {
          bytes += chunk.byteLength
          return chunk
        }).pipe(Stream.onExit(() => Effect.suspend(() => line(status, bytes, millis))))
        return Effect.succeed(
          HttpServerResponse.setBody(response, HttpBody.stream(counted, body.contentType, body.contentLength))
        )
      }),
      (exit) =>
        Exit.isFailure(exit) && Exit.hasInterrupts(exit)
          ? Effect.suspend(() => line(CLIENT_DISCONNECTED, 0, monotonicMillis(clock) - startedAt))
          : Effect.void
    )
  })

/** The bytes of a body; null if they are unknown. */
const lengthOf = (body: HttpBody.HttpBody): number | null =>
  body._tag === "Empty" ? 0 : (body.contentLength ?? null)
