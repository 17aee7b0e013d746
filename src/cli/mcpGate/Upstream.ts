import type { RpcMessage } from "../mcp/jsonRpc.ts"

/** The MCP server behind the gate. */
export interface Upstream {
  /**
   * Sends a message. Rejects if no response to it will come any more; a response that came before counts. `headers`: additional ones of the
   * HTTP request, if it is one.
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
  readonly log: (line: string) => void
}
