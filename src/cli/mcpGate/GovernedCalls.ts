import { randomUUID } from "node:crypto"
import {
  type Allowed,
  type Denied,
  makeToolGate,
  type Pending,
  type ToolCall,
  type ToolGate
} from "../../adapters/toolGate.ts"
import { sleep } from "../../client/connect/wait.ts"
import { unknownEnd } from "./callResults.ts"
import { describe } from "./describe.ts"
import { type GateRun, openRun } from "./GateRun.ts"
import type { CallEnd, CallRecord, Journal, LeftCall } from "./Journal.ts"
import type { McpGateOptions } from "./McpGate.ts"
import type { RequestState } from "./requestState.ts"

/** A call whose client was shown a link and sent nothing for this time goes on with the next request for the same call. */
const ABANDONED_MILLIS = 60_000

/** Delay before the service is asked again about a call that it knows and a person decides. */
const UNREACHABLE_MILLIS = 5_000

/** The run of the gate, once its session is known. */
export interface OpenRun {
  readonly journal: Journal
  readonly session: string
}

/** The governed calls of a gate: its session, its journal, and the outcomes that are reported. */
export interface GovernedCalls {
  /** Opens the run with the calls of the gate before. Rejects if the service cannot be reached. */
  readonly run: () => Promise<OpenRun>
  readonly ask: ToolGate<undefined>["ask"]
  readonly report: ToolGate<undefined>["report"]
  /** Waits for the decision about a call that is pending, also while the service is gone. Rejects if the signal is aborted. */
  readonly waitForPerson: (call: ToolCall, signal: AbortSignal) => Promise<Allowed | Denied | Pending>
  /** Finds a call in the journal, or begins it. `state`: that of its request, if the client has one. */
  readonly takeUp: (
    run: OpenRun,
    content: Omit<CallRecord, "session" | "step_id">,
    state: RequestState | undefined
  ) => Promise<LeftCall>
  /** Leaves a call that was not sent: the same call goes on with it. */
  readonly leave: (record: CallRecord) => void
  /** Leaves a call whose client holds a request state: its next request names the step, so that an equal call is another one until then. */
  readonly carry: (record: CallRecord) => void
  /** Reports an outcome to the service, and then removes the call from the journal, which has it until then. */
  readonly conclude: (record: CallRecord, end: CallEnd) => Promise<void>
  /** Whether outcomes are being reported. */
  readonly hasReports: () => boolean
  /** Ends the run. `hasQuestions`: people are asked about definitions. */
  readonly end: (hasQuestions: boolean) => Promise<void>
}

export const makeGovernedCalls = (
  options: Pick<McpGateOptions, "client" | "directory" | "log" | "server" | "session">,
  clientName: () => string
): GovernedCalls => {
  const { client, log } = options
  const reports = new Set<Promise<void>>()
  let isReported = true

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

  const track = (reporting: Promise<void>): Promise<void> => {
    const tracked = reporting.finally(() => reports.delete(tracked))
    reports.add(tracked)
    return tracked
  }

  const reportEnd = (record: CallRecord, end: CallEnd): Promise<void> => {
    const { failure, response } = end
    const call: ToolCall = { id: record.step_id, tool: record.tool, arguments: undefined }
    return track(
      gate.report(
        call,
        undefined,
        failure === null
          ? { status: "succeeded", result: "result" in response ? response.result : null }
          : { status: "failed", error: failure }
      )
    )
  }

  /** Calls of an earlier process or a cancelled request. The same call goes on with one of them. */
  const leftCalls: Array<LeftCall> = []
  const takeLeft = (matches: (record: CallRecord) => boolean): LeftCall | undefined => {
    const index = leftCalls.findIndex(({ record }) => matches(record))
    return index === -1 ? undefined : leftCalls.splice(index, 1)[0]
  }
  const leave = (record: CallRecord): void => void leftCalls.push({ state: "asked", record })

  /** Calls whose clients hold a request state. */
  const carriedCalls = new Map<string, NodeJS.Timeout>()

  /** Says in the journal and to the service that the outcome of a call is unknown. */
  const giveUp = async ({ journal }: GateRun, record: CallRecord, reason: string): Promise<LeftCall> => {
    const end = unknownEnd(reason)
    await journal.ended(record.step_id, end)
    void reportEnd(record, end)
    return { state: "ended", record, end }
  }

  const open = async (): Promise<OpenRun> => {
    opening ??= openRun({
      directory: options.directory,
      client,
      session: options.session,
      metadata: () => ({ gate: "mcp", mcp_server: options.server, mcp_client: clientName() }),
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
      if (left.state === "ended") void reportEnd(record, left.end)
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

  return {
    run,
    ask: gate.ask,
    report: gate.report,
    waitForPerson: async (call, signal) => {
      for (;;) {
        const verdict = await gate.ask(call, undefined, { signal })
        if (verdict.verdict !== "deny" || verdict.cause !== "unreachable") return verdict
        await sleep(UNREACHABLE_MILLIS, signal)
      }
    },
    takeUp: async ({ journal, session }, content, state) => {
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
    },
    leave,
    carry: (record) => {
      const abandon = () => {
        carriedCalls.delete(record.step_id)
        leave(record)
      }
      carriedCalls.set(record.step_id, setTimeout(abandon, ABANDONED_MILLIS).unref())
    },
    conclude: async (record, end) => {
      const { journal } = await run()
      void track(
        reportEnd(record, end)
          .then(() => journal.forget(record.step_id))
          .catch((error: unknown) => log(describe(error)))
      )
    },
    hasReports: () => reports.size > 0,
    end: async (hasQuestions) => {
      const opened = await opening
      if (opened === undefined) return
      const calls = (await opened.journal.left()).filter(({ state }) => state !== "ended")
      const hasOpenCalls = calls.length > 0 || hasQuestions || !isReported
      if (hasOpenCalls)
        log("the session stays open for what waits; the next gate in front of this server continues it")
      await opened.end({ hasOpenCalls })
    }
  }
}

const LEFT: Readonly<Record<LeftCall["state"], string>> = {
  asked: "it was not executed; the same call goes on with its approval",
  interrupted: "it is unknown whether it was executed; it is not sent again",
  ended: "it was executed; the same call gets its result"
}
