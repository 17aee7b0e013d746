import { Cause, Data, Effect, FiberMap, FiberSet } from "effect"
import { randomUUID } from "node:crypto"
import { type AskOptions, FAULTS, makeToolGate } from "../../adapters/toolGate.ts"
import type { GateOptions, ToolCall } from "../../adapters/toolGate/publicTypes.ts"
import { CallMap } from "../../adapters/toolGate/CallMap.ts"
import type { ToolEnd } from "../../client/connect/execute.ts"
import { isUnavailable } from "../../client/isTransient.ts"
import { unknownEnd } from "./callResults.ts"
import { DEFINITION_CLASS } from "./DefinitionQuestions.ts"
import { describe } from "./describe.ts"
import { type GateRun, openRun } from "./GateRun.ts"
import type { CallEnd, CallRecord, Journal, LeftCall } from "./Journal.ts"
import type { McpGateOptions } from "./McpGate.ts"
import type { RequestState } from "./requestState.ts"

/** A call whose client was shown a link and sent nothing for this time goes on with the next request for the same call. */
const ABANDONED_MILLIS = 60_000

/** Delay before the service is asked again about a call that it knows and a person decides, or gets an outcome again. */
const UNREACHABLE_MILLIS = 5_000

const LEFT: Readonly<Record<LeftCall["state"], string>> = {
  asked: "it was not executed; the same call goes on with its approval",
  interrupted: "it is unknown whether it was executed; it is not sent again",
  ended: "it was executed; the same call gets its result"
}

/** The answer to a message about a changed definition. */
const NO_AGENT_FOR_DEFINITIONS =
  "The gate asks about this by itself, so no agent reads messages. Look at the arguments: they have both definitions."

/** The run of the gate, once its session is known. */
export interface OpenRun {
  readonly journal: Journal
  readonly session: string
}

/** The session of the gate could not be opened. */
export class NoSession extends Data.TaggedError("NoSession")<{ readonly cause: unknown }> {}

/** The content of a call by which it is found again. */
export type CallContent = Pick<CallRecord, "action_class" | "definition" | "digest" | "tool">

/** How a call ended, for the service. */
const toolEnd = ({ failure, isUnknown, response }: CallEnd): ToolEnd => {
  if (isUnknown) return { status: "unknown" }
  return failure === null
    ? { status: "succeeded", result: "result" in response ? response.result : null }
    : { status: "failed", error: failure }
}

/** How a call is claimed. */
type ClaimOptions = Pick<AskOptions, "claim" | "claimKey" | "mayBeClaimed">

/** A call that the gate goes on with. `new`: the service was not asked about it before. */
type TakenCall = LeftCall | { readonly state: "new"; readonly record: CallRecord }

export type GovernedCalls = Effect.Success<ReturnType<typeof makeGovernedCalls>>

