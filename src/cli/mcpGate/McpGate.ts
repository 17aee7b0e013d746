import { readdir } from "node:fs/promises"
import path from "node:path"
import { toJson } from "../../adapters/toolGate/recordable.ts"
import type { CountersignClient } from "../../client/connect.ts"
import { capabilitiesOf } from "../mcp/protocol.ts"
import {
  formatMessage,
  isObject,
  METHOD_NOT_FOUND,
  parseStrictMessage,
  type RpcRequest,
  SERVER_FAILED
} from "../mcp/jsonRpc.ts"
import { makeClientRequests } from "./ClientRequests.ts"
import { makeDefinitionQuestions } from "./DefinitionQuestions.ts"
import { openDefinitions } from "./Definitions.ts"
import { describe } from "./describe.ts"
import { digestOf } from "./digest.ts"
import { makeDirectory } from "./durableFiles.ts"
import { makeGovernedCalls } from "./GovernedCalls.ts"
import { openServerLink, type ServerLink } from "./ServerLink.ts"
import { makeServerTools } from "./ServerTools.ts"
import { makeToolCalls } from "./toolCalls.ts"
import type { Upstream, UpstreamEvents } from "./Upstream.ts"

/** How long the response of a call is waited for that the client has cancelled. */
const CANCELLED_MILLIS = 5_000

/** Time for requests that wait for no person to end after the client has closed the gate's input. */
const DRAIN_MILLIS = 10_000

/** How long the end of a gate waits for outcomes that are being reported. */
const REPORTS_MILLIS = 10_000

/** Begins the methods of all notifications of the protocol. */
const NOTIFICATION = "notifications/"

/** The requests of clients in all versions of the protocol. A server could take another one for a call of a tool, such as `Tools/Call`. */
const METHODS: ReadonlySet<string> = new Set([
  "completion/complete",
  "initialize",
  "logging/setLevel",
  "ping",
  "prompts/get",
  "prompts/list",
  "resources/list",
  "resources/read",
  "resources/subscribe",
  "resources/templates/list",
  "resources/unsubscribe",
  "server/discover",
  "subscriptions/listen",
  "tasks/cancel",
  "tasks/get",
  "tasks/list",
  "tasks/result",
  "tools/call",
  "tools/list"
])

/** Requests whose result is the server's description of itself. */
const DESCRIBING: ReadonlySet<string> = new Set(["initialize", "server/discover"])

/** Most requests at a time. */
const MAX_REQUESTS = 1_000

export interface McpGateOptions {
  readonly client: Pick<CountersignClient, "approvals" | "govern" | "sessions">
  /** The key of the client, from which the key of the request states is derived. */
  readonly key: string
  /** Base URL of the console, for links to approvals. */
  readonly consoleUrl: string
  /** Name of the server in the session's metadata and in questions about its tools. */
  readonly server: string
  /** Before the names of tools in steps, such as `github.`. */
  readonly prefix: string
  /** Action classes by name of the tool, in place of the classes by its annotations. */
  readonly actionClasses: Readonly<Record<string, string>>
  /** A session that exists; undefined: the gate creates one. */
  readonly session: string | undefined
  /** Directory of the gate's files about this server. */
  readonly directory: string
  /** Whether changed definitions of tools are accepted without asking. */
  readonly acceptsChanges: boolean
  /** Connects to the server. */
  readonly connect: (events: UpstreamEvents) => Promise<Upstream>
  /** Sends a line to the client. */
  readonly write: (line: string) => Promise<void>
  readonly log: (line: string) => void
}

export interface McpGate {
  /** A line from the client. */
  readonly receive: (line: string) => Promise<void>
  /** Ends the gate. `drain`: requests that wait for no person are answered first. Idempotent. */
  readonly stop: (options: { readonly drain: boolean }) => Promise<void>
  /** Resolves when the gate has ended: with the reason if the server was the first to go. */
  readonly ended: Promise<string | undefined>
}

/**
 * A gate between an MCP client and a server. It passes every message on, whichever version of the protocol the two speak, except calls of
 * tools, which are governed as steps of a session, and lists of tools, whose definitions are pinned.
 */
