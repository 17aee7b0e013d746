/**
 * `countersign/openai-agents`: Countersign in front of the tools of the OpenAI Agents SDK (`@openai/agents`).
 *
 * ```ts
 * import * as agents from "@openai/agents"
 *
 * const { run, tool } = governAgents(agents, { client, session })
 * ```
 *
 * `tool` and `run` have the types of the SDK's own, and replace them. A call that waits for a person interrupts the run, whose state can be
 * saved and resumed by another process.
 */
import { CallMap } from "./toolGate/CallMap.ts"
import { withIdempotencyKey } from "./toolGate/withIdempotencyKey.ts"
import { type AskOptions, makeToolGate } from "./toolGate.ts"
import type { GateOptions, ToolCall, Verdict } from "./toolGate/publicTypes.ts"
import { describeUngoverned, type UngovernedSettings } from "./ungoverned.ts"

export type * from "./toolGate/publicTypes.ts"

/** The functions of the SDK: the module itself, or an object with these two. */
export interface AgentsModule {
  readonly tool: (definition: never) => unknown
  readonly run: (agent: never, input: never, options?: never) => Promise<unknown>
}

/** The SDK's `RunContext`. */
export interface RunContext {
  /** The `context` that the application passed to `run`. */
  readonly context: unknown
}

/** A call that waits for a decision: the SDK's `RunToolApprovalItem`. */
export interface ApprovalItem {
  readonly type: "tool_approval_item"
  readonly rawItem: object
}

/** A result of the SDK's `run`. */
export interface RunResult {
  readonly interruptions?: ReadonlyArray<ApprovalItem>
  readonly runContext: RunContext
  readonly state: {
    approve(item: ApprovalItem): void
    reject(item: ApprovalItem, options: { message: string }): void
    toString(): string
  }
}

/** Options of {@link governAgents}. */
export type AgentsOptions<Run extends RunContext = RunContext> = GateOptions<Run> &
  UngovernedSettings & {
    /**
     * Called with `RunState.toString()` before the run waits for a person. To go on in another process, pass `RunState.fromString(agent, state)`
     * to `run` there.
     */
    readonly save?: (state: string, run: Run) => void | Promise<void>
  }

/** How the decisions about interruptions are asked for. */
export type DecideOptions = Pick<AskOptions, "signal" | "wait">

/** What {@link governAgents} returns. */
export interface GovernedAgents<Module extends AgentsModule> {
  /**
   * The SDK's `tool`, for tools that ask Countersign before they are executed, and report how they ended. `needsApproval` of the definition is
   * replaced.
   */
  readonly tool: Module["tool"]
  /**
   * The SDK's `run`, which also waits for people and resumes the run. It returns a result with `interruptions` only if a call still waits after
   * the `timeout`, or if a tool that is not governed asks for approval. A streamed run is not waited for: use `decide` when it has ended.
   *
   * Rejects if the agent, or one that it can hand off to, has a tool, an MCP server or a sandbox's capability that is neither governed nor
   * listed in `ungoverned`.
   */
  readonly run: Module["run"]
  /**
   * Waits for the decisions about the interruptions of a result, and approves or rejects them in its state. Returns whether the run can be
   * resumed: false if a call still waits, or is not of a governed tool. With `wait: false` it returns at once.
   */
  readonly decide: (result: RunResult, options?: DecideOptions) => Promise<boolean>
}

/** The part of a tool's definition that is replaced. */
interface ToolDefinition {
  readonly name?: string
  readonly execute: (input: unknown, context?: RunContext, details?: CallDetails) => unknown
}

interface CallDetails {
  readonly toolCall?: { readonly callId: string }
  readonly signal?: AbortSignal
  /** Added by the gate: the same for every attempt of the call. */
  readonly idempotencyKey?: string
}

interface RunOptions {
  readonly signal?: AbortSignal
  readonly stream?: boolean
}

/** The SDK's functions as they are called here. */
interface CallableModule {
  readonly tool: (definition: object) => { readonly name: string }
  readonly run: (agent: Agent, input: unknown, options?: RunOptions) => Promise<RunResult>
}

/** The parts of an agent that execute something. */
interface Agent {
  readonly tools: ReadonlyArray<object & { readonly name?: string; readonly type: string }>
  readonly mcpServers: ReadonlyArray<{ readonly name: string }>
  readonly handoffs: ReadonlyArray<Agent | { readonly agent: Agent }>
  /** Of a sandbox's agent: they give it further tools, such as a shell. */
  readonly capabilities?: ReadonlyArray<{ readonly type: string }>
}

/** A call that the SDK wants to execute, and the service's last verdict. */
interface AskedCall {
  readonly call: ToolCall
  readonly verdict: Verdict
}

/** Tools made by a governed `tool`, also with other options. */
const GOVERNED = new WeakSet<object>()

