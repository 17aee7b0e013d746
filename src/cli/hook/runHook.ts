import canonicalize from "canonicalize"
import { createHash, randomUUID } from "node:crypto"
import { makeToolGate } from "../../adapters/toolGate.ts"
import type { GateFault, GateOptions, ToolCall, Verdict } from "../../adapters/toolGate/publicTypes.ts"
import { connect, type CountersignClient } from "../../client/connect/index.ts"
import { isProblem } from "../../client/connect/Problem.ts"
import {
  answerAsk,
  answerFault,
  answerNote,
  canDefer,
  faultMessage,
  type HookAnswer,
  type HookDecision,
  OTHER_DEFERRED
} from "../../domain/hooks/hookAnswer.ts"
import {
  comparedArguments,
  type HookAsk,
  type HookEnd,
  type HookReport,
  parseHookInput
} from "../../domain/hooks/HookInput.ts"
import { hookActionClass } from "../../domain/hooks/hookVendors.ts"
import { makeDirectories } from "../../server/store/makeDirectories.ts"
import { describePathFailure } from "../fileFailure.ts"
import { describeServiceFailure } from "../serviceFailure.ts"
import type { HookOptions } from "./hookOptions.ts"
import { HookState, isAlive } from "./HookState.ts"

/** The output of a hook, and its exit code. */
export interface HookResult {
  readonly stdout: string
  readonly stderr: string
  readonly code: number
}

/** The exit code that blocks in both coding agents. With it, they read the reason from stderr. */
export const BLOCK = 2

/** Most bytes of an input. The service takes 4 MiB of arguments and of a result. */
export const MAX_INPUT_BYTES = 32 * 2 ** 20

/** Time for everything but the wait for a person: the timeout of a hook in the settings must be longer than both. */
const MARGIN_MILLIS = 30_000

/**
 * How long a claim lasts. No process runs between the hooks before and after a call that could renew it: a call that takes longer is recorded as
 * late, and one whose coding agent was killed is unknown from then on.
 */
const LEASE_SECONDS = 3_600

/** Time for the end of a session, for which Claude Code has 1.5 seconds unless the settings say more. */
const END_MILLIS = 8_000

/** Times that a session is created again because it was closed meanwhile. */
const MAX_REOPENED = 3

/** A denial of a hook that cannot work, such as without a key. */
export const deniedResult = (reason: string): HookResult => {
  const message = `countersign hook: ${reason}`
  return { stdout: "", stderr: `${message}\n`, code: BLOCK }
}

/** Answers one input of a hook. Never rejects: every failure is a denial. */
export const runHook = async (options: HookOptions, input: Uint8Array): Promise<HookResult> => {
  const { vendor } = options
  const event = parseHookInput(vendor, decodeText(input))
  if (event._tag === "Fault") {
    const answer = answerFault(vendor, event)
    return { ...printed(answer, [faultMessage(event)]), code: event.canBlock ? BLOCK : 1 }
  }
  const lines: Array<string> = []
  let client: CountersignClient | undefined
  try {
    await makeDirectories(options.state, 0o700)
    client = connect({ url: options.url, key: options.key })
    const hook = new Hook(options, client, event.session, (line) => lines.push(line))
    switch (event._tag) {
      case "Ask":
        return printed(answerAsk(vendor, event.event, await hook.ask(event)), lines)
      case "Report":
        await hook.report(event)
        // The call has been executed: nothing is left to deny, and the user gets a message.
        return printed(answerNote(lines.length === 0 ? undefined : lines.join(" ")), lines)
      case "End":
        await hook.end(event)
        return printed({}, lines)
    }
  } catch (error) {
    const message = `Countersign could not decide about this call, so it was not executed: ${describe(error)}`
    if (event._tag !== "Ask") return printed({}, [...lines, describe(error)])
    return printed(answerAsk(vendor, event.event, { verdict: "deny", message }), [...lines, message])
  } finally {
    await client?.close()
  }
}

