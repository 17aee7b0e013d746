import { Cause, Deferred, Effect, Exit, Scope } from "effect"
import {
  type JsonObject,
  parseRelayed,
  type RpcId,
  type RpcMessage,
  type RpcOutcome,
  type RpcRequest
} from "../mcp/jsonRpc.ts"
import { describe } from "./describe.ts"
import { type Connect, NotExecuted, SendFailed, type SendOptions } from "./Upstream.ts"

/** Begins the ids of the gate's own requests to the server. */
const OWN_ID = "countersign-gate-"

const CLOSED = "The connection was closed."

/** How the server answered, and its message as a line; or why it did not: `refused` if it has certainly not executed the request. */
export type ServerResponse =
  | { readonly state: "answered"; readonly outcome: RpcOutcome; readonly line: string }
  | { readonly state: "refused"; readonly reason: string }
  | { readonly state: "lost"; readonly reason: string }

export interface ServerLinkOptions {
  readonly connect: Connect
  /** The server sent a request or a notification, which is for the client: its line. */
  readonly onMessage: (line: string) => Promise<void>
  /** The server has ended. */
  readonly onEnd: (reason: string) => void
  readonly log: (line: string) => void
}

export type ServerLink = Effect.Success<ReturnType<typeof openServerLink>>

/** The connection to the server, with the requests that it has not answered. */
export const openServerLink = Effect.fnUntraced(function* (options: ServerLinkOptions) {
  const { log, onMessage } = options
  const waiting = new Map<RpcId, Deferred.Deferred<ServerResponse>>()
  let endReason: string | undefined
  let listChanges = 0
  let ownRequests = 0

  const resolve = (response: Deferred.Deferred<ServerResponse> | undefined, value: ServerResponse): void => {
    if (response !== undefined) Deferred.doneUnsafe(response, Effect.succeed(value))
  }

  const loseAll = (reason: string): void => {
    endReason ??= reason
    for (const response of waiting.values()) resolve(response, { state: "lost", reason })
  }

  const scope = yield* Scope.fork(yield* Effect.scope)
  const connecting = options.connect({
    onMessage: async (text) => {
      const { line, message } = parseRelayed(text)
      if (message.kind === "invalid") return log(`the server sent no message: ${message.error.message}`)
      if (message.kind === "notification" && message.method === "notifications/tools/list_changed")
        listChanges++
      if (message.kind !== "response") return onMessage(line)
      // A response to a request that was not sent, or was answered before, is dropped.
      resolve(waiting.get(message.id), { state: "answered", outcome: message.outcome, line })
    },
    onEnd: (reason) => {
      loseAll(reason)
      options.onEnd(reason)
    },
    onRenewed: () => void listChanges++,
    log
  })
  const upstream = yield* Scope.provide(connecting, scope)

  const errorOf = (cause: Cause.Cause<SendFailed>): unknown => {
    const error = Cause.squash(cause)
    return error instanceof SendFailed ? error.cause : error
  }

  const failureOf = (cause: Cause.Cause<SendFailed>): ServerResponse => {
    const error = errorOf(cause)
    if (error instanceof NotExecuted) return { state: "refused", reason: `${error.message}.` }
    if (Cause.hasInterruptsOnly(cause)) return { state: "lost", reason: endReason ?? CLOSED }
    return { state: "lost", reason: endReason ?? `the MCP server failed: ${describe(error)}.` }
  }

  /** Sends a request, and waits for its response. */
  const forward = (message: RpcRequest, sendOptions?: SendOptions): Effect.Effect<ServerResponse> =>
    Effect.suspend(() => {
      if (endReason !== undefined) return Effect.succeed({ state: "lost" as const, reason: endReason })
      const response = Deferred.makeUnsafe<ServerResponse>()
      waiting.set(message.id, response)
      const sending = upstream.send(message, sendOptions).pipe(
        // A response that came before a failure counts.
        Effect.catchCause((cause) => Effect.sync(() => resolve(response, failureOf(cause)))),
        Effect.andThen(Deferred.await(response))
      )
      return Effect.raceFirst(sending, Deferred.await(response)).pipe(
        Effect.ensuring(Effect.sync(() => waiting.delete(message.id)))
      )
    })

  return {
    forward,
    /** `forward` with a request of the gate. */
    request: (method: string, params: JsonObject) =>
      forward({ kind: "request", id: `${OWN_ID}${++ownRequests}`, method, params }),
    /** Whether a request of the client would have the id of one of the gate. */
    isOwnId: (id: RpcId): boolean => typeof id === "string" && id.startsWith(OWN_ID),
    /** Waits no longer for the response to a request. */
    abandon: (id: RpcId, reason: string): void => resolve(waiting.get(id), { state: "lost", reason }),
    /** Sends a message that has no response. */
    send: (message: RpcMessage): Effect.Effect<void> =>
      Effect.catchCause(upstream.send(message), (cause) =>
        Effect.sync(() => log(`the server cannot be reached: ${describe(errorOf(cause))}`))
      ),
    /** How often the server's tools have changed. */
    listChanges: (): number => listChanges,
    /** Why the server has ended; undefined while it runs. */
    endReason: (): string | undefined => endReason,
    /** Ends the connection. */
    close: Effect.andThen(
      Scope.close(scope, Exit.void),
      Effect.sync(() => loseAll(CLOSED))
    )
  }
})
