/**
 * `countersign/mastra`: Countersign in front of the tools of Mastra agents.
 *
 * ```ts
 * new Agent({ id, name, instructions, model, tools: governTools(tools, { client, session }) })
 * ```
 *
 * A tool is governed itself, not by the agent's `hooks`: they get the input before it is validated, and hooks of a run replace the hooks of the
 * agent.
 */
import { ToolCallDenied } from "./ToolCallDenied.ts"
import { type GateOptions, makeToolGate, type ToolGate } from "./toolGate.ts"
import { validateArguments } from "./toolGate/validateArguments.ts"

export { ToolCallDenied } from "./ToolCallDenied.ts"
export type * from "./toolGate/publicTypes.ts"

type Suspend = (payload: unknown, options?: unknown) => unknown

/** What Mastra tells a tool that an agent executes: the second argument of `execute`. */
export interface ToolContext {
  readonly agent?: {
    readonly toolCallId?: string
    readonly threadId?: string
    readonly resourceId?: string
    readonly suspend?: Suspend
    /** The data with which the run was resumed. */
    readonly resumeData?: unknown
    /** The data with which the tool was suspended. */
    readonly suspendPayload?: unknown
  }
  readonly requestContext?: unknown
  readonly abortSignal?: AbortSignal
  /** Set instead of `agent` for tools of the Vercel AI SDK. */
  readonly toolCallId?: string
}

/** Settings of this adapter alone. */
export interface ToolSettings {
  /**
   * Whether a call that has to wait for a person suspends the run instead of waiting. It needs an agent of a `Mastra` with storage. Go on with
   * `agent.resumeGenerate` or `agent.resumeStream`, also in another process; the resume data decides nothing. Default: `false`.
   */
  readonly pause?: boolean
}

/** The data with which a run is suspended. */
export interface PausedCall {
  readonly type: "countersign"
  readonly tool: string
  readonly approval_id: string | null
  readonly message: string
}

type Execute = (input: unknown, context?: ToolContext) => unknown

interface ExecutableTool {
  readonly execute: Execute
  readonly inputSchema?: unknown
}

/**
 * Returns the tools with an `execute` that asks Countersign first, waits for the person who decides, and reports how the call ended. A
 * denied call throws {@link ToolCallDenied}, which Mastra tells the model. Tools without `execute` are returned as they are.
 */
export const governTools = <Tools extends object>(
  tools: Tools,
  options: GateOptions<ToolContext> & ToolSettings
): Tools => {
  const gate = makeToolGate(options)
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- each tool has the same parts, and an `execute` of the same type
  return Object.fromEntries(
    Object.entries(tools).map(([name, tool]: [string, unknown]) => [
      name,
      isExecutable(tool) ? governed(gate, name, tool, options.pause ?? false) : tool
    ])
  ) as Tools
}

const isExecutable = (tool: unknown): tool is ExecutableTool =>
  typeof tool === "object" && tool !== null && "execute" in tool && typeof tool.execute === "function"

/** A copy of the tool, of the same class. */
const governed = (
  gate: ToolGate<ToolContext>,
  name: string,
  tool: ExecutableTool,
  pause: boolean
): ExecutableTool =>
  Object.assign(
    Object.create(Object.getPrototypeOf(tool)),
    tool,
    { execute: execute(gate, name, tool, pause) },
    // What Countersign suspends and resumes a call with need not match them. The tool itself checks its own values.
    pause ? { suspendSchema: undefined, resumeSchema: undefined } : {}
  )

const execute =
  (gate: ToolGate<ToolContext>, name: string, tool: ExecutableTool, pause: boolean): Execute =>
  async (given, context = {}) => {
    const { abortSignal: signal, agent } = context
    // Mastra validates the input of a call, but not of one that it resumes.
    const isResumed = agent?.resumeData !== undefined && agent.resumeData !== null
    const input = isResumed ? await validated(tool, given) : given
    const call = { id: agent?.toolCallId ?? context.toolCallId ?? "", tool: name, arguments: input }

    const isPaused = isPausedCall(agent?.suspendPayload)
    const canPause = pause && !isPaused && agent?.suspend !== undefined
    const verdict = await gate.ask(call, context, { signal, wait: !canPause })
    if (verdict.verdict === "pending" && canPause) {
      const paused: PausedCall = {
        type: "countersign",
        tool: name,
        approval_id: verdict.decision.approval_id,
        message: verdict.message
      }
      return agent.suspend(paused)
    }
    if (verdict.verdict !== "allow") throw new ToolCallDenied(verdict)

    let isSuspended = false
    const suspend: Suspend = (payload, options) => {
      isSuspended = true
      return agent?.suspend?.(payload, options)
    }
    // What resumed the call after a pause was not meant for the tool.
    const resume = isPaused ? { resumeData: undefined, suspendPayload: undefined } : {}
    let result
    try {
      result = await tool.execute(
        input,
        agent === undefined ? context : { ...context, agent: { ...agent, ...resume, suspend } }
      )
    } catch (error) {
      await gate.report(call, context, { status: "failed", error })
      throw error
    }
    // A tool that suspends itself has not ended: it is executed again when it is resumed.
    if (!isSuspended) await gate.report(call, context, { status: "succeeded", result })
    return result
  }

const validated = async (tool: ExecutableTool, input: unknown): Promise<unknown> => {
  const result = await validateArguments(tool.inputSchema, input)
  if (!result.isValid) throw new TypeError(result.message)
  return result.value
}

const isPausedCall = (payload: unknown): boolean =>
  typeof payload === "object" && payload !== null && "type" in payload && payload.type === "countersign"