const printed = (answer: HookAnswer, lines: ReadonlyArray<string>): HookResult => ({
  stdout: `${JSON.stringify(answer)}\n`,
  stderr: lines.map((line) => `countersign hook: ${line.toWellFormed()}\n`).join(""),
  code: 0
})

const describe = (error: unknown): string =>
  describeServiceFailure(error) ??
  describePathFailure(error) ??
  (error instanceof Error ? error.message : String(error))

/** The text of an input; an empty text if it is not UTF-8, which is then not JSON. */
const decodeText = (input: Uint8Array): string => {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(input)
  } catch {
    return "not UTF-8"
  }
}

/** The hook of one session of a coding agent. */
class Hook {
  readonly #options: HookOptions
  readonly #client: CountersignClient
  readonly #codingSession: string
  readonly #state: HookState
  readonly #scope: string
  readonly #print: (line: string) => void

  constructor(
    options: HookOptions,
    client: CountersignClient,
    session: string,
    print: (line: string) => void
  ) {
    this.#options = options
    this.#client = client
    this.#codingSession = session
    // Another service or another key has its own sessions. A digest: the key itself is in no file and no header.
    this.#scope = createHash("sha256")
      .update(JSON.stringify([options.url, options.key, options.vendor]))
      .digest("hex")
    this.#state = new HookState(options.state, this.#scope, session)
    this.#print = print
  }

