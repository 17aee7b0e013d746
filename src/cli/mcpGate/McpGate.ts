import { randomUUID } from "node:crypto"
import {
  type Allowed,
  type Denied,
  makeToolGate,
  type Pending,
  type ToolCall
} from "../../adapters/toolGate.ts"
import { describeProblem } from "../../adapters/toolGate/messages.ts"
import { toJson } from "../../adapters/toolGate/recordable.ts"
import { isProblem } from "../../client/connect/Problem.ts"
import { sleep } from "../../client/connect/wait.ts"
import type { CountersignClient } from "../../client/connect.ts"
import { isUnavailable } from "../../client/isTransient.ts"
import {
  formatMessage,
  INTERNAL_ERROR,
  INVALID_PARAMS,
  INVALID_REQUEST,
  isObject,
  type JsonObject,
  parseMessage,
  parseStrictMessage,
  type RpcError,
  type RpcId,
  type RpcOutcome,
  type RpcRequest,
  SERVER_FAILED
} from "../mcp/jsonRpc.ts"
import { canOpenUrl, isStateless, metaOf, progressTokenOf, textResult } from "../mcp/protocol.ts"
import { actionClassOf } from "./actionClass.ts"
import {
  callParams,
  endOf,
  isDeclined,
  listOf,
  META_KEY,
  QUESTION_KEY,
  responseFor,
  unknownEnd
} from "./callResults.ts"
import { type ChangedDefinition, openDefinitions } from "./Definitions.ts"
import { digestOf } from "./digest.ts"
import { type GateRun, openRun } from "./GateRun.ts"
import type { CallEnd, CallRecord, Journal, LeftCall } from "./Journal.ts"
import { paramHeaders } from "./paramHeaders.ts"
import { makeStateSealer, type RequestState } from "./requestState.ts"
import type { Upstream, UpstreamEvents } from "./Upstream.ts"

/** The tool of the step that asks about a changed definition, and its action class. */
export const DEFINITION_TOOL = "mcp.tool_definition"
export const DEFINITION_CLASS = "definition"

/** Time between progress notifications. Clients wait a minute by default. */
const PROGRESS_MILLIS = 10_000

/** How long a request waits that followed a link to the approval. Then the client is asked again: it expects no request of minutes. */
const RETRY_WAIT_MILLIS = 25_000

/** A call whose client was shown a link and sent nothing for this time goes on with the next request for the same call. */
const ABANDONED_MILLIS = 60_000

/** How long the response of a call is waited for that the client has cancelled. */
const CANCELLED_MILLIS = 5_000

/** Time for requests that wait for no person to end after the client has closed the gate's input. */
const DRAIN_MILLIS = 10_000

/** How long the end of a gate waits for outcomes that are being reported. */
const REPORTS_MILLIS = 10_000

/** The server's tools are read again before a call if they were read longer ago. */
const LIST_MILLIS = 60_000

/** Delay before the service is asked again about a call that it knows and a person decides. */
const UNREACHABLE_MILLIS = 5_000

/** Most requests at a time. */
const MAX_REQUESTS = 1_000

/** Most pages of a list of tools. */
const MAX_PAGES = 50

/** Begins the ids of the gate's own requests to the server. */
const OWN_ID = "countersign-gate-"

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

/** How the server answered, and its message as it came; or why it did not. */
type ServerResponse =
  | { readonly state: "answered"; readonly outcome: RpcOutcome; readonly text: string }
  | { readonly state: "lost"; readonly reason: string }

/** The run of the gate, once its session is known. */
interface OpenRun {
  readonly journal: Journal
  readonly session: string
}

/** A call that the client waits for. */
interface OpenCall {
  readonly abort: AbortController
  /** Whether it waits for a person. */
  isHeld: boolean
  /** Whether it was sent to the server. */
  isSent: boolean
  /** The schema of its arguments. */
  schema: unknown
}

/** Why a call is not sent that another request may be executing. */
const SENT_BEFORE = "it was sent to the server by another request."

const describe = (error: unknown): string => (error instanceof Error ? error.message : String(error))

const ignore = (): void => undefined

/** Causes of denials after which the same call would be another step. After the others, it is the same one. */
const FINAL_CAUSES: ReadonlySet<string> = new Set([
  "person",
  "rule",
  "timeout",
  "session_closed",
  "executed",
  "refused"
])

