import { Cause, Deferred, Effect } from "effect"
import { readdir } from "node:fs/promises"
import path from "node:path"
import { toJson } from "../../client/connect/recordable.ts"
import type { CountersignClient } from "../../client/connect.ts"
import { capabilitiesOf } from "../mcp/protocol.ts"
import {
  formatMessage,
  isObject,
  METHOD_NOT_FOUND,
  parseStrictMessage,
  SERVER_FAILED
} from "../mcp/jsonRpc.ts"
import { type ClientRequest, makeClientRequests } from "./ClientRequests.ts"
import { makeDefinitionQuestions } from "./DefinitionQuestions.ts"
import { openDefinitions } from "./Definitions.ts"
import { describe } from "./describe.ts"
import { digestOf } from "./digest.ts"
import { makeDirectory } from "./durableFiles.ts"
import { makeGovernedCalls } from "./GovernedCalls.ts"
import { openServerLink } from "./ServerLink.ts"
import { makeServerTools } from "./ServerTools.ts"
import { makeToolCalls } from "./toolCalls.ts"
import type { Connect } from "./Upstream.ts"

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
  readonly connect: Connect
  /** Sends a line to the client. */
  readonly write: (line: string) => Promise<void>
  readonly log: (line: string) => void
}

export type McpGate = Effect.Success<ReturnType<typeof makeMcpGate>>

/**
 * A gate between an MCP client and a server. It passes every message on, whichever version of the protocol the two speak, except calls of
 * tools, which are governed as steps of a session, and lists of tools, whose definitions are pinned.
 */
