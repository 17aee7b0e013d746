import { Data, Effect, Result, type Schema } from "effect"
import type { DenialCause, Pending, ToolCall } from "../../adapters/toolGate/publicTypes.ts"
import { describeFailure, describeProblem } from "../../adapters/toolGate/messages.ts"
import { toJson } from "../../client/connect/recordable.ts"
import { isProblem } from "../../client/connect/Problem.ts"
import { isUnavailable } from "../../client/isTransient.ts"
import { INVALID_PARAMS, INVALID_REQUEST, isObject, type JsonObject, SERVER_FAILED } from "../mcp/jsonRpc.ts"
import { canOpenUrl, isStateless, metaOf, textResult } from "../mcp/protocol.ts"
import {
  callParams,
  endOf,
  failedEnd,
  isDeclined,
  META_KEY,
  QUESTION_KEY,
  responseFor,
  unknownEnd
} from "./callResults.ts"
import type { ClientRequest, ClientRequests } from "./ClientRequests.ts"
import { describe } from "./describe.ts"
import { digestOf } from "./digest.ts"
import type { CallContent as RecordedContent, GovernedCalls, OpenRun } from "./GovernedCalls.ts"
import type { CallEnd, CallRecord } from "./Journal.ts"
import type { McpGateOptions } from "./McpGate.ts"
import { paramHeaders } from "./paramHeaders.ts"
import { makeStateSealer, type RequestState } from "./requestState.ts"
import type { ServerLink } from "./ServerLink.ts"
import type { ServerTools } from "./ServerTools.ts"
import { NotExecuted, SendFailed } from "./Upstream.ts"

/** How long a request waits that followed a link to the approval. Then the client is asked again: it expects no request of minutes. */
const RETRY_WAIT_MILLIS = 25_000

/** Why a call is not sent that another request may be executing. */
const SENT_BEFORE = "it was sent to the server by another request."

/** Whether the same call is another step after a denial. Otherwise it goes on with its step. */
const IS_FINAL: Readonly<Record<DenialCause, boolean>> = {
  person: true,
  rule: true,
  model: true,
  timeout: true,
  session_closed: true,
  executed: true,
  refused: true,
  executing: false,
  unknown: false,
  question: false,
  unreachable: false
}

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

/** A call that is not sent because of the definition of its tool. `text`: for the client. */
class NotConfirmed extends Data.TaggedError("NotConfirmed")<{
  readonly cause: "definition" | "server" | "unknown_tool"
  readonly text: string
}> {}

/** The definition differs from the one that was accepted, or that the call was decided under. */
const definitionChanged = (next: string): NotConfirmed =>
  new NotConfirmed({
    cause: "definition",
    text: `The definition of this tool has changed since it was accepted, so the call was not executed. ${next}`
  })

/** The content of a call. */
interface CallContent {
  /** The tool's name at the server. */
  readonly name: string
  readonly args: JsonObject | undefined
  readonly schema: unknown
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

  /** Returns the accepted definition of a tool, as the server has listed it since a time. */
  const definitionOf = Effect.fnUntraced(function* (name: string, params: unknown, since?: number) {
    const known = yield* tools.find(name, metaOf(params), since).pipe(
      Effect.mapError(({ reason }) => {
        const text = `The MCP server did not list its tools, so this call was not executed. ${reason}`
        return new NotConfirmed({ cause: "server", text })
      })
    )
    if (known === undefined) {
      const text = `The MCP server lists no tool ${JSON.stringify(name)}.`
      return yield* new NotConfirmed({ cause: "unknown_tool", text })
    }
    if (known.state === "accepted") return known.definition
    const next = "Calls are denied until a person approves the new definition."
    const { question } = known
    return yield* definitionChanged(question === undefined ? next : `${next} ${question}`)
  })

  /** Fails unless a tool has the definition that a call of it was decided under. */
  const confirm = Effect.fnUntraced(function* (
    { definition }: CallRecord,
    ...tool: Parameters<typeof definitionOf>
  ) {
    if (digestOf(yield* definitionOf(...tool)) !== definition)
      return yield* definitionChanged("The new definition was accepted meanwhile: call the tool again.")
  })

