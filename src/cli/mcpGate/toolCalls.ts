import type { Allowed, Denied, Pending, ToolCall } from "../../adapters/toolGate.ts"
import { describeProblem } from "../../adapters/toolGate/messages.ts"
import { toJson } from "../../adapters/toolGate/recordable.ts"
import { isProblem } from "../../client/connect/Problem.ts"
import { isUnavailable } from "../../client/isTransient.ts"
import {
  INVALID_PARAMS,
  INVALID_REQUEST,
  isObject,
  type JsonObject,
  type RpcRequest,
  SERVER_FAILED
} from "../mcp/jsonRpc.ts"
import { canOpenUrl, isStateless, metaOf, textResult } from "../mcp/protocol.ts"
import { actionClassOf } from "./actionClass.ts"
import {
  callParams,
  endOf,
  isDeclined,
  META_KEY,
  QUESTION_KEY,
  responseFor,
  unknownEnd
} from "./callResults.ts"
import type { ClientRequests, OpenCall } from "./ClientRequests.ts"
import { describe } from "./describe.ts"
import { digestOf } from "./digest.ts"
import type { GovernedCalls } from "./GovernedCalls.ts"
import type { CallEnd, CallRecord } from "./Journal.ts"
import type { McpGateOptions } from "./McpGate.ts"
import { paramHeaders } from "./paramHeaders.ts"
import { makeStateSealer, type RequestState } from "./requestState.ts"
import type { ServerLink } from "./ServerLink.ts"
import type { ServerTools } from "./ServerTools.ts"

/** How long a request waits that followed a link to the approval. Then the client is asked again: it expects no request of minutes. */
const RETRY_WAIT_MILLIS = 25_000

/** Why a call is not sent that another request may be executing. */
const SENT_BEFORE = "it was sent to the server by another request."

/** Causes of denials after which the same call would be another step. After the others, it is the same one. */
const FINAL_CAUSES: ReadonlySet<string> = new Set([
  "person",
  "rule",
  "timeout",
  "session_closed",
  "executed",
  "refused"
])

/** The parts of a gate that a call of a tool goes through. */
export interface ToolCallParts extends Pick<McpGateOptions, "actionClasses" | "key" | "log" | "prefix"> {
  readonly approvalUrl: (approval: string | null) => string
  readonly requests: ClientRequests
  readonly calls: GovernedCalls
  readonly tools: ServerTools
  readonly link: ServerLink
}