/** The governed calls of a gate: its session, its journal, and the outcomes that are reported. */
export const makeGovernedCalls = Effect.fnUntraced(function* (
  options: Pick<McpGateOptions, "client" | "directory" | "log" | "server" | "session">,
  clientName: () => string
) {
  const { client, log } = options
  const reports = yield* FiberSet.make()
  const runReport = yield* FiberSet.runtime(reports)()
  /** Calls whose clients hold a request state. */
  const carriedCalls = yield* FiberMap.make<string>()
  /** Calls of an earlier process or a cancelled request. The same call goes on with one of them. */
  const leftCalls: Array<LeftCall> = []
  /** Steps whose outcomes the service does not have, and the faults of the reports. */
  const unreported = new Set<string>()
  const faults = new WeakMap<object, unknown>()

  const gateOptions: GateOptions = {
    client,
    session: async () => (await openOnce()).session,
    onMessage: (_message, { actionClass }) =>
      actionClass === DEFINITION_CLASS ? NO_AGENT_FOR_DEFINITIONS : undefined,
    onFault: ({ call, error, operation }) => {
      if (operation === "report") {
        unreported.add(call.id)
        faults.set(call, error)
      }
      log(`${FAULTS[operation]} ${call.tool} (${call.id}): ${describe(error)}`)
    }
  }
  // The journal keeps an outcome until it is recorded.
  const gate = makeToolGate(gateOptions, undefined, { inBackground: false })
  /** Claimed calls, whose claims are renewed until their outcomes are reported, also while a server's question waits for the client. */
  const claimed = new CallMap<ToolCall>()

  /** Reports an outcome, again and again while the service is out of reach. `onUnreachable` runs before each repetition. */
  const reportEnd = Effect.fnUntraced(function* (
    run: OpenRun,
    { claim_id, session, step_id, tool }: CallRecord,
    end: CallEnd,
    onUnreachable: Effect.Effect<unknown> = Effect.void
  ) {
    // The session of a call that was left can be closed meanwhile: it takes no outcomes.
    if (session !== run.session) return undefined
    const call = claimed.take(step_id) ?? { id: step_id, tool, arguments: undefined }
    for (unreported.add(step_id); ; faults.delete(call)) {
      yield* Effect.promise(() => gate.report(call, undefined, toolEnd(end), claim_id ?? undefined))
      const fault = faults.get(call)
      if (fault === undefined) return void unreported.delete(step_id)
      // Nothing is recorded of an unknown end: its lease ends in any case.
      if (end.isUnknown || !isUnavailable(fault)) return undefined
      yield* onUnreachable
      yield* Effect.sleep(UNREACHABLE_MILLIS)
    }
  })

  /** Reports an outcome to the service, and then removes the call from the journal, which has it until then. The client has the response. */
  const conclude = (run: OpenRun, record: CallRecord, end: CallEnd) =>
    reportEnd(
      run,
      record,
      end,
      Effect.promise(() => run.journal.delivered(record.step_id))
    ).pipe(
      Effect.andThen(Effect.promise(() => run.journal.forget(record.step_id))),
      Effect.catchCause((cause) => Effect.sync(() => log(describe(Cause.squash(cause)))))
    )

  /** Asks about a call. One that was claimed before and not sent keeps its claim. */
  const ask = Effect.fnUntraced(function* (given: ToolCall, wait: boolean, claim: ClaimOptions) {
    const call = claimed.get(given.id) ?? given
    const verdict = yield* Effect.promise((signal) => gate.ask(call, undefined, { signal, wait, ...claim }))
    if (verdict.verdict === "allow" && verdict.claim !== undefined) claimed.set(call.id, call)
    return verdict
  })

  const open = async (): Promise<OpenRun> => {
    opening ??= openRun({
      directory: options.directory,
      client,
      session: options.session,
      metadata: () => ({ gate: "mcp", mcp_server: options.server, mcp_client: clientName() }),
      log
    })
    const { journal, left, ...opened } = await opening
    const run = { journal, session: await opened.session() }
    for (const call of left) {
      const { record } = call
      // The approvals of a closed session are void. A call that was sent stays known: it must not be sent again.
      if (call.state === "asked" && record.session !== run.session) {
        await journal.forget(record.step_id)
        continue
      }
      if (call.state === "ended" && call.isDelivered) {
        runReport(conclude(run, record, call.end))
        continue
      }
      log(`${record.tool} (${record.step_id}) was left by the gate before: ${LEFT[call.state]}`)
      if (call.state === "asked") {
        leftCalls.push(call)
        continue
      }
      const end =
        call.state === "ended" ? call.end : unknownEnd("the gate was stopped before the server had answered.")
      if (call.state === "interrupted") await journal.ended(record.step_id, end)
      runReport(reportEnd(run, record, end))
      leftCalls.push({ state: "ended", record, end, isDelivered: false })
    }
    return run
  }

  // Opened by the first step: a client that only lists tools leaves nothing.
  let opening: Promise<GateRun> | undefined
  let ready: Promise<OpenRun> | undefined
  const openOnce = (): Promise<OpenRun> =>
    (ready ??= open().catch((error: unknown) => {
      // The next call tries again.
      ready = undefined
      throw error
    }))

  const leave = (record: CallRecord): void => void leftCalls.push({ state: "asked", record })

  return {
    /** Opens the run with the calls of the gate before. Fails if the service cannot be reached. */
    run: Effect.tryPromise({ try: openOnce, catch: (cause) => new NoSession({ cause }) }),

    /** Asks about a call, without a wait for a person. */
    ask: (call: ToolCall, claim: ClaimOptions = { claim: false }) => ask(call, false, claim),

    /** Whether the claim of a step is renewed by this process. */
    isClaimed: (step_id: string) => claimed.get(step_id) !== undefined,

    report: (call: ToolCall, end: ToolEnd) => Effect.promise(() => gate.report(call, undefined, end)),

    /** Waits for the decision about a call that is pending, also while the service is gone. */
    waitForPerson: Effect.fnUntraced(function* (call: ToolCall, claim: ClaimOptions = { claim: false }) {
      for (;;) {
        const verdict = yield* ask(call, true, claim)
        if (verdict.verdict !== "deny" || verdict.cause !== "unreachable") return verdict
        yield* Effect.sleep(UNREACHABLE_MILLIS)
      }
    }),

    /** Finds a call in the journal, or begins it. `state`: that of its request, if the client has one. */
    takeUp: Effect.fnUntraced(function* (
      { journal, session }: OpenRun,
      content: CallContent,
      state: RequestState | undefined
    ) {
      if (state !== undefined) yield* FiberMap.remove(carriedCalls, state.step_id)
      const index = leftCalls.findIndex(({ record, ...left }) =>
        state === undefined
          ? record.digest === content.digest &&
            record.action_class === content.action_class &&
            // A call that may have been executed is answered under any definition.
            (left.state !== "asked" || record.definition === content.definition)
          : record.step_id === state.step_id
      )
      const [left] = index === -1 ? [] : leftCalls.splice(index, 1)
      if (left !== undefined) return left
      return yield* Effect.promise(async (): Promise<TakenCall> => {
        const found = state === undefined ? undefined : await journal.find(state.step_id)
        if (found !== undefined) return found
        const step_id = state?.step_id ?? `call_${randomUUID().replaceAll("-", "")}`
        const record = { ...content, session, step_id, claim_key: randomUUID(), claim_id: null }
        await journal.asked(record)
        return { state: state === undefined ? "new" : "asked", record }
      })
    }),

    /** Leaves a call that was not sent: the same call goes on with it. */
    leave,

    /** Leaves a call whose client holds a request state: its next request names the step, so that an equal call is another one until then. */
    carry: (record: CallRecord) =>
      Effect.sync(() => leave(record)).pipe(
        Effect.delay(ABANDONED_MILLIS),
        FiberMap.run(carriedCalls, record.step_id)
      ),

    /** `conclude` in a fiber of its own. */
    conclude: (run: OpenRun, record: CallRecord, end: CallEnd) =>
      FiberSet.run(reports, conclude(run, record, end)),

    /** Waits until the outcomes are reported. */
    reported: FiberSet.awaitEmpty(reports),

    /** Ends the run. `hasQuestions`: people are asked about definitions. */
    end: (hasQuestions: boolean): Effect.Effect<void> =>
      Effect.promise(async () => {
        const opened = await opening
        if (opened === undefined) return
        const calls = (await opened.journal.left()).filter(({ state }) => state !== "ended")
        const hasOpenCalls = calls.length > 0 || hasQuestions || unreported.size > 0
        if (hasOpenCalls)
          log("the session stays open for what waits; the next gate in front of this server continues it")
        await opened.end({ hasOpenCalls })
      })
  }
})
