import { Effect, Result, type Schema } from "effect"
import type { Pending, ToolCall } from "../../adapters/toolGate.ts"
import { describeProblem } from "../../adapters/toolGate/messages.ts"
import { toJson } from "../../adapters/toolGate/recordable.ts"
import { isProblem } from "../../client/connect/Problem.ts"
import { isUnavailable } from "../../client/isTransient.ts"
import { INVALID_PARAMS, INVALID_REQUEST, isObject, type JsonObject, SERVER_FAILED } from "../mcp/jsonRpc.ts"
import { canOpenUrl, isStateless, metaOf, textResult } from "../mcp/protocol.ts"
import {
  callParams,
  endOf,
  isDeclined,
  META_KEY,
  QUESTION_KEY,
  responseFor,
  unknownEnd
} from "./callResults.ts"
import type { ClientRequest, ClientRequests } from "./ClientRequests.ts"
import { describe } from "./describe.ts"
import { digestOf } from "./digest.ts"
import type { GovernedCalls, OpenRun } from "./GovernedCalls.ts"
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

/**
 * The action class of a tool: the setting, or the claim of the tool's annotations. A tool without annotations may be destructive, as in the
 * protocol. The annotations are from the accepted definition, so a server cannot change them unnoticed.
 */
const actionClassOf = (
  definition: Readonly<Record<string, Schema.Json>>,
  tool: string,
  settings: Readonly<Record<string, string>>
): string => {
  const setting = Object.hasOwn(settings, tool) ? settings[tool] : undefined
  if (setting !== undefined) return setting
  const annotations = isObject(definition["annotations"]) ? definition["annotations"] : {}
  if (annotations["readOnlyHint"] === true) return "read"
  return annotations["destructiveHint"] === false ? "write" : "destructive"
}

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
}: ToolCallParts): ((request: ClientRequest) => Effect.Effect<void>) => {
  const sealer = makeStateSealer(options.key)
  /** Steps that a request of this process works on. */
  const activeSteps = new Set<string>()

  /** Asks, and waits for the person who decides; only so long if the client can show a link instead. */
  const decide = Effect.fnUntraced(function* (request: ClientRequest, call: ToolCall, isRetry: boolean) {
    const first = yield* calls.ask(call)
    if (first.verdict !== "pending") return first
    const showsLink = canOpenUrl(request.params)
    if (showsLink && (!isRetry || isDeclined(request.params))) return first
    const url = approvalUrl(first.decision.approval_id)
    log(`${call.tool} (${call.id}) waits for a person: ${url}`)
    const message = `Waiting for a person to decide: ${url}`
    const decided = requests.hold(request, message, calls.waitForPerson(call))
    return yield* showsLink
      ? Effect.timeoutOrElse(decided, { duration: RETRY_WAIT_MILLIS, orElse: () => Effect.succeed(first) })
      : decided
  })

  /** Answers a call that was not executed. */
  const deny = ({ id, params }: ClientRequest, text: string, meta: JsonObject) => {
    const isStatelessCall = isStateless(params)
    const result = textResult(text, {
      isError: true,
      isStateless: isStatelessCall,
      meta: { [META_KEY]: meta }
    })
    return requests.answer(id, { result })
  }

  const answerEnd = ({ id, params }: ClientRequest, end: CallEnd) =>
    requests.answer(id, responseFor(end, isStateless(params)))

  /** Sends an approved call to the server, at most once: the journal has it before the server. */
  const execute = Effect.fnUntraced(function* (
    request: ClientRequest,
    run: OpenRun,
    record: CallRecord,
    schema: unknown,
    { leg, upstream: serverState }: Pick<RequestState, "leg" | "upstream">
  ) {
    const { journal, session } = run
    const { step_id } = record
    request.isSent = true
    const isFirst = yield* Effect.promise(() => journal.started(record, leg)).pipe(
      Effect.onError(() => Effect.sync(() => calls.leave(record)))
    )
    if (!isFirst) return yield* answerEnd(request, unknownEnd(SENT_BEFORE))
    const params = callParams(request.params, leg, serverState)
    const headers = isStateless(params) ? paramHeaders(schema, params["arguments"]) : {}
    const response = yield* link.forward({ ...request, params }, headers)
    if (response.state === "refused") {
      // The same call goes on with its decision. A file `asked` that only the crash of a machine can have removed is written again.
      yield* Effect.promise(() => journal.asked(record))
      yield* Effect.promise(() => journal.unsent(step_id, leg))
      calls.leave(record)
      const text = `The call was not executed: ${response.reason} It keeps its decision: call the tool again with the same arguments.`
      return yield* deny(request, text, { cause: "server", step_id })
    }
    // The client gets a response, and then the service the outcome. The journal has both until then.
    if (response.state === "lost") {
      const end = unknownEnd(response.reason)
      yield* Effect.promise(() => journal.ended(step_id, end))
      yield* answerEnd(request, end)
      return yield* calls.conclude(run, record, end)
    }
    const { line, outcome } = response
    if (
      "result" in outcome &&
      isObject(outcome.result) &&
      outcome.result["resultType"] === "input_required"
    ) {
      // The server asks its own question. The call goes on with the client's next request, without another decision.
      const { requestState } = outcome.result
      yield* Effect.promise(() => journal.answered(step_id, leg))
      const next = {
        session,
        step_id,
        digest: record.digest,
        leg: leg + 1,
        upstream: typeof requestState === "string" ? requestState : null
      }
      const result = { ...outcome.result, requestState: sealer.seal(next) }
      return yield* requests.answer(request.id, { result })
    }
    const end = endOf(outcome)
    yield* Effect.promise(() => journal.ended(step_id, end))
    yield* requests.answerWith(request.id, line)
    return yield* calls.conclude(run, record, end)
  })

  /** Answers a request with a link to the approval, which the client shows before it sends the call again. */
  const showLink = (
    request: ClientRequest,
    { decision, message }: Pending,
    state: RequestState
  ): Effect.Effect<void> => {
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

  /** Takes up a call, and executes it if that is allowed. A cancel interrupts the decision alone. */
  const proceed = Effect.fnUntraced(
    function* (
      request: ClientRequest,
      run: OpenRun,
      content: Omit<CallRecord, "session" | "step_id">,
      { args, schema }: { readonly args: JsonObject | undefined; readonly schema: unknown },
      state: RequestState | undefined
    ) {
      const { record, ...taken } = yield* calls.takeUp(run, content, state)
      const { digest, session, step_id } = record
      activeSteps.add(step_id)
      yield* Effect.addFinalizer(() => Effect.sync(() => activeSteps.delete(step_id)))
      if (taken.state === "interrupted") return yield* answerEnd(request, unknownEnd(SENT_BEFORE))
      if (taken.state === "ended") {
        yield* answerEnd(request, taken.end)
        return yield* calls.conclude(run, record, taken.end)
      }
      if (state === undefined || state.leg === 0) {
        const call = { id: step_id, tool: record.tool, arguments: args, actionClass: record.action_class }
        const verdict = yield* Effect.interruptible(decide(request, call, state !== undefined)).pipe(
          // The same call goes on with the same approval.
          Effect.onError(() => Effect.sync(() => calls.leave(record)))
        )
        if (verdict.verdict === "deny") {
          if (FINAL_CAUSES.has(verdict.cause)) yield* Effect.promise(() => run.journal.forget(step_id))
          else calls.leave(record)
          return yield* deny(request, verdict.message, { cause: verdict.cause, step_id })
        }
        if (verdict.verdict === "pending") {
          if (isDeclined(request.params)) calls.leave(record)
          else yield* calls.carry(record)
          return yield* showLink(request, verdict, { session, step_id, digest, leg: 0, upstream: null })
        }
      }
      const serverEnd = link.endReason()
      if (serverEnd !== undefined) {
        calls.leave(record)
        return yield* requests.fail(request.id, SERVER_FAILED, `${serverEnd} The call was not executed.`)
      }
      return yield* execute(request, run, record, schema, {
        leg: state?.leg ?? 0,
        upstream: state?.upstream ?? null
      })
    },
    Effect.scoped,
    Effect.uninterruptible
  )

  return Effect.fnUntraced(function* (request: ClientRequest) {
    const { id } = request
    const params = isObject(request.params) ? request.params : {}
    const { name, requestState } = params
    const args = params["arguments"]
    if (typeof name !== "string" || (args !== undefined && !isObject(args))) {
      const text = "A call must have a tool's name, and its arguments as an object."
      return yield* requests.fail(id, INVALID_PARAMS, text)
    }

    const unlisted = yield* tools.refresh(name, metaOf(params))
    if (unlisted !== undefined) {
      const serverEnd = link.endReason()
      const text = `The MCP server did not list its tools, so this call was not executed. ${unlisted}`
      return yield* serverEnd === undefined
        ? deny(request, text, { cause: "server" })
        : requests.fail(id, SERVER_FAILED, `${serverEnd} The call was not executed.`)
    }
    const known = yield* tools.find(name)
    if (known === undefined) {
      const text = `The MCP server lists no tool ${JSON.stringify(name)}.`
      return yield* deny(request, text, { cause: "unknown_tool" })
    }
    if (known.state === "changed") {
      const text =
        "The definition of this tool has changed since it was accepted, so the call was not executed. Calls are denied until a person approves the new definition."
      const { question } = known
      return yield* deny(request, question === undefined ? text : `${text} ${question}`, {
        cause: "definition"
      })
    }

    const opened = yield* Effect.result(calls.run)
    if (Result.isFailure(opened)) {
      const error = opened.failure.cause
      log(`no session: ${describe(error)}`)
      if (isUnavailable(error)) {
        return yield* deny(request, describeProblem("unreachable", undefined), { cause: "unreachable" })
      }
      const text = describeProblem("refused", isProblem(error) ? error : undefined)
      return yield* deny(request, isProblem(error) ? text : `${text} ${describe(error)}`, {
        cause: "refused"
      })
    }
    const run = opened.success
    const content = {
      tool: `${options.prefix}${name}`,
      action_class: actionClassOf(known.definition, name, options.actionClasses),
      digest: digestOf([name, args === undefined ? null : toJson(args)])
    }
    const state = typeof requestState === "string" ? sealer.open(requestState) : undefined
    if (requestState !== undefined) {
      if (state?.digest !== content.digest || state.session !== run.session) {
        return yield* requests.fail(id, INVALID_PARAMS, "The requestState does not belong to this call.")
      }
      if (activeSteps.has(state.step_id)) {
        const text = "Another request with this requestState is being worked on."
        return yield* requests.fail(id, INVALID_REQUEST, text)
      }
    }

    return yield* proceed(request, run, content, { args, schema: known.definition["inputSchema"] }, state)
  })
}