/** Returns `tool` and `run` of the SDK, governed. */
export const governAgents = <Module extends AgentsModule, Run extends RunContext = RunContext>(
  module: Module,
  options: AgentsOptions<Run>
): GovernedAgents<Module> => {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- its definitions and results have these parts; the rest is passed through
  const sdk = module as unknown as CallableModule
  const gate = makeToolGate(options)
  const asked = new CallMap<AskedCall>()

  /** Identifies a step: another run of this process can have a call with the same ID, in another session. */
  const keyOf = async (context: Run, callId: string): Promise<string> =>
    `${typeof options.session === "string" ? "" : await options.session(context)} ${callId}`

  const tool = (definition: ToolDefinition): unknown => {
    const governed = sdk.tool({
      ...definition,
      name: definition.name ?? definition.execute.name,
      // The SDK calls it before each execution of a call that was not approved or rejected, with a copy of the validated input.
      needsApproval: async (context: Run, input: unknown, callId = ""): Promise<boolean> => {
        const call = { id: callId, tool: governed.name, arguments: input }
        const verdict = await gate.ask(call, context, { wait: false, renew: false })
        asked.set(await keyOf(context, callId), { call, verdict })
        return verdict.verdict !== "allow"
      },
      execute: async (input: unknown, context: Run, details?: CallDetails): Promise<unknown> => {
        const id = details?.toolCall?.callId ?? ""
        const before = asked.take(await keyOf(context, id))
        // An approval in the state is asked about again: it may have been approved without asking, or long ago.
        const isAllowed = before?.verdict.verdict === "allow" && isSame(before.call.arguments, input)
        const call = isAllowed ? before.call : { id, tool: governed.name, arguments: input }
        const verdict = isAllowed
          ? before.verdict
          : await gate.ask(call, context, { signal: details?.signal, wait: false, renew: false })
        // Not thrown: by default the SDK hides the text of a tool's error from the model.
        if (verdict.verdict !== "allow") return verdict.message
        return gate.execute(
          call,
          context,
          () => definition.execute(input, context, withIdempotencyKey(details ?? {}, verdict.claim)),
          details?.signal
        )
      }
    })
    GOVERNED.add(governed)
    return governed
  }

  const decide = async (
    { interruptions = [], runContext, state }: RunResult,
    { signal, wait = true }: DecideOptions = {}
  ): Promise<boolean> => {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the SDK passes the same input to `needsApproval`
    const context = runContext as Run
    const verdicts = await Promise.all(
      interruptions.map(async (item) => {
        const key = await keyOf(context, callIdOf(item))
        return { item, key, before: asked.get(key) }
      })
    )
    const isWaiting = verdicts.some(({ before }) => before?.verdict.verdict === "pending")
    if (isWaiting && wait) await options.save?.(state.toString(), context)
    const decided = await Promise.all(
      verdicts.map(async ({ before, item, key }) => {
        if (before === undefined) return false
        const verdict =
          before.verdict.verdict === "pending"
            ? await gate.ask(before.call, context, { signal, wait, claim: false })
            : before.verdict
        if (verdict.verdict === "pending") return false
        asked.take(key)
        if (verdict.verdict === "allow") state.approve(item)
        else state.reject(item, { message: verdict.message })
        return true
      })
    )
    return decided.every(Boolean)
  }

  const run = async (agent: Agent, input: unknown, runOptions?: RunOptions): Promise<RunResult> => {
    const { ungoverned = [] } = options
    const unseen = Array.from(ungovernedNames(agent)).filter((name) => !ungoverned.includes(name))
    if (unseen.length > 0) throw new Error(describeUngoverned(...unseen))
    let result = await sdk.run(agent, input, runOptions)
    if (runOptions?.stream === true) return result
    while (result.interruptions !== undefined && result.interruptions.length > 0) {
      if (!(await decide(result, { signal: runOptions?.signal }))) break
      result = await sdk.run(agent, result.state, runOptions)
    }
    return result
  }

  return { tool, run, decide }
}

/** Names of the tools that an agent, and the agents that it can hand off to, execute without asking. */
const ungovernedNames = (agent: Agent, visited = new Set<Agent>()): Set<string> => {
  if (visited.has(agent)) return new Set()
  visited.add(agent)
  const { capabilities = [], handoffs, mcpServers, tools } = agent
  return new Set([
    ...tools.filter((tool) => !GOVERNED.has(tool)).map(({ name, type }) => name ?? type),
    ...mcpServers.map(({ name }) => name),
    ...capabilities.map(({ type }) => type),
    ...handoffs.flatMap((handoff) =>
      Array.from(ungovernedNames("agent" in handoff ? handoff.agent : handoff, visited))
    )
  ])
}

const callIdOf = ({ rawItem }: ApprovalItem): string =>
  "callId" in rawItem && typeof rawItem.callId === "string" ? rawItem.callId : ""

/** Whether two inputs have the same JSON. If only their order of keys differs, the service is asked, which compares without it. */
const isSame = (left: unknown, right: unknown): boolean => {
  try {
    return JSON.stringify(left) === JSON.stringify(right)
  } catch {
    return false
  }
}
