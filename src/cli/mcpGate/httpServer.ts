import { Effect, FiberHandle, FiberMap, Fiber, Result, Semaphore } from "effect"
import { createParser } from "eventsource-parser"
import { type Dispatcher, Dispatcher1Wrapper, getGlobalDispatcher } from "undici"
import { reasonOf } from "../../client/ServiceUnreachable.ts"
import {
  forwardedMessage,
  isObject,
  parseJson,
  parseMessage,
  type RpcId,
  type RpcMessage,
  type RpcRequest
} from "../mcp/jsonRpc.ts"
import { requestedVersion } from "../mcp/protocol.ts"
import { describeFetchFailure } from "../serviceFailure.ts"
import { MAX_MESSAGE_BYTES } from "../mcp/readLines.ts"
import { headerValue } from "./paramHeaders.ts"
import { NotExecuted, SendFailed, type SendOptions, type UpstreamEvents } from "./Upstream.ts"

/** Delay before a broken stream of notifications is opened again; it doubles up to the maximum. */
const FIRST_DELAY_MILLIS = 1_000
const MAX_DELAY_MILLIS = 30_000

/** Methods whose name of a tool, prompt or resource is sent in a header too. */
const NAMES: Readonly<Record<string, string>> = {
  "tools/call": "name",
  "prompts/get": "name",
  "resources/read": "uri"
}

/** A request that was not executed, because the server no longer knows the session. */
class SessionLost extends NotExecuted {}

/** Causes of failed requests by which no byte of the request reached the server. */
const NOT_SENT =
  /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL|UND_ERR_CONNECT_TIMEOUT)$|CERT|SELF_SIGNED/

/** Statuses by which a server has not executed a request: the client's errors, except one that a proxy sends while it waits for the server. */
const isRefusal = (status: number): boolean => status >= 400 && status < 500 && status !== 408

/** Methods whose response may take any time: a tool works, or the server waits for something to tell. */
const SLOW: ReadonlySet<string> = new Set(["tools/call", "tasks/result", "subscriptions/listen"])

/** Without the limits of `fetch`, which gives up a response that begins, or goes on, after five minutes. */
const withoutTimeouts: Dispatcher.DispatcherComposeInterceptor = (dispatch) => (request, handler) =>
  dispatch({ ...request, headersTimeout: 0, bodyTimeout: 0 }, handler)

/** Most sessions that may end while a message is confirmed, before it is not sent. */
const MAX_LOST_SESSIONS = 3

/** Time for a server to end a session. */
const CLOSE_MILLIS = 2_000

/** The id of the request with which the gate begins a new session. */
const RENEWAL_ID = "countersign-gate-renewal"

export interface HttpServerOptions extends UpstreamEvents {
  readonly url: URL
  /** Sent as `Authorization: Bearer …`. */
  readonly token: string | undefined
}

/** The messages of a response: one as JSON, or several as an event stream. */
async function* messagesOf(response: Response): AsyncGenerator<string> {
  if (response.body === null) return
  const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") === true
  const decoder = new TextDecoder()
  const events: Array<string> = []
  const parser = createParser({ onEvent: ({ data }) => events.push(data) })
  let text = ""
  let pending = 0
  for await (const chunk of response.body) {
    const part = decoder.decode(chunk, { stream: true })
    pending += part.length
    if (pending > MAX_MESSAGE_BYTES)
      throw new Error(`a message has more than ${MAX_MESSAGE_BYTES} characters`)
    if (isStream) {
      parser.feed(part)
      if (events.length > 0) pending = 0
      yield* events.splice(0).filter((data) => data !== "")
    } else text += part
  }
  if (!isStream && text.trim() !== "") yield text
}

/** The message of a refusal that names no request, such as of a server that has lost the session. */
const refusalOf = (text: string): string => {
  const body = parseJson(text)?.value
  const error = isObject(body) ? body["error"] : undefined
  return isObject(error) && typeof error["message"] === "string" ? `: ${error["message"].slice(0, 200)}` : ""
}

/**
 * Connects to an MCP server by streamable HTTP: each message is a request. A request is sent once, or once more if the server has refused it
 * because it no longer knows the session, as after its restart.
 */