export const startMcpGate = async (options: McpGateOptions): Promise<McpGate> => {
  const { log, write } = options
  const stopping = new AbortController()
  let clientName = "unknown"
  /** Whether the client speaks the protocol with `initialize`, in which a server may send notifications at any time. */
  let isInitialized = false

  const approvalUrl = (approval: string | null): string =>
    `${options.consoleUrl}/approvals/${String(approval)}`
  const requests = makeClientRequests({ write, log })
  const calls = makeGovernedCalls(options, () => clientName)
  const questions = makeDefinitionQuestions({
    calls,
    approvalUrl,
    server: options.server,
    signal: stopping.signal,
    log
  })
  const definitions = path.join(options.directory, "definitions")
  await makeDirectory(definitions)
  const tools = makeServerTools({
    open: async (capabilities) => {
      const name = digestOf(toJson(capabilities)).slice(0, 16)
      const known = await readdir(definitions)
      if (known.length > 0 && !known.includes(name))
        log("the client's capabilities are new: the definitions that the server sends now are trusted anew")
      return openDefinitions({
        directory: path.join(definitions, name),
        acceptsChanges: options.acceptsChanges,
        ask: questions.ask,
        onChange: () => {
          if (isInitialized) requests.notify("notifications/tools/list_changed")
        },
        log
      })
    },
    link: () => link
  })
  const link: ServerLink = await openServerLink({
    connect: options.connect,
    onMessage: write,
    onToolsChanged: tools.expire,
    onEnd: (reason) => {
      if (stopping.signal.aborted) return
      log(reason)
      void stop({ drain: false })
    },
    log
  })
  const callTool = makeToolCalls({ ...options, approvalUrl, requests, calls, tools, link })

  /** Passes a request on, and its response back as it came. */
  const passOn = async (request: RpcRequest): Promise<void> => {
    const response = await link.forward(request)
    if (response.state !== "answered") return requests.fail(request.id, SERVER_FAILED, response.reason)
    const { line, outcome } = response
    const isDescription = DESCRIBING.has(request.method)
    if ("error" in outcome || !(isDescription || request.method === "tools/list")) {
      return requests.answerWith(request.id, line)
    }
    const result = isObject(outcome.result) ? outcome.result : {}
    const shown = isDescription ? await tools.examineServer(result) : await tools.examineList(result)
    await requests.answer(request.id, { result: shown })
  }

  /** Cancels a call. Returns whether the server need not know, since it has not got it. */
  const cancel = (id: unknown): boolean => {
    if (typeof id !== "string" && typeof id !== "number") return false
    const open = requests.findCall(id)
    if (open === undefined) return false
    open.abort.abort(new Error("The client cancelled the call"))
    setTimeout(() => link.abandon(id, "the client cancelled it."), CANCELLED_MILLIS).unref()
    return !open.isSent
  }

  const receive = async (line: string): Promise<void> => {
    const message = parseStrictMessage(line)
    if (message.kind === "invalid") return write(formatMessage({ id: message.id, error: message.error }))
    if (message.kind !== "request") {
      const isCancelled = message.kind === "notification" && message.method === "notifications/cancelled"
      if (isCancelled && isObject(message.params) && cancel(message.params["requestId"])) return
      if (message.kind === "notification" && !message.method.startsWith(NOTIFICATION))
        return log(`the client's message ${JSON.stringify(message.method)} has no id: it is not passed on`)
      return link.send(message)
    }
    const { id, method, params } = message
    // The answer must not be taken for that of the other request, which goes on.
    if (requests.isOpen(id) || link.isOwnId(id)) {
      return log(`the client used the id ${JSON.stringify(id)} twice; the second request is ignored`)
    }
    if (requests.count() >= MAX_REQUESTS)
      return requests.fail(id, SERVER_FAILED, `${MAX_REQUESTS} requests wait already.`)
    if (!METHODS.has(method)) {
      return requests.fail(id, METHOD_NOT_FOUND, `The gate passes on no method ${JSON.stringify(method)}.`)
    }
    requests.begin(message)
    await tools.begin(capabilitiesOf(params))
    if (method === "initialize") {
      isInitialized = true
      const info = isObject(params) ? params["clientInfo"] : undefined
      if (isObject(info) && typeof info["name"] === "string") clientName = info["name"].slice(0, 200)
    }
    requests.track(
      message,
      method === "tools/call" ? callTool(message, requests.beginCall(message)) : passOn(message)
    )
  }

  const end = async (drain: boolean): Promise<void> => {
    const isServerGone = link.endReason() !== undefined
    if (drain) await within(DRAIN_MILLIS, requests.isIdle)
    stopping.abort(new Error("The gate was stopped"))
    for (const [id, open] of requests.calls()) {
      if (open.isSent) continue
      if (isServerGone && requests.isUnanswered(id))
        await requests.fail(id, SERVER_FAILED, `${link.endReason()} The call was not executed.`)
      open.abort.abort(new Error("The gate was stopped"))
    }
    await link.close()
    await within(REPORTS_MILLIS, () => !requests.hasWork() && !calls.hasReports())
    await calls.end(questions.isPending())
  }

  let resolveEnded: (reason: string | undefined) => void
  const ended = new Promise<string | undefined>((resolve) => (resolveEnded = resolve))
  let stopped: Promise<void> | undefined
  const stop: McpGate["stop"] = ({ drain }) => {
    const reason = link.endReason()
    stopped ??= end(drain)
      .catch((error: unknown) => log(`the gate could not end in order: ${describe(error)}`))
      .finally(() => resolveEnded(reason))
    return stopped
  }

  return { receive, stop, ended }
}

const within = async (millis: number, isDone: () => boolean): Promise<void> => {
  for (const until = performance.now() + millis; !isDone() && performance.now() < until;) {
    await new Promise((done) => setTimeout(done, 20))
  }
}