  async ask(event: HookAsk): Promise<HookDecision> {
    const { defer, vendor, waitMillis } = this.#options
    const { repeat, waitingKey, ...call } = this.#callFor(event)
    const state = this.#state
    const ended = new AbortController()
    const signal = AbortSignal.any([AbortSignal.timeout(waitMillis + MARGIN_MILLIS), ended.signal])
    const claimKey = state.claimKey(call.id)
    let watch: AgentWatch | undefined
    try {
      let verdict = await this.#askOpen(call, claimKey, signal)
      if (verdict.verdict === "pending") {
        watch = watchAgent(this.#options.findAgent(), ended)
        const defers = defer && canDefer(vendor, event)
        if (defers) {
          state.saveWaiting(waitingKey, call.id, null)
          return state.claimDeferred(call.id)
            ? { verdict: "defer", message: verdict.message }
            : { verdict: "deny", message: `${verdict.message} ${OTHER_DEFERRED}` }
        }
        if (!defer && waitMillis > 0) {
          state.saveWaiting(waitingKey, call.id, { pid: process.pid, agent: watch.agent })
          verdict = await this.#gate().ask(call, undefined, { signal, claimKey })
        }
      }
      if (verdict.verdict === "pending") {
        state.saveWaiting(waitingKey, call.id, null)
        return {
          verdict: "deny",
          message: `${verdict.message} Nothing has been rejected: the same call with the same arguments asks again.`
        }
      }
      // The service gave no answer, and may have asked a person; or a reviewer asks the model. The same call goes on with the step.
      if (verdict.verdict === "deny" && (verdict.cause === "unreachable" || verdict.cause === "question")) {
        state.saveWaiting(waitingKey, call.id, null)
        return { verdict: "deny", message: verdict.message }
      }
      const step_id = verdict.decision?.step_id
      if (verdict.verdict === "allow" && verdict.claim !== undefined)
        state.saveClaim(verdict.claim.step_id, { claim_id: verdict.claim.id, key: claimKey })
      // An unread answer decides nothing: the resumed session asks for it.
      watch?.check()
      if (event.callId !== undefined && step_id !== undefined)
        state.saveCall(event.callId, { id: call.id, repeat, answered_step: step_id })
      if (verdict.verdict === "allow" && step_id !== undefined)
        state.saveAllowed(callKey(event.tool, comparedArguments(vendor, event)), step_id)
      state.forgetWaiting(waitingKey, call.id)
      state.forgetDeferred(call.id)
      return verdict.verdict === "allow"
        ? { verdict: "allow" }
        : { verdict: "deny", message: verdict.message }
    } finally {
      watch?.stop()
    }
  }

  async report(event: HookReport): Promise<void> {
    // Without a session nothing was asked.
    const saved = this.#state.session
    if (saved === undefined || saved.session_id === null) return
    const key = callKey(event.tool, event.arguments)
    const known = this.#state.call(event.callId)
    const allowed = this.#state.allowed(key)
    const permission = allowed?.startsWith(PERMISSION) === true ? allowed : undefined
    const step_id = known?.answered_step ?? permission ?? event.callId
    const timer = setTimeout(() => void this.#client.close(), MARGIN_MILLIS)
    try {
      const call = { id: step_id, tool: event.tool, arguments: event.arguments }
      await this.#gate(saved.session_id).report(
        call,
        undefined,
        event.end,
        this.#state.claim(step_id)?.claim_id
      )
    } finally {
      clearTimeout(timer)
    }
    this.#state.forgetAllowed(key, step_id)
    this.#state.forgetClaim(step_id)
    // After a second call with this ID, a third must not be taken for one that had no outcome.
    if (known?.repeat === 1) this.#state.forgetCall(event.callId)
  }

  /** Closes the agent session, unless a step waits: the coding agent's session can be resumed, as a deferred run is. */
  async end(_event: HookEnd): Promise<void> {
    this.#state.forgetDeferred()
    const saved = this.#state.session
    if (saved === undefined || saved.session_id === null || this.#state.hasWaiting) return
    await this.#client.sessions.close(
      { params: { id: saved.session_id } },
      { signal: AbortSignal.timeout(END_MILLIS) }
    )
    this.#state.clear(saved.generation)
  }

  /**
   * The call under the ID that the service is asked with, noted as waiting. A hook that is killed after it has asked a person, and the next
   * equal call goes on with its ID.
   */
  #callFor(event: HookAsk): ToolCall & { readonly waitingKey: string; readonly repeat: number } {
    const { callId, tool } = event
    const state = this.#state
    const waitingKey = callKey(tool, event.arguments)
    const waiter = { pid: process.pid }
    const call = { tool, arguments: event.arguments, waitingKey, repeat: 1 }
    if (callId === undefined) {
      // `PreToolUse` of the same call comes before. It is the same step, and decided already.
      const compared = comparedArguments(this.#options.vendor, event)
      const allowed = state.allowed(callKey(tool, compared))
      const isDecided = allowed !== undefined && !allowed.startsWith(PERMISSION)
      const id = isDecided ? allowed : (state.takeWaiting(waitingKey) ?? `${PERMISSION}${randomUUID()}`)
      state.saveWaiting(waitingKey, id, waiter)
      return isDecided ? { ...call, id, arguments: compared } : { ...call, id }
    }
    const saved = state.call(callId)
    const isOpen = saved === undefined ? state.isWaiting(waitingKey, callId) : saved.answered_step === null
    const open = saved?.id ?? callId
    // The same call again, after its run was resumed.
    if (isOpen && state.claimWaiting(waitingKey, open, waiter))
      return { ...call, id: open, repeat: saved?.repeat ?? 1 }
    const taken = state.takeWaiting(waitingKey)
    if (taken !== undefined) {
      const repeat = saved?.repeat ?? 1
      state.saveWaiting(waitingKey, taken, waiter)
      state.saveCall(callId, { id: taken, repeat, answered_step: null })
      return { ...call, id: taken, repeat }
    }
    // Another call with an ID that was answered, or that another process waits with.
    for (let repeat = (saved?.repeat ?? 0) + 1; ; repeat++) {
      const id = repeat === 1 ? callId : `${callId}#${repeat}`
      if (!state.claimWaiting(waitingKey, id, waiter)) continue
      if (repeat > 1) state.saveCall(callId, { id, repeat, answered_step: null })
      return { ...call, id, repeat }
    }
  }

  /** Asks once, without a wait, in a session that is open. */
  async #askOpen(call: ToolCall, claimKey: string, signal: AbortSignal): Promise<Verdict> {
    for (let attempt = 0; ; attempt++) {
      const session = await this.#session(signal)
      const verdict = await this.#gate(session.session_id).ask(call, undefined, {
        wait: false,
        signal,
        claimKey
      })
      const isClosed = verdict.verdict === "deny" && verdict.problem?.code === "SESSION_CLOSED"
      if (!isClosed || attempt >= MAX_REOPENED) return verdict
      // Closed by the end of an earlier run, or by a person. Another hook can have noticed first.
      if (this.#state.session?.session_id === session.session_id) {
        this.#state.saveSession({ session_id: null, generation: session.generation })
      }
    }
  }

  #gate(id?: string) {
    const session = id ?? this.#state.session?.session_id ?? ""
    const options: GateOptions = {
      client: this.#client,
      session,
      actionClass: ({ tool }) => hookActionClass(this.#options.vendor, tool),
      timeout: this.#options.waitMillis,
      leaseSeconds: LEASE_SECONDS,
      // A coding agent does not repeat a call that ended.
      repeatedIds: "new",
      onFault: ({ call, error, operation }: GateFault) => {
        if (isProblem(error, "SESSION_CLOSED") && operation === "ask") return
        this.#print(
          operation === "ask"
            ? `No decision about ${call.tool}: ${describe(error)}`
            : `The outcome of ${call.tool} was not recorded: ${describe(error)}`
        )
      }
    }
    // The agent waits until this process ends.
    return makeToolGate(options, undefined, { inBackground: false })
  }

  /** The agent session of this session of the coding agent. Parallel hooks create one: they send the same idempotency key. */
  async #session(signal: AbortSignal): Promise<{ readonly session_id: string; readonly generation: number }> {
    const saved = this.#state.session
    if (saved !== undefined && saved.session_id !== null) return { ...saved, session_id: saved.session_id }
    const generation = saved === undefined ? 0 : saved.generation + 1
    const directory = process.env["CLAUDE_PROJECT_DIR"]
    const metadata = {
      coding_agent: this.#options.vendor,
      coding_session: this.#codingSession,
      // A receiver of notifications resumes these runs, and no others.
      ...(this.#options.defer ? { deferred: true } : {}),
      ...(directory === undefined || directory.length > MAX_DIRECTORY ? {} : { directory })
    }
    const name = createHash("sha256")
      .update(JSON.stringify([this.#scope, metadata, generation]))
      .digest("hex")
    const { session_id } = await this.#client.sessions.create(
      { headers: { "idempotency-key": `hook-${name}` }, payload: { metadata } },
      { signal }
    )
    this.#state.saveSession({ session_id, generation })
    await Promise.allSettled(
      this.#state.sweep(Date.now()).map((id) => this.#client.sessions.close({ params: { id } }, { signal }))
    )
    return { session_id, generation }
  }
}

/** How often a hook that waits looks for its coding agent. */
const WATCH_MILLIS = 1_000

interface AgentWatch {
  readonly agent: number | undefined
  /** Throws if the coding agent has ended. */
  readonly check: () => void
  readonly stop: () => void
}

/** Aborts when the coding agent has ended, or the shell between it and this process. */
const watchAgent = (agent: number | undefined, abort: AbortController): AgentWatch => {
  const parent = process.ppid
  const check = () => {
    if (process.ppid === parent && (agent === undefined || isAlive(agent))) return
    abort.abort(new Error("the coding agent has ended; the call asks again when its session is resumed"))
    abort.signal.throwIfAborted()
  }
  const timer = setInterval(() => {
    try {
      check()
    } catch {
      clearInterval(timer)
    }
  }, WATCH_MILLIS)
  return { agent, check, stop: () => clearInterval(timer) }
}

/** Begins the IDs of steps that only a permission was asked for: that event has no ID of the call. */
const PERMISSION = "permission_"

/** Most characters of a directory's name in a session's metadata. */
const MAX_DIRECTORY = 4_000

/** The digest by which two calls are equal. Throws if the arguments have no canonical form, such as with half of a character. */
const callKey = (tool: string, input: unknown): string => {
  const text = canonicalize(input)
  if (text === undefined) throw new TypeError("the arguments are not JSON")
  return `${tool}\n${text}`
}
