import {
  type JsonObject,
  parseRelayed,
  type RpcId,
  type RpcMessage,
  type RpcOutcome,
  type RpcRequest
} from "../mcp/jsonRpc.ts"
import { describe } from "./describe.ts"
import { NotExecuted, type Upstream, type UpstreamEvents } from "./Upstream.ts"

/** Begins the ids of the gate's own requests to the server. */
const OWN_ID = "countersign-gate-"

/** How the server answered, and its message as a line; or why it did not: `refused` if it has certainly not executed the request. */
export type ServerResponse =
  | { readonly state: "answered"; readonly outcome: RpcOutcome; readonly line: string }
  | { readonly state: "refused"; readonly reason: string }
  | { readonly state: "lost"; readonly reason: string }

/** The connection to the server, with the requests that it has not answered. */
export interface ServerLink {
  /** Sends a request, and waits for its response. Never rejects. */
  readonly forward: (
    request: RpcRequest,
    headers?: Readonly<Record<string, string>>
  ) => Promise<ServerResponse>
  /** `forward` with a request of the gate. */
  readonly request: (method: string, params: JsonObject) => Promise<ServerResponse>
  /** Whether a request of the client would have the id of one of the gate. */
  readonly isOwnId: (id: RpcId) => boolean
  /** Waits no longer for the response to a request. */
  readonly abandon: (id: RpcId, reason: string) => void
  /** Sends a message that has no response. */
  readonly send: (message: RpcMessage) => Promise<void>
  /** Why the server has ended; undefined while it runs. */
  readonly endReason: () => string | undefined
  readonly close: () => Promise<void>
}

export interface ServerLinkOptions {
  readonly connect: (events: UpstreamEvents) => Promise<Upstream>
  /** The server sent a request or a notification, which is for the client: its line. */
  readonly onMessage: (line: string) => Promise<void>
  /** The server's tools have changed. */
  readonly onToolsChanged: () => void
  /** The server has ended. */
  readonly onEnd: (reason: string) => void
  readonly log: (line: string) => void
}

export const openServerLink = async ({
  connect,
  log,
  onEnd,
  onMessage,
  onToolsChanged
}: ServerLinkOptions): Promise<ServerLink> => {
  const forwarded = new Map<RpcId, (response: ServerResponse) => void>()
  let endReason: string | undefined
  let ownRequests = 0

  const upstream = await connect({
    onMessage: async (text) => {
      const { line, message } = parseRelayed(text)
      if (message.kind === "invalid") return log(`the server sent no message: ${message.error.message}`)
      if (message.kind === "notification" && message.method === "notifications/tools/list_changed")
        onToolsChanged()
      if (message.kind !== "response") return onMessage(line)
      // A response to a request that was not sent, or was answered before, is dropped.
      forwarded.get(message.id)?.({ state: "answered", outcome: message.outcome, line })
    },
    onEnd: (reason) => {
      endReason = reason
      for (const resolve of forwarded.values()) resolve({ state: "lost", reason })
      onEnd(reason)
    },
    onRenewed: onToolsChanged,
    log
  })

  const forward: ServerLink["forward"] = (message, headers) =>
    new Promise((done) => {
      if (endReason !== undefined) return done({ state: "lost", reason: endReason })
      const resolve = (response: ServerResponse) => {
        if (forwarded.get(message.id) === resolve) forwarded.delete(message.id)
        done(response)
      }
      forwarded.set(message.id, resolve)
      upstream
        .send(message, headers)
        .catch((error: unknown) =>
          resolve(
            error instanceof NotExecuted
              ? { state: "refused", reason: `${error.message}.` }
              : { state: "lost", reason: endReason ?? `the MCP server failed: ${describe(error)}.` }
          )
        )
    })

  return {
    forward,
    request: (method, params) =>
      forward({ kind: "request", id: `${OWN_ID}${++ownRequests}`, method, params }),
    isOwnId: (id) => typeof id === "string" && id.startsWith(OWN_ID),
    abandon: (id, reason) => forwarded.get(id)?.({ state: "lost", reason }),
    send: (message) =>
      upstream
        .send(message)
        .catch((error: unknown) => log(`the server cannot be reached: ${describe(error)}`)),
    endReason: () => endReason,
    close: () => upstream.close()
  }
}
