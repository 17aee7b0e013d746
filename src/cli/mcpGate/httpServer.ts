import { createParser } from "eventsource-parser"
import { reasonOf } from "../../client/ServiceUnreachable.ts"
import {
  forwardedMessage,
  isObject,
  parseJson,
  parseMessage,
  type RpcMessage,
  type RpcRequest
} from "../mcp/jsonRpc.ts"
import { requestedVersion } from "../mcp/protocol.ts"
import { describeFetchFailure } from "../serviceFailure.ts"
import { MAX_MESSAGE_BYTES } from "../mcp/readLines.ts"
import { headerValue } from "./paramHeaders.ts"
import { NotExecuted, type Upstream, type UpstreamEvents } from "./Upstream.ts"

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

/** Statuses by which a server has not executed a request: the client's errors, but for one that a proxy sends while it waits for the server. */
const isRefusal = (status: number): boolean => status >= 400 && status < 500 && status !== 408

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

/** What a refusal says that names no request, such as of a server that has lost the session. */
const refusalOf = (text: string): string => {
  const body = parseJson(text)?.value
  const error = isObject(body) ? body["error"] : undefined
  return isObject(error) && typeof error["message"] === "string" ? `: ${error["message"].slice(0, 200)}` : ""
}

/**
 * Connects to an MCP server by streamable HTTP: each message is a request. A request is sent once, or once more if the server has refused it
 * because it no longer knows the session, as after its restart.
 */
export const connectHttpServer = ({
  log,
  onEnd,
  onMessage,
  onRenewed,
  token,
  url
}: HttpServerOptions): Upstream => {
  const closing = new AbortController()
  /** Aborts requests that the client has cancelled. */
  const running = new Map<string | number, AbortController>()
  let session: string | undefined
  let version: string | undefined
  let initializing: string | number | undefined
  /** The client's request that began its session. */
  let initialize: RpcRequest | undefined
  let renewing: Promise<void> | undefined
  let isListening = false

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

  /** Follows the server's own requests and notifications. A server may have no such stream. */
  const listen = async (): Promise<void> => {
    if (isListening) return
    isListening = true
    try {
      await follow()
    } finally {
      isListening = false
    }
  }

  const follow = async (): Promise<void> => {
    for (let attempt = 0; !closing.signal.aborted; attempt++) {
      try {
        const response = await fetch(url, {
          headers: headers(),
          redirect: "error",
          signal: closing.signal
        })
        if (!response.ok) {
          await response.body?.cancel()
          return
        }
        await deliver(response)
        attempt = 0
      } catch (error) {
        if (closing.signal.aborted) return
        log(`the server's stream of notifications: ${String(error)}`)
      }
      const delay = Math.min(FIRST_DELAY_MILLIS * 2 ** attempt, MAX_DELAY_MILLIS)
      await new Promise<void>((done) => {
        const timer = setTimeout(done, delay)
        closing.signal.addEventListener("abort", () => {
          clearTimeout(timer)
          done()
        })
      })
    }
  }

  /** Begins a new session after the server has lost the one before. Requests that it has refused meanwhile wait for one renewal. */
  const renew = (request: RpcRequest): Promise<void> => {
    renewing ??= begin(request).finally(() => (renewing = undefined))
    return renewing
  }

  const begin = async (request: RpcRequest): Promise<void> => {
    const before = { session, version }
    session = undefined
    version = undefined
    initializing = RENEWAL_ID
    try {
      await postOnce({ ...request, id: RENEWAL_ID }, {}, closing.signal)
      await postOnce(
        { kind: "notification", method: "notifications/initialized", params: undefined },
        {},
        closing.signal
      )
    } catch (error) {
      // The next request tries again.
      session = before.session
      version = before.version
      throw error
    }
    log("the server no longer knew the session: another one was begun")
    onRenewed()
  }

  const post = async (
    message: RpcMessage,
    additional: Readonly<Record<string, string>>,
    signal: AbortSignal
  ): Promise<void> => {
    await renewing?.catch(() => undefined)
    const sentWith = session
    try {
      await postOnce(message, additional, signal)
    } catch (error) {
      const isLost = error instanceof SessionLost && message.kind !== "response"
      if (!isLost || initialize === undefined || message === initialize) throw error
      // Without a renewal under way, another session than that of the request is the renewed one.
      if (renewing !== undefined || session === sentWith) await renew(initialize)
      await postOnce(message, additional, signal)
    }
  }

  const postOnce = async (
    message: RpcMessage,
    additional: Readonly<Record<string, string>>,
    signal: AbortSignal
  ): Promise<void> => {
    const hadSession = session !== undefined
    const all = headers(message)
    for (const [name, value] of Object.entries(additional)) all.set(name, value)
    all.set("content-type", "application/json")
    const response = await fetch(url, {
      method: "POST",
      headers: all,
      body: forwardedMessage(message),
      redirect: "error",
      signal
    })
    session = response.headers.get("mcp-session-id") ?? session
    const { status } = response
    const isRpc = /^(application\/json|text\/event-stream)/.test(response.headers.get("content-type") ?? "")
    if (isRpc && message.kind === "request" && status === 400) {
      // The answer to the request, or one to a request that the server did not take.
      for await (const text of messagesOf(response)) {
        if (parseMessage(text).kind !== "invalid") await onMessage(text)
        else throw new (hadSession ? SessionLost : NotExecuted)(`the MCP server refused it${refusalOf(text)}`)
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
    if (message.kind === "notification" && message.method === "notifications/initialized") void listen()
  }

  const send: Upstream["send"] = async (message, additional = {}) => {
    if (message.kind === "notification" && message.method === "notifications/cancelled") {
      const id = isObject(message.params) ? message.params["requestId"] : undefined
      // In the stateless protocol, the end of the request cancels it.
      if ((typeof id === "string" || typeof id === "number") && version === undefined)
        running.get(id)?.abort()
    }
    if (message.kind !== "request") return post(message, additional, closing.signal)
    if (message.method === "initialize") {
      initialize = message
      initializing = message.id
    }
    const aborting = new AbortController()
    running.set(message.id, aborting)
    try {
      await post(message, additional, AbortSignal.any([closing.signal, aborting.signal]))
    } catch (error) {
      // `fetch` fails with a cause if it got no response.
      if (!(error instanceof Error && error.cause instanceof Error)) throw error
      throw new (NOT_SENT.test(reasonOf(error)) ? NotExecuted : Error)(
        describeFetchFailure(error, url, "--url").replace(/\.$/, ""),
        { cause: error }
      )
    } finally {
      running.delete(message.id)
    }
    throw new Error("it ended its response without an answer")
  }

  return {
    send,
    close: async () => {
      if (closing.signal.aborted) return
      closing.abort(new Error("the gate was stopped"))
      if (session !== undefined) {
        // Tells a server with sessions; it may not support it.
        await fetch(url, {
          method: "DELETE",
          headers: headers(),
          redirect: "error",
          signal: AbortSignal.timeout(2_000)
        }).then(
          (response) => response.body?.cancel(),
          () => undefined
        )
      }
      onEnd("The connection was closed.")
    }
  }
}