/**
 * A gate between an MCP client and a server. It passes every message on, whichever version of the protocol the two speak, except calls of
 * tools, which are governed as steps of a session, and lists of tools, whose definitions are pinned.
 */
export const startMcpGate = async (options: McpGateOptions): Promise<McpGate> => {
  const { client, consoleUrl, log, write } = options
  const sealer = makeStateSealer(options.key)
  const stopping = new AbortController()

  /** Requests of the client that have no response yet. */
  const requests = new Map<RpcId, string>()
  const openCalls = new Map<RpcId, OpenCall>()
  /** Steps that a request of this process works on. */
  const activeSteps = new Set<string>()
  const work = new Set<Promise<void>>()
  const reports = new Set<Promise<void>>()
  let clientName = "unknown"
  /** Whether the client speaks the protocol with `initialize`, in which a server may send notifications at any time. */
  let isInitialized = false
  let isReported = true
  let pendingDefinitions = 0

  const notify = (method: string, params?: JsonObject): void => {
    write(formatMessage(params === undefined ? { method } : { method, params })).catch(ignore)
  }

  const answer = async (id: RpcId, outcome: RpcOutcome): Promise<void> => {
    requests.delete(id)
    await write(formatMessage({ id, ...outcome }))
  }

  const fail = (id: RpcId, code: number, message: string): Promise<void> => {
    const error: RpcError = { code, message }
    return answer(id, { error })
  }

  // The session and the journal.

  const gate = makeToolGate({
    client,
    session: async () => (await run()).session,
    onFault: ({ call, error, operation }) => {
      if (operation === "report") isReported = false
      log(
        `${operation === "ask" ? "no decision about" : "no record of the outcome of"} ${call.tool} (${call.id}): ${describe(error)}`
      )
    }
  })

  const report = (record: CallRecord, end: CallEnd): Promise<void> => {
    const { failure, response } = end
    const call: ToolCall = { id: record.step_id, tool: record.tool, arguments: undefined }
    const reporting = gate
      .report(
        call,
        undefined,
        failure === null
          ? { status: "succeeded", result: "result" in response ? response.result : null }
          : { status: "failed", error: failure }
      )
      .finally(() => reports.delete(reporting))
    reports.add(reporting)
    return reporting
  }

  /** Calls of an earlier process or a cancelled request. The same call goes on with one of them. */
  const leftCalls: Array<LeftCall> = []
  const takeLeft = (matches: (record: CallRecord) => boolean): LeftCall | undefined => {
    const index = leftCalls.findIndex(({ record }) => matches(record))
    return index === -1 ? undefined : leftCalls.splice(index, 1)[0]
  }

  /** Calls whose clients hold a request state: the next request names the step, so that an equal call is another one until then. */
  const carriedCalls = new Map<string, NodeJS.Timeout>()
  const carry = (record: CallRecord): void => {
    const abandon = () => {
      carriedCalls.delete(record.step_id)
      leftCalls.push({ state: "asked", record })
    }
    carriedCalls.set(record.step_id, setTimeout(abandon, ABANDONED_MILLIS).unref())
  }

  /** Says in the journal and to the service that the outcome of a call is unknown. */
  const giveUp = async ({ journal }: GateRun, record: CallRecord, reason: string): Promise<LeftCall> => {
    const end = unknownEnd(reason)
    await journal.ended(record.step_id, end)
    void report(record, end)
    return { state: "ended", record, end }
  }

  /** Opens the run with the calls of the gate before. Rejects if the service cannot be reached. */
  const open = async (): Promise<OpenRun> => {
    opening ??= openRun({
      directory: options.directory,
      client,
      session: options.session,
      metadata: () => ({ gate: "mcp", mcp_server: options.server, mcp_client: clientName }),
      log
    })
    const opened = await opening
    const session = await opened.session()
    for (const left of opened.left) {
      const { record } = left
      // A closed session takes no outcomes, and its approvals are void.
      if (record.session !== session) {
        await opened.journal.forget(record.step_id)
        continue
      }
      log(`${record.tool} (${record.step_id}) was left by the gate before: ${LEFT[left.state]}`)
      if (left.state === "ended") void report(record, left.end)
      leftCalls.push(
        left.state === "interrupted"
          ? await giveUp(opened, record, "the gate was stopped before the server had answered.")
          : left
      )
    }
    return { journal: opened.journal, session }
  }

  // Opened by the first step: a client that only lists tools leaves nothing.
  let opening: Promise<GateRun> | undefined
  let ready: Promise<OpenRun> | undefined
  const run = (): Promise<OpenRun> => {
    ready ??= open().catch((error: unknown) => {
      // The next call tries again.
      ready = undefined
      throw error
    })
    return ready
  }

  const approvalUrl = (approval: string | null): string => `${consoleUrl}/approvals/${String(approval)}`

  /** Waits for the decision about a call that is pending, also while the service is gone. Rejects if the signal is aborted. */
  const waitForPerson = async (call: ToolCall, signal: AbortSignal): Promise<Allowed | Denied | Pending> => {
    for (;;) {
      const verdict = await gate.ask(call, undefined, { signal })
      if (verdict.verdict !== "deny" || verdict.cause !== "unreachable") return verdict
      await sleep(UNREACHABLE_MILLIS, signal)
    }
  }

  // Definitions of tools.

  const askAboutDefinition = async (
    change: ChangedDefinition,
    tell: (question: string) => void
  ): Promise<"approved" | "rejected" | undefined> => {
    const call: ToolCall = {
      id: `definition_${digestOf([change.tool, change.digest]).slice(0, 32)}`,
      tool: DEFINITION_TOOL,
      actionClass: DEFINITION_CLASS,
      arguments: { server: options.server, tool: change.tool, old: change.old, new: change.new }
    }
    const { signal } = stopping
    let verdict = await gate.ask(call, undefined, { signal, wait: false })
    if (verdict.verdict === "pending") {
      const url = approvalUrl(verdict.decision.approval_id)
      tell(`A person is asked to approve it: ${url}`)
      log(`the definition of ${JSON.stringify(change.tool)} waits for a person: ${url}`)
      pendingDefinitions++
      verdict = await waitForPerson(call, signal)
      pendingDefinitions--
    }
    if (verdict.verdict === "allow") {
      await gate.report(call, undefined, { status: "succeeded", result: { accepted: change.digest } })
      return "approved"
    }
    if (verdict.verdict === "pending") return undefined
    if (verdict.cause === "executed") return "approved"
    tell(verdict.message)
    return verdict.cause === "unreachable" || verdict.cause === "refused" ? undefined : "rejected"
  }

  const definitions = await openDefinitions({
    directory: options.directory,
    acceptsChanges: options.acceptsChanges,
    ask: askAboutDefinition,
    onChange: () => {
      if (isInitialized) notify("notifications/tools/list_changed")
    },
    log
  })

  // The server.

  const forwarded = new Map<RpcId, (response: ServerResponse) => void>()
  let serverEnd: string | undefined
  let ownRequests = 0
  let listedAt = Number.NEGATIVE_INFINITY

  const onServerMessage = async (text: string): Promise<void> => {
    const message = parseMessage(text)
    if (message.kind === "invalid") return log(`the server sent no message: ${message.error.message}`)
    if (message.kind === "notification" && message.method === "notifications/tools/list_changed") {
      listedAt = Number.NEGATIVE_INFINITY
    }
    if (message.kind !== "response") return write(text)
    // A response to a request that was not sent, or was answered before, is dropped.
    forwarded.get(message.id)?.({ state: "answered", outcome: message.outcome, text })
  }

  const onServerEnd = (reason: string): void => {
    serverEnd = reason
    for (const resolve of forwarded.values()) resolve({ state: "lost", reason })
    if (stopping.signal.aborted) return
    log(reason)
    void stop({ drain: false })
  }

  const upstream = await options.connect({ onMessage: onServerMessage, onEnd: onServerEnd, log })

  const forward = (
    message: RpcRequest,
    headers?: Readonly<Record<string, string>>
  ): Promise<ServerResponse> =>
    new Promise((done) => {
      if (serverEnd !== undefined) return done({ state: "lost", reason: serverEnd })
      const resolve = (response: ServerResponse) => {
        if (forwarded.get(message.id) === resolve) forwarded.delete(message.id)
        done(response)
      }
      forwarded.set(message.id, resolve)
      upstream
        .send(message, headers)
        .catch((error: unknown) =>
          resolve({ state: "lost", reason: serverEnd ?? `the MCP server failed: ${describe(error)}.` })
        )
    })

  /** Reads a page of tools, and returns the definitions for the client. */
  const examine = async (result: unknown): Promise<ReadonlyArray<unknown>> => {
    const { nextCursor, tools } = listOf(result)
    const visible = await definitions.examine(tools)
    if (nextCursor === undefined) {
      await definitions.listed()
      listedAt = performance.now()
    }
    return visible
  }

  /** Reads all pages of the server's tools. `meta`: that of the client's request, which names its version of the protocol. */
  const readTools = async ({ progressToken: _, ...meta }: JsonObject): Promise<boolean> => {
    let cursor: string | undefined
    for (let page = 0; page < MAX_PAGES; page++) {
      const params = {
        ...(cursor === undefined ? {} : { cursor }),
        ...(Object.keys(meta).length === 0 ? {} : { _meta: meta })
      }
      const id = `${OWN_ID}${++ownRequests}`
      const response = await forward({ kind: "request", id, method: "tools/list", params })
      if (response.state === "lost" || "error" in response.outcome) return false
      await examine(response.outcome.result)
      cursor = listOf(response.outcome.result).nextCursor
      if (cursor === undefined) return true
    }
    log(`the server's list of tools has more than ${MAX_PAGES} pages`)
    return false
  }

  /** Passes a request on, and its response back as it came. */
  const passOn = async (request: RpcRequest): Promise<void> => {
    const response = await forward(request)
    if (response.state === "lost") return fail(request.id, SERVER_FAILED, response.reason)
    const { outcome, text } = response
    if (request.method === "tools/list" && "result" in outcome && isObject(outcome.result)) {
      const { tools } = listOf(outcome.result)
      const visible = await examine(outcome.result)
      if (visible.length !== tools.length || visible.some((tool, index) => tool !== tools[index])) {
        return answer(request.id, { result: { ...outcome.result, tools: visible } })
      }
    }
    requests.delete(request.id)
    await write(text)
  }

  // Calls of tools.

  /** Waits, with notifications that keep the client from giving up. */
  const withProgress = async <A>(
    request: RpcRequest,
    message: string,
    wait: () => Promise<A>
  ): Promise<A> => {
    const progressToken = progressTokenOf(request.params)
    if (progressToken === undefined) return wait()
    let count = 0
    const tick = () => {
      count++
      // Progress must increase, and that of the server comes after it: steps that are smaller than any of its own.
      notify("notifications/progress", { progressToken, progress: count / 1_000_000, message })
    }
    tick()
    const timer = setInterval(tick, PROGRESS_MILLIS)
    try {
      return await wait()
    } finally {
      clearInterval(timer)
    }
  }

  /** Asks, and waits for the person who decides; only so long if the client can show a link instead. */
  const decide = async (
    request: RpcRequest,
    open: OpenCall,
    call: ToolCall,
    isRetry: boolean
  ): Promise<Allowed | Denied | Pending> => {
    const { signal } = open.abort
    const first = await gate.ask(call, undefined, { signal, wait: false })
    if (first.verdict !== "pending") return first
    const showsLink = canOpenUrl(request.params)
    if (showsLink && (!isRetry || isDeclined(request.params))) return first
    const url = approvalUrl(first.decision.approval_id)
    log(`${call.tool} (${call.id}) waits for a person: ${url}`)
    const late = showsLink ? AbortSignal.timeout(RETRY_WAIT_MILLIS) : undefined
    const until = late === undefined ? signal : AbortSignal.any([signal, late])
    open.isHeld = true
    try {
      return await withProgress(request, `Waiting for a person to decide: ${url}`, () =>
        waitForPerson(call, until)
      )
    } catch (error) {
      if (late?.aborted !== true || signal.aborted) throw error
      return first
    } finally {
      open.isHeld = false
    }
  }

  /** Finds a call in the journal, or begins it. */
  const takeUp = async (
    { journal, session }: OpenRun,
    content: Omit<CallRecord, "session" | "step_id">,
    state: RequestState | undefined
  ): Promise<LeftCall> => {
    if (state !== undefined) {
      clearTimeout(carriedCalls.get(state.step_id))
      carriedCalls.delete(state.step_id)
    }
    const left = takeLeft((record) =>
      state === undefined
        ? record.digest === content.digest && record.action_class === content.action_class
        : record.step_id === state.step_id
    )
    if (left !== undefined) return left
    const found = state === undefined ? undefined : await journal.find(state.step_id)
    if (found !== undefined) return found
    const record = {
      ...content,
      session,
      step_id: state?.step_id ?? `call_${randomUUID().replaceAll("-", "")}`
    }
    await journal.asked(record)
    return { state: "asked", record }
  }

  /** Gives the client a response, and then the service the outcome. The journal has both until then. */
  const finish = async (
    request: RpcRequest,
    record: CallRecord,
    end: CallEnd,
    text?: string
  ): Promise<void> => {
    const { journal } = await run()
    // The response to a request that was cancelled is not expected.
    if (openCalls.get(request.id)?.abort.signal.aborted !== true) {
      if (text === undefined) await answer(request.id, responseFor(end, isStateless(request.params)))
      else {
        requests.delete(request.id)
        await write(text)
      }
    }
    const recorded = report(record, end)
      .then(() => journal.forget(record.step_id))
      .catch((error: unknown) => log(describe(error)))
      .finally(() => reports.delete(recorded))
    reports.add(recorded)
  }

  /** Sends an approved call to the server, at most once: the journal has it before the server. */
  const execute = async (
    request: RpcRequest,
    open: OpenCall,
    record: CallRecord,
    { leg, upstream: serverState }: Pick<RequestState, "leg" | "upstream">
  ): Promise<void> => {
    const { journal, session } = await run()
    if (!(await journal.started(record, leg))) {
      return answer(request.id, responseFor(unknownEnd(SENT_BEFORE), isStateless(request.params)))
    }
    open.isSent = true
    const params = callParams(request.params, leg, serverState)
    const headers = isStateless(params) ? paramHeaders(open.schema, params["arguments"]) : {}
    const response = await forward({ ...request, params }, headers)
    if (response.state === "lost") {
      const end = unknownEnd(response.reason)
      await journal.ended(record.step_id, end)
      return finish(request, record, end)
    }
    const { outcome, text } = response
    if (
      "result" in outcome &&
      isObject(outcome.result) &&
      outcome.result["resultType"] === "input_required"
    ) {
      // The server asks its own question. The call goes on with the client's next request, without another decision.
      const { requestState } = outcome.result
      await journal.answered(record.step_id, leg)
      const next = {
        session,
        step_id: record.step_id,
        digest: record.digest,
        leg: leg + 1,
        upstream: typeof requestState === "string" ? requestState : null
      }
      return answer(request.id, { result: { ...outcome.result, requestState: sealer.seal(next) } })
    }
    const end = endOf(outcome)
    await journal.ended(record.step_id, end)
    return finish(request, record, end, text)
  }

  /** Answers a request with a link to the approval, which the client shows before it sends the call again. */
  const showLink = (
    request: RpcRequest,
    { decision, message }: Pending,
    state: RequestState
  ): Promise<void> => {
    const url = approvalUrl(decision.approval_id)
    if (isDeclined(request.params)) {
      const text = `${message} A person can decide it at ${url}; call the tool again with the same arguments then.`
      const meta = { [META_KEY]: { cause: "pending", step_id: state.step_id } }
      return answer(request.id, { result: textResult(text, { isError: true, isStateless: true, meta }) })
    }
    const question = {
      method: "elicitation/create",
      params: {
        mode: "url",
        url,
        message: "A person must decide about this call. It goes on once they have."
      }
    }
    return answer(request.id, {
      result: {
        resultType: "input_required",
        inputRequests: { [QUESTION_KEY]: question },
        requestState: sealer.seal(state)
      }
    })
  }

  const callTool = async (request: RpcRequest, open: OpenCall): Promise<void> => {
    const deny = (text: string, meta: JsonObject) =>
      answer(request.id, {
        result: textResult(text, {
          isError: true,
          isStateless: isStateless(request.params),
          meta: { [META_KEY]: meta }
        })
      })
    const params = isObject(request.params) ? request.params : {}
    const { name, requestState } = params
    const args = params["arguments"]
    if (typeof name !== "string" || (args !== undefined && !isObject(args))) {
      return fail(
        request.id,
        INVALID_PARAMS,
        "A call must have a tool's name, and its arguments as an object."
      )
    }

    const isFresh = performance.now() - listedAt < LIST_MILLIS
    if (!(isFresh && definitions.find(name) !== undefined) && !(await readTools(metaOf(params)))) {
      return serverEnd === undefined
        ? deny("The MCP server did not list its tools, so this call was not executed.", { cause: "server" })
        : fail(request.id, SERVER_FAILED, `${serverEnd} The call was not executed.`)
    }
    const known = definitions.find(name)
    if (known === undefined) {
      return deny(`The MCP server lists no tool ${JSON.stringify(name)}.`, { cause: "unknown_tool" })
    }
    if (known.state === "changed") {
      const text =
        "The definition of this tool has changed since it was accepted, so the call was not executed. Calls are denied until a person approves the new definition."
      return deny(known.question === undefined ? text : `${text} ${known.question}`, { cause: "definition" })
    }

    open.schema = known.definition["inputSchema"]
    const opened = await run().catch((error: unknown) => ({ error }))
    if ("error" in opened) {
      const { error } = opened
      log(`no session: ${describe(error)}`)
      if (isUnavailable(error)) {
        return deny(describeProblem("unreachable", undefined), { cause: "unreachable" })
      }
      const text = describeProblem("refused", isProblem(error) ? error : undefined)
      return deny(isProblem(error) ? text : `${text} ${describe(error)}`, { cause: "refused" })
    }
    const content = {
      tool: `${options.prefix}${name}`,
      action_class: actionClassOf(known.definition, name, options.actionClasses),
      digest: digestOf([name, args === undefined ? null : toJson(args)])
    }
    const state = typeof requestState === "string" ? sealer.open(requestState) : undefined
    if (requestState !== undefined) {
      if (state?.digest !== content.digest || state.session !== opened.session) {
        return fail(request.id, INVALID_PARAMS, "The requestState does not belong to this call.")
      }
      if (activeSteps.has(state.step_id)) {
        return fail(request.id, INVALID_REQUEST, "Another request with this requestState is being worked on.")
      }
    }

    const { record, ...taken } = await takeUp(opened, content, state)
    const { step_id } = record
    activeSteps.add(step_id)
    try {
      if (taken.state === "ended") return await finish(request, record, taken.end)
      if (taken.state === "interrupted") {
        return await answer(request.id, responseFor(unknownEnd(SENT_BEFORE), isStateless(request.params)))
      }
      if (state === undefined || state.leg === 0) {
        const call = { id: step_id, tool: record.tool, arguments: args, actionClass: record.action_class }
        const verdict = await decide(request, open, call, state !== undefined)
        if (verdict.verdict === "deny") {
          if (FINAL_CAUSES.has(verdict.cause)) await opened.journal.forget(step_id)
          else leftCalls.push({ state: "asked", record })
          return await deny(verdict.message, { cause: verdict.cause, step_id })
        }
        if (verdict.verdict === "pending") {
          if (isDeclined(request.params)) leftCalls.push({ state: "asked", record })
          else carry(record)
          const { digest, session } = record
          return await showLink(request, verdict, { session, step_id, digest, leg: 0, upstream: null })
        }
      }
      open.abort.signal.throwIfAborted()
      if (serverEnd !== undefined) throw new Error(serverEnd)
      await execute(request, open, record, { leg: state?.leg ?? 0, upstream: state?.upstream ?? null })
    } catch (error) {
      if (open.isSent) throw error
      // It was not sent: the same call goes on with the same approval.
      leftCalls.push({ state: "asked", record })
      if (!open.abort.signal.aborted) throw error
    } finally {
      activeSteps.delete(step_id)
    }
  }

  // Messages of the client.

  const track = (request: RpcRequest, working: Promise<void>): void => {
    const tracked = working
      .catch(async (error: unknown) => {
        log(`${request.method} failed: ${describe(error)}`)
        if (!requests.has(request.id)) return
        await fail(request.id, INTERNAL_ERROR, `The gate failed: ${describe(error)}`)
      })
      .catch((error: unknown) => log(describe(error)))
      .finally(() => {
        requests.delete(request.id)
        openCalls.delete(request.id)
        work.delete(tracked)
      })
    work.add(tracked)
  }

  /** Cancels a call. Returns whether the server need not know, since it has not got it. */
  const cancel = (id: unknown): boolean => {
    const open = typeof id === "string" || typeof id === "number" ? openCalls.get(id) : undefined
    if (open === undefined || (typeof id !== "string" && typeof id !== "number")) return false
    open.abort.abort(new Error("The client cancelled the call"))
    setTimeout(
      () => forwarded.get(id)?.({ state: "lost", reason: "the client cancelled it." }),
      CANCELLED_MILLIS
    ).unref()
    return !open.isSent
  }

  const receive = async (line: string): Promise<void> => {
    const message = parseStrictMessage(line)
    if (message.kind === "invalid") return write(formatMessage({ id: message.id, error: message.error }))
    if (message.kind !== "request") {
      const isCancelled = message.kind === "notification" && message.method === "notifications/cancelled"
      if (isCancelled && isObject(message.params) && cancel(message.params["requestId"])) return
      return upstream
        .send(message)
        .catch((error: unknown) => log(`the server cannot be reached: ${describe(error)}`))
    }
    const { id, method, params } = message
    // The answer must not be taken for that of the other request, which goes on.
    if (requests.has(id) || openCalls.has(id) || (typeof id === "string" && id.startsWith(OWN_ID))) {
      return log(`the client used the id ${JSON.stringify(id)} twice; the second request is ignored`)
    }
    if (requests.size >= MAX_REQUESTS)
      return fail(id, SERVER_FAILED, `${MAX_REQUESTS} requests wait already.`)
    requests.set(id, method)
    if (method === "initialize") {
      isInitialized = true
      const info = isObject(params) ? params["clientInfo"] : undefined
      if (isObject(info) && typeof info["name"] === "string") clientName = info["name"].slice(0, 200)
    }
    if (method !== "tools/call") return track(message, passOn(message))
    const open: OpenCall = { abort: new AbortController(), isHeld: false, isSent: false, schema: undefined }
    openCalls.set(id, open)
    track(message, callTool(message, open))
  }

  // The end.

  const within = async (millis: number, isDone: () => boolean): Promise<void> => {
    for (const until = performance.now() + millis; !isDone() && performance.now() < until;) {
      await new Promise((done) => setTimeout(done, 20))
    }
  }

  /** Whether every request waits for a person, or for events without an end. */
  const isIdle = (): boolean =>
    [...requests].every(
      ([id, method]) => method === "subscriptions/listen" || openCalls.get(id)?.isHeld === true
    )

  const end = async (drain: boolean): Promise<void> => {
    const isServerGone = serverEnd !== undefined
    if (drain) await within(DRAIN_MILLIS, isIdle)
    stopping.abort(new Error("The gate was stopped"))
    for (const [id, open] of openCalls) {
      if (open.isSent) continue
      if (isServerGone && requests.has(id))
        await fail(id, SERVER_FAILED, `${serverEnd} The call was not executed.`)
      open.abort.abort(new Error("The gate was stopped"))
    }
    await upstream.close()
    await within(REPORTS_MILLIS, () => work.size === 0 && reports.size === 0)
    const opened = await opening
    if (opened === undefined) return
    const calls = (await opened.journal.left()).filter(({ state }) => state !== "ended")
    const hasOpenCalls = calls.length + pendingDefinitions > 0 || !isReported
    if (hasOpenCalls)
      log("the session stays open for what waits; the next gate in front of this server continues it")
    await opened.end({ hasOpenCalls })
  }

  let resolveEnded: (reason: string | undefined) => void
  const ended = new Promise<string | undefined>((resolve) => (resolveEnded = resolve))
  let stopped: Promise<void> | undefined
  const stop: McpGate["stop"] = ({ drain }) => {
    const reason = serverEnd
    stopped ??= end(drain)
      .catch((error: unknown) => log(`the gate could not end in order: ${describe(error)}`))
      .finally(() => resolveEnded(reason))
    return stopped
  }

  return { receive, stop, ended }
}

const LEFT: Readonly<Record<LeftCall["state"], string>> = {
  asked: "it was not executed; the same call goes on with its approval",
  interrupted: "it is unknown whether it was executed; it is not sent again",
  ended: "it was executed; the same call gets its result"
}
