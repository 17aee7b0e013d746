import canonicalize from "canonicalize"
import { createHash, randomUUID } from "node:crypto"
import { type GateFault, makeToolGate, type ToolCall, type Verdict } from "../../adapters/toolGate.ts"
import { connect, type CountersignClient } from "../../client/connect/index.ts"
import { isProblem } from "../../client/connect/Problem.ts"
import {
  answerAsk,
  answerFault,
  answerNote,
  canDefer,
  faultMessage,
  type HookAnswer,
  type HookDecision
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
import { HookState } from "./HookState.ts"

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
    const { vendor, waitMillis } = this.#options
    const { waitingKey, ...call } = this.#callFor(event)
    const step_id = call.id
    const signal = AbortSignal.timeout(waitMillis + MARGIN_MILLIS)

    // Before the service knows the step: a hook that is killed in between has asked a person, and the next call takes its step over.
    this.#state.saveWaiting(waitingKey, step_id, process.pid)
    let verdict = await this.#askOpen(call, signal)
    if (verdict.verdict === "pending") {
      const defers = this.#options.defer && canDefer(vendor, event)
      const waits = !this.#options.defer && waitMillis > 0
      if (!waits) this.#state.saveWaiting(waitingKey, step_id, null)
      if (defers) return { verdict: "defer", message: verdict.message }
      if (waits) verdict = await this.#gate().ask(call, undefined, { signal })
    }
    if (verdict.verdict === "pending") {
      this.#state.saveWaiting(waitingKey, step_id, null)
      return {
        verdict: "deny",
        message: `${verdict.message} Nothing has been rejected: the same call with the same arguments asks again.`
      }
    }
    this.#state.forgetWaiting(waitingKey, step_id)
    if (verdict.verdict === "deny") return { verdict: "deny", message: verdict.message }
    this.#state.saveAllowed(callKey(event.tool, comparedArguments(vendor, event)), step_id)
    return { verdict: "allow" }
  }

  async report(event: HookReport): Promise<void> {
    // Without a session nothing was asked.
    const saved = this.#state.session
    if (saved === undefined || saved.session_id === null) return
    const key = callKey(event.tool, event.arguments)
    const allowed = this.#state.allowed(key)
    const permission = allowed?.startsWith(PERMISSION) === true ? allowed : undefined
    const step_id = this.#state.stepOf(event.callId) ?? permission ?? event.callId
    const timer = setTimeout(() => void this.#client.close(), MARGIN_MILLIS)
    try {
      const call = { id: step_id, tool: event.tool, arguments: event.arguments }
      await this.#gate(saved.session_id).report(call, undefined, event.end)
    } finally {
      clearTimeout(timer)
    }
    this.#state.forgetAllowed(key, event.callId, step_id)
  }

  /** Closes the agent session, unless a step waits: the coding agent's session can be resumed, as a deferred run is. */
  async end(_event: HookEnd): Promise<void> {
    const saved = this.#state.session
    if (saved === undefined || saved.session_id === null || this.#state.hasWaiting) return
    await this.#client.sessions.close(
      { params: { id: saved.session_id } },
      { signal: AbortSignal.timeout(END_MILLIS) }
    )
    this.#state.clear(saved.generation)
  }

  /** The call under its step: one that it was asked under before, one with equal arguments that no process waits for, or its own. */
  #callFor(event: HookAsk): ToolCall & { readonly waitingKey: string } {
    const { callId, tool } = event
    const waitingKey = callKey(tool, event.arguments)
    const call = { tool, arguments: event.arguments, waitingKey }
    if (callId === undefined) {
      // `PreToolUse` of the same call comes before. It is the same step, and decided already.
      const compared = comparedArguments(this.#options.vendor, event)
      const allowed = this.#state.allowed(callKey(tool, compared))
      return allowed === undefined || allowed.startsWith(PERMISSION)
        ? { ...call, id: this.#state.takeWaiting(waitingKey) ?? `${PERMISSION}${randomUUID()}` }
        : { ...call, id: allowed, arguments: compared }
    }
    const saved = this.#state.stepOf(callId)
    if (saved !== undefined) return { ...call, id: saved }
    const taken = this.#state.isWaiting(waitingKey, callId) ? undefined : this.#state.takeWaiting(waitingKey)
    if (taken === undefined) return { ...call, id: callId }
    this.#state.saveStepOf(callId, taken)
    return { ...call, id: taken }
  }

  /** Asks once, without a wait, in a session that is open. */
  async #askOpen(call: ToolCall, signal: AbortSignal): Promise<Verdict> {
    for (let attempt = 0; ; attempt++) {
      const session = await this.#session(signal)
      const verdict = await this.#gate(session.session_id).ask(call, undefined, { wait: false, signal })
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
    return makeToolGate({
      client: this.#client,
      session,
      actionClass: ({ tool }) => hookActionClass(this.#options.vendor, tool),
      timeout: this.#options.waitMillis,
      onFault: ({ call, error, operation }: GateFault) => {
        if (isProblem(error, "SESSION_CLOSED") && operation === "ask") return
        this.#print(
          operation === "ask"
            ? `No decision about ${call.tool}: ${describe(error)}`
            : `The outcome of ${call.tool} was not recorded: ${describe(error)}`
        )
      }
    })
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