export const makeMcpGate = Effect.fnUntraced(function* (options: McpGateOptions) {
  const { log, write } = options
  const stopping = yield* Deferred.make<undefined>()
  const ended = yield* Deferred.make<string | undefined>()
  let isStopped = false
  let clientName = "unknown"
  /** Whether the client speaks the protocol with `initialize`, in which a server may send notifications at any time. */
  let isInitialized = false

  const approvalUrl = (approval: string | null): string =>
    `${options.consoleUrl}/approvals/${String(approval)}`
  const requests = yield* makeClientRequests({ write, log })
  const calls = yield* makeGovernedCalls(options, () => clientName)
  const questions = makeDefinitionQuestions({ calls, approvalUrl, server: options.server, log })
  const link = yield* openServerLink({
    connect: options.connect,
    onMessage: write,
    onEnd: (reason) => {
      if (Deferred.isDoneUnsafe(stopping)) return
      log(reason)
      Effect.runFork(stop({ drain: false }))
    },
    log
  })
  const directory = path.join(options.directory, "definitions")
  yield* Effect.promise(() => makeDirectory(directory))
  const tools = makeServerTools(link, async (capabilities) => {
    const name = digestOf(toJson(capabilities)).slice(0, 16)
    const known = await readdir(directory)
    if (known.length > 0 && !known.includes(name))
      log(
        "the client's capabilities are new: the definitions that the server sends now are trusted without a question"
      )
    return openDefinitions({
      directory: path.join(directory, name),
      acceptsChanges: options.acceptsChanges,
      ask: (change, notify) =>
        Effect.runPromise(Effect.raceFirst(questions.ask(change, notify), Deferred.await(stopping))),
      onChange: () => {
        if (isInitialized) requests.notify("notifications/tools/list_changed")
      },
      log
    })
  })
  const callTool = makeToolCalls({ ...options, approvalUrl, requests, calls, tools, link })

  /** Passes a request on, and its response back as it came. */
  const passOn = Effect.fnUntraced(function* (request: ClientRequest) {
    const { id, method } = request
    request.isSent = true
    const reading = tools.beginReading(request.params)
    const response = yield* link.forward(request)
    if (response.state !== "answered") return yield* requests.fail(id, SERVER_FAILED, response.reason)
    const { line, outcome } = response
    const isDescription = DESCRIBING.has(method)
    if ("error" in outcome || !(isDescription || method === "tools/list"))
      return yield* requests.answerWith(id, line)
    const result = isObject(outcome.result) ? outcome.result : {}
    const shown = yield* isDescription ? tools.examineServer(result) : tools.examineList(result, reading)
    return yield* requests.answer(id, { result: shown })
  })

  /** Cancels a request. Returns whether the server need not know, since it has not got it. */
  const cancel = Effect.fnUntraced(function* (id: unknown) {
    const request = requests.find(id)
    if (request === undefined) return false
    if (!request.isSent) {
      yield* requests.interrupt(request)
      return true
    }
    request.isAnswered = true
    const abandon = Effect.sync(() => link.abandon(request.id, "the client cancelled it."))
    yield* Effect.raceFirst(Effect.delay(abandon, CANCELLED_MILLIS), Deferred.await(stopping)).pipe(
      Effect.forkDetach
    )
    return false
  })

  /** Takes a line from the client. */
  const receive = Effect.fnUntraced(function* (line: string) {
    const message = parseStrictMessage(line)
    if (message.kind === "invalid")
      return yield* Effect.promise(() => write(formatMessage({ id: message.id, error: message.error })))
    if (message.kind !== "request") {
      const isCancelled = message.kind === "notification" && message.method === "notifications/cancelled"
      if (isCancelled && isObject(message.params) && (yield* cancel(message.params["requestId"]))) return
      if (message.kind === "notification" && !message.method.startsWith(NOTIFICATION))
        return log(`the client's message ${JSON.stringify(message.method)} has no id: it is not passed on`)
      return yield* link.send(message)
    }
    const { id, method, params } = message
    // The answer must not be taken for that of the other request, which goes on.
    if (requests.find(id) !== undefined || link.isOwnId(id))
      return log(`the client used the id ${JSON.stringify(id)} twice; the second request is ignored`)
    if (requests.count() >= MAX_REQUESTS)
      return yield* requests.fail(id, SERVER_FAILED, `${MAX_REQUESTS} requests wait already.`)
    if (!METHODS.has(method)) {
      const text = `The gate passes on no method ${JSON.stringify(method)}.`
      return yield* requests.fail(id, METHOD_NOT_FOUND, text)
    }
    const request = requests.begin(message)
    yield* tools.begin(capabilitiesOf(params))
    if (method === "initialize") {
      isInitialized = true
      const info = isObject(params) ? params["clientInfo"] : undefined
      if (isObject(info) && typeof info["name"] === "string") clientName = info["name"].slice(0, 200)
    }
    yield* requests.start(request, method === "tools/call" ? callTool(request) : passOn(request))
  })

  const end = Effect.fnUntraced(function* (drain: boolean) {
    const serverEnd = link.endReason()
    if (drain) yield* Effect.timeoutOption(requests.drained, DRAIN_MILLIS)
    yield* Deferred.succeed(stopping, undefined)
    for (const request of requests.unsent()) {
      if (serverEnd !== undefined)
        yield* requests.fail(request.id, SERVER_FAILED, `${serverEnd} The call was not executed.`)
      yield* requests.interrupt(request)
    }
    yield* link.close
    yield* Effect.timeoutOption(Effect.andThen(requests.finished, calls.reported), REPORTS_MILLIS)
    yield* calls.end(questions.isPending())
  })

  /** Ends the gate. `drain`: requests that wait for no person are answered first. Idempotent. */
  const stop = ({ drain }: { readonly drain: boolean }): Effect.Effect<void> =>
    Effect.suspend(() => {
      if (isStopped) return Effect.asVoid(Deferred.await(ended))
      isStopped = true
      const reason = link.endReason()
      return end(drain).pipe(
        Effect.catchCause((cause) =>
          Effect.sync(() => log(`the gate could not end in order: ${describe(Cause.squash(cause))}`))
        ),
        Effect.andThen(Deferred.succeed(ended, reason)),
        // The end goes on if its caller is interrupted.
        Effect.forkDetach,
        Effect.andThen(Deferred.await(ended)),
        Effect.asVoid
      )
    })

  return {
    receive,
    stop,
    /** Waits for the end: succeeds with the reason if the server was the first to go. */
    ended: Deferred.await(ended)
  }
})
