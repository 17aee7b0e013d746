import { VERSION } from "../../domain/Version.ts"
import {
  formatMessage,
  INTERNAL_ERROR,
  INVALID_PARAMS,
  isObject,
  type JsonObject,
  METHOD_NOT_FOUND,
  parseMessage,
  type RpcError,
  type RpcId,
  type RpcRequest
} from "./jsonRpc.ts"
import { isStateless, requestedVersion, SERVER_INFO_KEY, STATELESS_VERSION, textResult } from "./protocol.ts"

/** Versions of the protocol with `initialize`, the newest first. Their requests for tools do not differ. */
const INITIALIZE_VERSIONS = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]

const UNSUPPORTED_VERSION = -32_022

/** Most calls at a time. */
const MAX_CALLS = 16

/** A tool of a server. */
export interface ServedTool {
  readonly name: string
  readonly title: string
  readonly description: string
  /** JSON Schema of the arguments. */
  readonly inputSchema: JsonObject
  readonly annotations: {
    readonly readOnlyHint: boolean
    readonly destructiveHint?: boolean
    readonly idempotentHint?: boolean
  }
  /** Returns a text for the model. Rejects with an error whose message is one. */
  readonly call: (args: JsonObject, signal: AbortSignal) => Promise<string>
}

export interface ToolServerOptions {
  readonly name: string
  /** Instructions for the model that uses the tools. */
  readonly instructions: string
  readonly tools: ReadonlyArray<ServedTool>
  readonly write: (line: string) => Promise<void>
}

export interface ToolServer {
  /** A line from the client. */
  readonly receive: (line: string) => Promise<void>
  /** Resolves when all calls have ended. */
  readonly idle: () => Promise<void>
}

class Refused extends Error {
  readonly error: RpcError
  constructor(error: RpcError) {
    super(error.message)
    this.error = error
  }
}

/** An MCP server of tools alone. It keeps nothing of its client, so it serves every version of the protocol alike. */
export const makeToolServer = ({ instructions, name, tools, write }: ToolServerOptions): ToolServer => {
  const serverInfo = { name, version: VERSION }
  const capabilities = { tools: {} }
  const running = new Map<RpcId, AbortController>()
  const work = new Set<Promise<void>>()

  const callTool = async (request: RpcRequest): Promise<JsonObject> => {
    const params = isObject(request.params) ? request.params : {}
    const args = params["arguments"] ?? {}
    const tool = tools.find((tool) => tool.name === params["name"])
    if (tool === undefined || !isObject(args)) {
      const message = tool === undefined ? "There is no such tool." : "The arguments must be an object."
      throw new Refused({ code: INVALID_PARAMS, message })
    }
    if (running.size >= MAX_CALLS) {
      throw new Refused({ code: INTERNAL_ERROR, message: `${MAX_CALLS} calls run already.` })
    }
    const aborting = new AbortController()
    running.set(request.id, aborting)
    const options = { isStateless: isStateless(request.params) }
    try {
      return textResult(await tool.call(args, aborting.signal), { ...options, isError: false })
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error)
      return textResult(message, { ...options, isError: true })
    } finally {
      running.delete(request.id)
    }
  }

  const answer = async (request: RpcRequest): Promise<JsonObject> => {
    const { method, params } = request
    const version = requestedVersion(params)
    if (version !== undefined && version !== STATELESS_VERSION) {
      throw new Refused({
        code: UNSUPPORTED_VERSION,
        message: `Unsupported protocol version: ${version}`,
        data: { supported: [STATELESS_VERSION], requested: version }
      })
    }
    const complete = (result: JsonObject) =>
      version === undefined
        ? result
        : {
            resultType: "complete",
            ttlMs: 0,
            cacheScope: "private",
            ...result,
            _meta: { [SERVER_INFO_KEY]: serverInfo }
          }
    switch (method) {
      case "initialize": {
        const asked = isObject(params) ? params["protocolVersion"] : undefined
        const protocolVersion = INITIALIZE_VERSIONS.find((known) => known === asked) ?? INITIALIZE_VERSIONS[0]
        return { protocolVersion, capabilities, serverInfo, instructions }
      }
      case "server/discover":
        return complete({ supportedVersions: [STATELESS_VERSION], capabilities, instructions })
      case "ping":
        return {}
      case "tools/list":
        return complete({ tools: tools.map(({ call: _, ...tool }) => tool) })
      case "tools/call":
        return callTool(request)
      default:
        throw new Refused({ code: METHOD_NOT_FOUND, message: `Method not found: ${method}` })
    }
  }

  const serve = async (request: RpcRequest): Promise<void> => {
    const { id } = request
    try {
      await write(formatMessage({ id, result: await answer(request) }))
    } catch (error) {
      const refusal =
        error instanceof Refused ? error.error : { code: INTERNAL_ERROR, message: "The server failed." }
      await write(formatMessage({ id, error: refusal }))
    }
  }

  return {
    receive: async (line) => {
      const message = parseMessage(line)
      if (message.kind === "invalid") return write(formatMessage({ id: message.id, error: message.error }))
      if (message.kind === "request") {
        const served = serve(message).finally(() => work.delete(served))
        work.add(served)
      } else if (
        message.kind === "notification" &&
        message.method === "notifications/cancelled" &&
        isObject(message.params)
      ) {
        const id = message.params["requestId"]
        if (typeof id === "string" || typeof id === "number") running.get(id)?.abort()
      }
      return undefined
    },
    idle: async () => {
      await Promise.all(work)
    }
  }
}
