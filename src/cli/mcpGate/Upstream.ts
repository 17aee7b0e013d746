import { Data, type Effect, type Scope } from "effect"
import type { RpcMessage } from "../mcp/jsonRpc.ts"

/** A message that the server has certainly not executed, such as one that it refused or that did not reach it. */
export class NotExecuted extends Error {}

/** No response to a message will come any more. Its cause is `NotExecuted` if the server has certainly not executed it. */
export class SendFailed extends Data.TaggedError("SendFailed")<{ readonly cause: unknown }> {}

/** How a message is sent. */
export interface SendOptions {
  /** Additional headers of the HTTP request, if it is one. */
  readonly headers?: Readonly<Record<string, string>>
  /** Runs directly before each time the message is sent. If it fails, the message is not sent. */
  readonly confirm?: Effect.Effect<void, SendFailed>
}

/** The MCP server behind the gate. Its scope ends the connection, and the server's process if it is one. */
export interface Upstream {
  /** Sends a message. Fails if no response to it will come any more; a response that came before counts. */
  readonly send: (message: RpcMessage, options?: SendOptions) => Effect.Effect<void, SendFailed>
}

/** Connects to a server. Dies if it cannot be started. */
export type Connect = (events: UpstreamEvents) => Effect.Effect<Upstream, never, Scope.Scope>

export interface UpstreamEvents {
  /** A message of the server, as text. Messages wait for the promise of the one before. */
  readonly onMessage: (text: string) => Promise<void>
  /** The server is gone. Called once, with a sentence about what happened. */
  readonly onEnd: (reason: string) => void
  /** The server began a new session, since it no longer knew the one before: its tools may be others. */
  readonly onRenewed: () => void
  readonly log: (line: string) => void
}
