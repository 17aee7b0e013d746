import { Context, Effect, Layer, Redacted } from "effect"
import { FetchHttpClient, type HttpClient, HttpClientRequest } from "effect/http"
import { HttpApiMiddleware } from "effect/http-api"
import { Authentication } from "../api/Authorization.ts"
import type { ApprovalSnapshot, SessionEvent } from "../api/SessionStream.ts"
import type { EffectCalls } from "./Call.ts"
import { apiKey } from "./ClientOptions.ts"
import { changeOf, makeApprovalWaits } from "./connect/approvalWaits.ts"
import { makeFollower } from "./connect/sessionEvents.ts"
import { type Execute, type Govern, makeExecute, makeGovern } from "./govern.ts"
import { type CallsOptions, makeCalls } from "./makeCalls.ts"
import { makeStream, type StreamEvents } from "./stream.ts"

/** The service and the API key of a client. Both default to the variables `COUNTERSIGN_URL` and `COUNTERSIGN_KEY`. */
export interface ClientLayerOptions extends CallsOptions {
  /** An API key. It is sent to this service only: redirects are not followed. */
  readonly key?: string | Redacted.Redacted
}

/** The operations of the contract, and the helpers built on them. */
export interface ClientCalls extends EffectCalls {
  /** Streams a session's events: `stream(session_id, { after })`. */
  readonly stream: StreamEvents
  /** Requests a step and waits for its decision: `govern(session_id, step)`. */
  readonly govern: Govern
  /** Requests a step, executes it if it is allowed, once, and reports the outcome: `execute(session_id, step, tool)`. */
  readonly execute: Execute
}

/**
 * The typed client: every operation of the contract as an effect that fails with the problems of the operation.
 *
 * ```ts
 * const program = Effect.gen(function* () {
 *   const { sessions } = yield* Client
 *   return yield* sessions.create({ payload: { metadata: { ticket: "4711" } } })
 * })
 * program.pipe(Effect.provide(Client.layer({ url: "http://127.0.0.1:8080", key })))
 * ```
 *
 * Idempotent requests are retried a few times if the service is busy or unreachable: reads, and creations, steps and claims with an `Idempotency-Key`. Such
 * a call without a key gets an automatic one, the same for all its attempts. Runs of a task do not, because a retry could bill the
 * model twice: the model may have been paid when the connection broke. Pass a key to allow retries nevertheless.
 */
export class Client extends Context.Service<Client, ClientCalls>()("countersign/client/Client") {
  /** A client that uses `fetch`: in Node, browsers and other runtimes. A URL that is not http or https is a defect. */
  static readonly layer = (options: ClientLayerOptions = {}): Layer.Layer<Client> =>
    Client.layerHttp(options).pipe(Layer.provide(FetchHttpClient.layer), Layer.provide(fetchDefaults))

  /** A client that uses the provided `HttpClient`. */
  static readonly layerHttp = (
    options: ClientLayerOptions = {}
  ): Layer.Layer<Client, never, HttpClient.HttpClient> =>
    Layer.effect(Client, make(options)).pipe(Layer.provide(authenticated(options.key)))
}

const make = Effect.fnUntraced(function* (options: CallsOptions) {
  const { calls, open } = yield* makeCalls(options)
  const follower = makeFollower<SessionEvent>()
  const waits = makeApprovalWaits(follower, changeOf<ApprovalSnapshot>)
  const govern = makeGovern({ ...calls.sessions, ...calls.approvals }, waits, open)
  return {
    ...calls,
    stream: makeStream(follower, open),
    govern,
    execute: makeExecute(govern, calls.sessions)
  }
})

/** The key must not reach another host, and browser cookies must not reach the service. */
const fetchDefaults = Layer.succeed(FetchHttpClient.RequestInit, {
  redirect: "manual",
  credentials: "omit",
  cache: "no-store"
})

/** Returns a key, redacted. Throws if it cannot be sent in a header. */
export const redactedKey = (given: string | Redacted.Redacted | undefined): Redacted.Redacted =>
  Redacted.make(apiKey(Redacted.isRedacted(given) ? Redacted.value(given) : given), { label: "ApiKey" })

const authenticated = (key: string | Redacted.Redacted | undefined) =>
  Layer.unwrap(
    Effect.sync(() => {
      const redacted = redactedKey(key)
      return HttpApiMiddleware.layerClient(Authentication, ({ next, request }) =>
        next(HttpClientRequest.bearerToken(request, redacted))
      )
    })
  )
