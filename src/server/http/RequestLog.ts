import { Clock, Context, Effect, Layer } from "effect"
import { HttpServerRequest, type HttpServerResponse } from "effect/http"
import type { Principal } from "../../domain/identity/Principal.ts"
import { VERIFY_EMAIL_PATH } from "../../domain/identity/VerificationLink.ts"
import { monotonicMillis } from "../concurrency/monotonicMillis.ts"

/**
 * Whether every request has a log line. The line has the operation and the path's template: values of path parameters
 * are omitted, because callers choose some of them.
 */
const RequestLog = Context.Reference<boolean>("countersign/server/http/RequestLog", {
  defaultValue: () => false
})

/** Turns the log of requests on or off. */
export const layer = (isOn: boolean): Layer.Layer<never> => Layer.succeed(RequestLog, isOn)

/** The content of the current request's log line; filled in on the way to the handler. */
interface RequestFacts {
  operation: string | null
  route: string | null
  org_id: string | null
  key_id: string | null
}

const CurrentFacts = Context.Reference<RequestFacts | undefined>(
  "countersign/server/http/RequestLog/CurrentFacts",
  { defaultValue: () => undefined }
)

/** Functions that middleware calls for each request; without the log they cost nothing. */
export const makeRequestLog = Effect.map(RequestLog, (isOn) => ({
  /** Logs the response of a request, for the outermost middleware. */
  logged: <E, R>(
    request_id: string,
    request: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
  ): Effect.Effect<HttpServerResponse.HttpServerResponse, E, R | HttpServerRequest.HttpServerRequest> =>
    isOn ? withLine(request_id, request) : request,
  /** Notes the operation of the request. */
  operation: <A, E, R>(
    { endpoint, group }: Operation,
    request: Effect.Effect<A, E, R>
  ): Effect.Effect<A, E, R> =>
    isOn
      ? note(request, { operation: `${group.identifier}.${endpoint.identifier}`, route: endpoint.path })
      : request,
  /** Notes who sent the request. */
  caller: <A, E, R>(
    { actor, org_id }: Pick<Principal, "actor" | "org_id">,
    request: Effect.Effect<A, E, R>
  ): Effect.Effect<A, E, R> => (isOn ? note(request, { key_id: actor.id, org_id }) : request)
}))

interface Operation {
  readonly endpoint: { readonly identifier: string; readonly path: string }
  readonly group: { readonly identifier: string }
}

const note = <A, E, R>(
  request: Effect.Effect<A, E, R>,
  facts: Partial<RequestFacts>
): Effect.Effect<A, E, R> =>
  Effect.flatMap(CurrentFacts, (current) => {
    if (current !== undefined) Object.assign(current, facts)
    return request
  })

/** Paths outside the API contract that are logged. Other paths may contain anything and are logged as unknown. */
const fixedPaths: ReadonlySet<string> = new Set([
  "/healthz",
  "/readyz",
  "/metrics",
  "/docs",
  "/openapi.json",
  "/console",
  VERIFY_EMAIL_PATH
])

/** The path of a request without its query, which may contain a secret; null if it is not a fixed one. */
const fixedPathOf = (url: string): string | null => {
  const path = url.split("?", 1)[0] ?? ""
  return fixedPaths.has(path) ? path : null
}

const withLine = <E, R>(
  request_id: string,
  request: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
) =>
  Effect.gen(function* () {
    const clock = yield* Clock.Clock
    const startedAt = monotonicMillis(clock)
    const { method, url } = yield* HttpServerRequest.HttpServerRequest
    const facts: RequestFacts = {
      operation: null,
      route: fixedPathOf(url),
      org_id: null,
      key_id: null
    }
    const response = yield* Effect.provideService(request, CurrentFacts, facts)
    const { status } = response
    yield* Effect.annotateLogs(Effect.logInfo(`${method} ${facts.route ?? "(unknown path)"} ${status}`), {
      method,
      status,
      ms: Math.round((monotonicMillis(clock) - startedAt) * 10) / 10,
      request_id,
      ...facts
    })
    return response
  })