export const connectHttpServer = Effect.fnUntraced(function* (options: HttpServerOptions) {
  const { log, onMessage, onRenewed, token, url } = options
  let session: string | undefined
  /** The version of the protocol with `initialize`. */
  let version: string | undefined
  /** The id of the request that begins a session, and whose response names the version. */
  let initializing: unknown
  /** The client's request that began its session. */
  let initialize: RpcRequest | undefined
  const renewal = yield* Semaphore.make(1)
  /** For slow responses. In the form that Node's own `fetch` takes. */
  const patient = { dispatcher: new Dispatcher1Wrapper(getGlobalDispatcher().compose(withoutTimeouts)) }

  /** Sends an HTTP request, and reads its response. */
  const exchange = <A>(init: RequestInit, read: (response: Response) => Promise<A>) =>
    Effect.tryPromise({
      try: async (signal) => read(await fetch(url, { redirect: "error", ...init, signal })),
      catch: (cause) => new SendFailed({ cause })
    })

  const headers = (message?: RpcMessage): Headers => {
    const all = new Headers({ accept: "application/json, text/event-stream" })
    if (token !== undefined) all.set("authorization", `Bearer ${token}`)
    if (session !== undefined) all.set("mcp-session-id", session)
    if (message === undefined || message.kind === "response") {
      if (version !== undefined) all.set("mcp-protocol-version", version)
      return all
    }
    const stateless = requestedVersion(message.params)
    const spoken = stateless ?? version
    if (spoken !== undefined) all.set("mcp-protocol-version", spoken)
    if (stateless !== undefined) {
      all.set("mcp-method", message.method)
      const member = NAMES[message.method]
      const name = member === undefined || !isObject(message.params) ? undefined : message.params[member]
      if (typeof name === "string") all.set("mcp-name", headerValue(name))
    }
    return all
  }

  /** Takes from the response to `initialize` what later requests have to send. */
  const learn = (text: string): void => {
    const message: unknown = JSON.parse(text)
    if (!isObject(message) || message["id"] !== initializing || !isObject(message["result"])) return
    const agreed = message["result"]["protocolVersion"]
    if (typeof agreed === "string") version = agreed
    initializing = undefined
  }

  const deliver = async (response: Response): Promise<void> => {
    for await (const text of messagesOf(response)) {
      if (initializing !== undefined) learn(text)
      await onMessage(text)
    }
  }

  // Tells a server with sessions; it may not support it.
  yield* Effect.addFinalizer(() =>
    session === undefined
      ? Effect.void
      : exchange({ method: "DELETE", headers: headers() }, async ({ body }) => body?.cancel()).pipe(
          Effect.timeoutOption(CLOSE_MILLIS),
          Effect.ignore
        )
  )
  const running = yield* FiberMap.make<RpcId, void, SendFailed>()
  const listening = yield* FiberHandle.make()

  /** Follows the server's own requests and notifications. A server may have no such stream. */
  const listen = Effect.gen(function* () {
    for (let delay = FIRST_DELAY_MILLIS; ; delay = Math.min(delay * 2, MAX_DELAY_MILLIS)) {
      const followed = yield* Effect.result(
        exchange({ headers: headers(), ...patient }, async (response) => {
          await (response.ok ? deliver(response) : response.body?.cancel())
          return response.ok
        })
      )
      if (Result.isFailure(followed))
        log(`the server's stream of notifications: ${String(followed.failure.cause)}`)
      else if (!followed.success) return
      else delay = FIRST_DELAY_MILLIS
      yield* Effect.sleep(delay)
    }
  })

  const postOnce = Effect.fnUntraced(function* (
    message: RpcMessage,
    additional: Readonly<Record<string, string>> = {}
  ) {
    const hadSession = session !== undefined
    const all = headers(message)
    for (const [name, value] of Object.entries(additional)) all.set(name, value)
    all.set("content-type", "application/json")
    const init = {
      method: "POST",
      headers: all,
      body: forwardedMessage(message),
      // Others hold up the messages after them.
      ...(message.kind === "request" && SLOW.has(message.method) ? patient : {})
    }
    yield* exchange(init, async (response) => {
      session = response.headers.get("mcp-session-id") ?? session
      const { status } = response
      const isRpc = /^(application\/json|text\/event-stream)/.test(response.headers.get("content-type") ?? "")
      if (isRpc && message.kind === "request" && status === 400) {
        // The answer to the request, or one to a request that the server did not take.
        for await (const text of messagesOf(response)) {
          if (parseMessage(text).kind !== "invalid") await onMessage(text)
          else
            throw new (hadSession ? SessionLost : NotExecuted)(`the MCP server refused it${refusalOf(text)}`)
        }
        return
      }
      if (!response.ok) {
        await response.body?.cancel()
        if (status === 404 && hadSession) throw new SessionLost("the MCP server no longer knows the session")
        throw new (isRefusal(status) ? NotExecuted : Error)(
          status === 401 && token === undefined
            ? "the MCP server demands a token (status 401): set MCP_SERVER_TOKEN to one, or use --server-token-file"
            : `the MCP server answered with status ${status}${status === 401 ? ": it does not accept the token of MCP_SERVER_TOKEN or --server-token-file" : ""}`
        )
      }
      await deliver(response)
    })
    if (message.kind === "notification" && message.method === "notifications/initialized")
      yield* FiberHandle.run(listening, listen, { onlyIfMissing: true })
  })

  /** Begins a new session after the server has lost the one before. */
  const renew = Effect.fnUntraced(function* (request: RpcRequest, lost: string | undefined) {
    // Another request has begun one meanwhile.
    if (session !== lost) return
    const before = { session, version }
    session = undefined
    version = undefined
    initializing = RENEWAL_ID
    yield* Effect.andThen(
      postOnce({ ...request, id: RENEWAL_ID }),
      postOnce({ kind: "notification", method: "notifications/initialized", params: undefined })
    ).pipe(
      // The next request tries again.
      Effect.onError(() => Effect.sync(() => void ({ session, version } = before)))
    )
    log("the server no longer knew the session: another one was begun")
    onRenewed()
  })

  /** Waits for a renewal that is under way, and confirms a message for the session that it is sent in, which is returned. */
  const prepare = Effect.fnUntraced(function* (confirm: Effect.Effect<void, SendFailed>) {
    for (let lost = 0; lost < MAX_LOST_SESSIONS; lost++) {
      const current = yield* renewal.withPermits(1)(Effect.sync(() => session))
      yield* confirm
      if (session === current) return current
    }
    return yield* new SendFailed({
      cause: new NotExecuted("the MCP server has lost one session after the other")
    })
  })

  const post = Effect.fnUntraced(function* (
    message: RpcMessage,
    { confirm = Effect.void, headers: additional }: SendOptions = {}
  ) {
    const sentWith = yield* prepare(confirm)
    const posted = yield* Effect.result(postOnce(message, additional))
    if (Result.isSuccess(posted)) return
    const { failure } = posted
    const isLost = failure.cause instanceof SessionLost && message.kind !== "response"
    if (!isLost || initialize === undefined || message === initialize) return yield* failure
    yield* renewal.withPermits(1)(renew(initialize, sentWith))
    yield* prepare(confirm)
    yield* postOnce(message, additional)
  })

  /** A failure of a request, in words: `fetch` fails with a cause if it got no response. */
  const described = (failure: SendFailed): SendFailed => {
    const error = failure.cause
    if (!(error instanceof Error && error.cause instanceof Error)) return failure
    const text = describeFetchFailure(error, url, "--url").replace(/\.$/, "")
    const cause = new (NOT_SENT.test(reasonOf(error)) ? NotExecuted : Error)(text, { cause: error })
    return new SendFailed({ cause })
  }

  return {
    send: Effect.fnUntraced(function* (message: RpcMessage, sendOptions?: SendOptions) {
      if (message.kind === "notification" && message.method === "notifications/cancelled") {
        const id = isObject(message.params) ? message.params["requestId"] : undefined
        // In the stateless protocol, the end of the request cancels it.
        if ((typeof id === "string" || typeof id === "number") && version === undefined)
          yield* FiberMap.remove(running, id)
      }
      if (message.kind !== "request") return yield* post(message, sendOptions)
      if (message.method === "initialize") {
        initialize = message
        initializing = message.id
      }
      const posting = yield* FiberMap.run(running, message.id, post(message, sendOptions))
      yield* Effect.mapError(Fiber.join(posting), described)
      return yield* new SendFailed({ cause: new Error("it ended its response without an answer") })
    })
  }
})
