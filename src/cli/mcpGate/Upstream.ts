import type { RpcMessage } from "../mcp/jsonRpc.ts"

/** A message that the server has certainly not executed, such as one that it refused or that did not reach it. */
export class NotExecuted extends Error {}

/** The MCP server behind the gate. */
export interface Upstream {
  /**
   * Sends a message. Rejects if no response to it will come any more, with `NotExecuted` if that is certain; a response that came before
   * counts. `headers`: additional ones of the HTTP request, if it is one.
   */
  readonly send: (message: RpcMessage, headers?: Readonly<Record<string, string>>) => Promise<void>
  /** Ends the connection, and the server's process if it is one. */
  readonly close: () => Promise<void>
}

export interface UpstreamEvents {
  /** A message of the server, as text. Messages wait for the promise of the one before. */
  readonly onMessage: (text: string) => Promise<void>
  /** The server is gone, which `close` causes too. Called once, with a sentence about what happened. */
  readonly onEnd: (reason: string) => void
  /** The server began a new session, since it no longer knew the one before: its tools may be others. */
  readonly onRenewed: () => void
  readonly log: (line: string) => void
}