/** Returns the function that governs and executes a call of a tool, and answers its request. */
export const makeToolCalls = ({
  approvalUrl,
  calls,
  link,
  log,
  requests,
  tools,
  ...options
}: ToolCallParts): ((request: RpcRequest, open: OpenCall) => Promise<void>) => {
  const sealer = makeStateSealer(options.key)
  /** Steps that a request of this process works on. */
  const activeSteps = new Set<string>()

  /** Asks, and waits for the person who decides; only so long if the client can show a link instead. */
  const decide = async (
    request: RpcRequest,
    open: OpenCall,
    call: ToolCall,
    isRetry: boolean
  ): Promise<Allowed | Denied | Pending> => {
    const { signal } = open.abort
    const first = await calls.ask(call, undefined, { signal, wait: false })
    if (first.verdict !== "pending") return first
    const showsLink = canOpenUrl(request.params)
    if (showsLink && (!isRetry || isDeclined(request.params))) return first
    const url = approvalUrl(first.decision.approval_id)
    log(`${call.tool} (${call.id}) waits for a person: ${url}`)
    const late = showsLink ? AbortSignal.timeout(RETRY_WAIT_MILLIS) : undefined
    const until = late === undefined ? signal : AbortSignal.any([signal, late])
    open.isHeld = true
    try {
      return await requests.withProgress(request, `Waiting for a person to decide: ${url}`, () =>
        calls.waitForPerson(call, until)
      )
    } catch (error) {
      if (late?.aborted !== true || signal.aborted) throw error
      return first
    } finally {
      open.isHeld = false
    }
  }

  /** Answers a call that was not executed. */
  const deny = (request: RpcRequest, text: string, meta: JsonObject) =>
    requests.answer(request.id, {
      result: textResult(text, {
        isError: true,
        isStateless: isStateless(request.params),
        meta: { [META_KEY]: meta }
      })
    })

  /** Gives the client a response, and then the service the outcome. The journal has both until then. */
  const finish = async (
    request: RpcRequest,
    record: CallRecord,
    end: CallEnd,
    line?: string
  ): Promise<void> => {
    // The response to a request that was cancelled is not expected.
    if (requests.findCall(request.id)?.abort.signal.aborted !== true) {
      if (line === undefined) await requests.answer(request.id, responseFor(end, isStateless(request.params)))
      else await requests.answerWith(request.id, line)
    }
    await calls.conclude(record, end)
  }

  /** Sends an approved call to the server, at most once: the journal has it before the server. */
  const execute = async (
    request: RpcRequest,
    open: OpenCall,
    record: CallRecord,
    { leg, upstream: serverState }: Pick<RequestState, "leg" | "upstream">
  ): Promise<void> => {
    const { journal, session } = await calls.run()
    if (!(await journal.started(record, leg))) {
      return requests.answer(request.id, responseFor(unknownEnd(SENT_BEFORE), isStateless(request.params)))
    }
    open.isSent = true
    const params = callParams(request.params, leg, serverState)
    const headers = isStateless(params) ? paramHeaders(open.schema, params["arguments"]) : {}
    const response = await link.forward({ ...request, params }, headers)
    if (response.state === "refused") {
      // The same call goes on with its decision. A file `asked` that only the crash of a machine can have removed is written again.
      await journal.asked(record)
      await journal.unsent(record.step_id, leg)
      open.isSent = false
      calls.leave(record)
      const text = `The call was not executed: ${response.reason} It keeps its decision: call the tool again with the same arguments.`
      return deny(request, text, { cause: "server", step_id: record.step_id })
    }
    if (response.state === "lost") {
      const end = unknownEnd(response.reason)
      await journal.ended(record.step_id, end)
      return finish(request, record, end)
    }
    const { line, outcome } = response
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
      return requests.answer(request.id, { result: { ...outcome.result, requestState: sealer.seal(next) } })
    }
    const end = endOf(outcome)
    await journal.ended(record.step_id, end)
    return finish(request, record, end, line)
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
      return requests.answer(request.id, {
        result: textResult(text, { isError: true, isStateless: true, meta })
      })
    }
    const question = {
      method: "elicitation/create",
      params: {
        mode: "url",
        url,
        message: "A person must decide about this call. It goes on once they have."
      }
    }
    return requests.answer(request.id, {
      result: {
        resultType: "input_required",
        inputRequests: { [QUESTION_KEY]: question },
        requestState: sealer.seal(state)
      }
    })
  }

  const callTool = async (request: RpcRequest, open: OpenCall): Promise<void> => {
    const params = isObject(request.params) ? request.params : {}
    const { name, requestState } = params
    const args = params["arguments"]
    if (typeof name !== "string" || (args !== undefined && !isObject(args))) {
      return requests.fail(
        request.id,
        INVALID_PARAMS,
        "A call must have a tool's name, and its arguments as an object."
      )
    }

    const unlisted = await tools.refresh(name, metaOf(params))
    if (unlisted !== undefined) {
      const serverEnd = link.endReason()
      return serverEnd === undefined
        ? deny(request, `The MCP server did not list its tools, so this call was not executed. ${unlisted}`, {
            cause: "server"
          })
        : requests.fail(request.id, SERVER_FAILED, `${serverEnd} The call was not executed.`)
    }
    const known = tools.find(name)
    if (known === undefined) {
      return deny(request, `The MCP server lists no tool ${JSON.stringify(name)}.`, { cause: "unknown_tool" })
    }
    if (known.state === "changed") {
      const text =
        "The definition of this tool has changed since it was accepted, so the call was not executed. Calls are denied until a person approves the new definition."
      return deny(request, known.question === undefined ? text : `${text} ${known.question}`, {
        cause: "definition"
      })
    }

    open.schema = known.definition["inputSchema"]
    const opened = await calls.run().catch((error: unknown) => ({ error }))
    if ("error" in opened) {
      const { error } = opened
      log(`no session: ${describe(error)}`)
      if (isUnavailable(error)) {
        return deny(request, describeProblem("unreachable", undefined), { cause: "unreachable" })
      }
      const text = describeProblem("refused", isProblem(error) ? error : undefined)
      return deny(request, isProblem(error) ? text : `${text} ${describe(error)}`, { cause: "refused" })
    }
    const content = {
      tool: `${options.prefix}${name}`,
      action_class: actionClassOf(known.definition, name, options.actionClasses),
      digest: digestOf([name, args === undefined ? null : toJson(args)])
    }
    const state = typeof requestState === "string" ? sealer.open(requestState) : undefined
    if (requestState !== undefined) {
      if (state?.digest !== content.digest || state.session !== opened.session) {
        return requests.fail(request.id, INVALID_PARAMS, "The requestState does not belong to this call.")
      }
      if (activeSteps.has(state.step_id)) {
        return requests.fail(
          request.id,
          INVALID_REQUEST,
          "Another request with this requestState is being worked on."
        )
      }
    }

    const { record, ...taken } = await calls.takeUp(opened, content, state)
    const { step_id } = record
    activeSteps.add(step_id)
    try {
      if (taken.state === "ended") return await finish(request, record, taken.end)
      if (taken.state === "interrupted") {
        return await requests.answer(
          request.id,
          responseFor(unknownEnd(SENT_BEFORE), isStateless(request.params))
        )
      }
      if (state === undefined || state.leg === 0) {
        const call = { id: step_id, tool: record.tool, arguments: args, actionClass: record.action_class }
        const verdict = await decide(request, open, call, state !== undefined)
        if (verdict.verdict === "deny") {
          if (FINAL_CAUSES.has(verdict.cause)) await opened.journal.forget(step_id)
          else calls.leave(record)
          return await deny(request, verdict.message, { cause: verdict.cause, step_id })
        }
        if (verdict.verdict === "pending") {
          if (isDeclined(request.params)) calls.leave(record)
          else calls.carry(record)
          const { digest, session } = record
          return await showLink(request, verdict, { session, step_id, digest, leg: 0, upstream: null })
        }
      }
      open.abort.signal.throwIfAborted()
      const serverEnd = link.endReason()
      if (serverEnd !== undefined) throw new Error(serverEnd)
      await execute(request, open, record, { leg: state?.leg ?? 0, upstream: state?.upstream ?? null })
    } catch (error) {
      if (open.isSent) throw error
      // It was not sent: the same call goes on with the same approval.
      calls.leave(record)
      if (!open.abort.signal.aborted) throw error
    } finally {
      activeSteps.delete(step_id)
    }
  }

  return callTool
}