  /** Asks, and waits for the person who decides; only so long if the client can show a link instead. */
  const decide = Effect.fnUntraced(function* (
    request: ClientRequest,
    call: ToolCall,
    claim: Parameters<typeof calls.ask>[1],
    isRetry: boolean
  ) {
    const first = yield* calls.ask(call, claim)
    if (first.verdict !== "pending") return { verdict: first, hasWaited: false }
    const showsLink = canOpenUrl(request.params)
    if (showsLink && (!isRetry || isDeclined(request.params))) return { verdict: first, hasWaited: false }
    const url = approvalUrl(first.decision.approval_id)
    log(`${call.tool} (${call.id}) waits for a person: ${url}`)
    const message = `Waiting for a person to decide: ${url}`
    const decided = requests.hold(request, message, calls.waitForPerson(call, claim))
    const verdict = yield* showsLink
      ? Effect.timeoutOrElse(decided, { duration: RETRY_WAIT_MILLIS, orElse: () => Effect.succeed(first) })
      : decided
    return { verdict, hasWaited: true }
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

  /** Answers a decided call that was not sent. Its decision does not count for another definition. */
  const withhold = Effect.fnUntraced(function* (
    request: ClientRequest,
    run: OpenRun,
    record: CallRecord,
    { cause, text }: NotConfirmed
  ) {
    const meta = { cause, step_id: record.step_id }
    if (cause === "server") {
      calls.leave(record)
      return yield* deny(request, text, meta)
    }
    const end = failedEnd(text, meta)
    yield* Effect.promise(() => run.journal.ended(record.step_id, end))
    yield* answerEnd(request, end)
    return yield* calls.conclude(run, record, end)
  })

  /** Sends an approved call to the server, at most once: the journal has it before the server. */
  const execute = Effect.fnUntraced(function* (
    request: ClientRequest,
    run: OpenRun,
    record: CallRecord,
    { name, schema }: CallContent,
    { leg, upstream: serverState }: Pick<RequestState, "leg" | "upstream">,
    since: number | undefined
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
    let unconfirmed: NotConfirmed | undefined
    const confirmed = confirm(record, name, params, since).pipe(
      Effect.mapError((error) => {
        unconfirmed = error
        return new SendFailed({ cause: new NotExecuted(error.text) })
      })
    )
    const response = yield* link.forward({ ...request, params }, { headers, confirm: confirmed })
    if (response.state === "refused") {
      // The same call goes on with its decision. A file `asked` that only the crash of a machine can have removed is written again.
      yield* Effect.promise(() => journal.asked(record))
      yield* Effect.promise(() => journal.unsent(step_id, leg))
      if (unconfirmed !== undefined) return yield* withhold(request, run, record, unconfirmed)
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
        definition: record.definition,
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
      content: RecordedContent,
      tool: CallContent,
      state: RequestState | undefined
    ) {
      const { record, ...taken } = yield* calls.takeUp(run, content, state)
      const { claim_key, definition, digest, session, step_id } = record
      let claim_id = record.claim_id
      let hasWaited = taken.state !== "new"
      activeSteps.add(step_id)
      yield* Effect.addFinalizer(() => Effect.sync(() => activeSteps.delete(step_id)))
      if (taken.state === "interrupted") return yield* answerEnd(request, unknownEnd(SENT_BEFORE))
      if (taken.state === "ended") {
        yield* answerEnd(request, taken.end)
        return yield* calls.conclude(run, record, taken.end)
      }
      // The process that asked about a call with an answered leg can have ended: then its claim is taken up.
      if (state === undefined || state.leg === 0 || !calls.isClaimed(step_id)) {
        const claim = { claimKey: claim_key, mayBeClaimed: taken.state !== "new" }
        const call = {
          id: step_id,
          tool: record.tool,
          arguments: tool.args,
          actionClass: record.action_class
        }
        const decided = yield* Effect.interruptible(decide(request, call, claim, state !== undefined)).pipe(
          // The same call goes on with the same approval.
          Effect.onError(() => Effect.sync(() => calls.leave(record)))
        )
        const { verdict } = decided
        hasWaited ||= decided.hasWaited
        if (verdict.verdict === "deny") {
          if (IS_FINAL[verdict.cause]) yield* Effect.promise(() => run.journal.forget(step_id))
          else calls.leave(record)
          return yield* deny(request, verdict.message, { cause: verdict.cause, step_id })
        }
        if (verdict.verdict === "pending") {
          if (isDeclined(request.params)) calls.leave(record)
          else yield* calls.carry(record)
          return yield* showLink(request, verdict, {
            session,
            step_id,
            digest,
            definition,
            leg: 0,
            upstream: null
          })
        }
        claim_id = verdict.claim?.id ?? null
      }
      // A call that is decided at once is sent under the list that it was decided under. After a wait for a person or the client, the list is
      // read again, also after a short one: the server need not announce a change, and the request takes no time beside the wait.
      const since = hasWaited ? performance.now() : undefined
      const confirmed = yield* Effect.result(
        Effect.interruptible(confirm(record, tool.name, request.params, since))
      ).pipe(Effect.onError(() => Effect.sync(() => calls.leave(record))))
      const serverEnd = link.endReason()
      if (serverEnd !== undefined) {
        calls.leave(record)
        return yield* requests.fail(request.id, SERVER_FAILED, `${serverEnd} The call was not executed.`)
      }
      if (Result.isFailure(confirmed))
        return yield* withhold(request, run, { ...record, claim_id }, confirmed.failure)
      const leg = { leg: state?.leg ?? 0, upstream: state?.upstream ?? null }
      return yield* execute(request, run, { ...record, claim_id }, tool, leg, since)
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

    const accepted = yield* Effect.result(definitionOf(name, params))
    if (Result.isFailure(accepted)) {
      const { cause, text } = accepted.failure
      const serverEnd = link.endReason()
      return yield* serverEnd === undefined
        ? deny(request, text, { cause })
        : requests.fail(id, SERVER_FAILED, `${serverEnd} The call was not executed.`)
    }
    const definition = accepted.success

    const opened = yield* Effect.result(calls.run)
    if (Result.isFailure(opened)) {
      const error = opened.failure.cause
      log(`no session: ${describe(error)}`)
      if (isUnavailable(error)) {
        return yield* deny(request, describeProblem("unreachable", undefined), { cause: "unreachable" })
      }
      const text = isProblem(error) ? describeProblem("refused", error) : describeFailure(error)
      return yield* deny(request, text, { cause: "refused" })
    }
    const run = opened.success
    const state = typeof requestState === "string" ? sealer.open(requestState) : undefined
    const content = {
      tool: `${options.prefix}${name}`,
      action_class: actionClassOf(definition, name, options.actionClasses),
      digest: digestOf([name, args === undefined ? null : toJson(args)]),
      definition: state?.definition ?? digestOf(definition)
    }
    if (requestState !== undefined) {
      if (state?.digest !== content.digest || state.session !== run.session) {
        return yield* requests.fail(id, INVALID_PARAMS, "The requestState does not belong to this call.")
      }
      if (activeSteps.has(state.step_id)) {
        const text = "Another request with this requestState is being worked on."
        return yield* requests.fail(id, INVALID_REQUEST, text)
      }
    }

    return yield* proceed(request, run, content, { name, args, schema: definition["inputSchema"] }, state)
  })
}
