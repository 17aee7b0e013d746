/**
 * `countersign/mastra`: Countersign in front of the tools of Mastra agents.
 *
 * ```ts
 * new Agent({ id, name, instructions, model, tools, inputProcessors: [governProcessor({ client, session })] })
 * ```
 *
 * A processor, because it gets the tools of all sources at each step. The agent's `hooks` get the input before it is validated, and hooks of a
 * run replace them.
 */
import { ToolCallDenied } from "./ToolCallDenied.ts"
import { makeToolGate, type ToolGate } from "./toolGate.ts"
import type { GateOptions, ToolCall } from "./toolGate/publicTypes.ts"
import { validateArguments } from "./toolGate/validateArguments.ts"
import { withIdempotencyKey } from "./toolGate/withIdempotencyKey.ts"
import { describeUngoverned, type UngovernedSettings } from "./ungoverned.ts"

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
  /** Added by the gate: the same for every attempt of the call. */
  readonly idempotencyKey?: string
  readonly abortSignal?: AbortSignal
  /** Set instead of `agent` for tools of the Vercel AI SDK, and for the calls that a processor gets. */
  readonly toolCallId?: string
  readonly suspend?: Suspend
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
  readonly onInputAvailable?: (options: unknown) => unknown
}

/** A tool as Mastra passes it to a processor. Its `execute` validates the input. */
interface CoreTool extends ExecutableTool {
  /** A schema of the AI SDK. */
  readonly parameters?: {
    readonly validate?: (input: unknown) => CoreInput | PromiseLike<CoreInput>
  }
}

type CoreInput =
  | { readonly success: true; readonly value: unknown }
  | { readonly success: false; readonly error: Error }

/** What {@link governProcessor} returns: a `Processor` of Mastra. */
export interface GovernProcessor {
  readonly id: "countersign"
  readonly processInputStep: (step: { readonly tools?: Record<string, unknown> }) => {
    tools: Record<string, unknown>
  }
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
  return mapExecutable(tools, (name, tool) => governed(gate, name, tool, options.pause ?? false)) as Tools
}

/**
 * Returns a processor for the agent's `inputProcessors`, which governs all tools of each step that did not go through {@link governTools}: of
 * a workspace, of `toolsets` of a run, of memory and skills. Their calls wait within the run. A tool that runs another agent or a workflow is
 * refused unless it is listed in `ungoverned`, by its name for the model: `agent-…` or `workflow-…`.
 */
export const governProcessor = (options: GateOptions<ToolContext> & UngovernedSettings): GovernProcessor => {
  const { ungoverned = [] } = options
  const gate = makeToolGate(options)
  return {
    id: "countersign",
    processInputStep: ({ tools = {} }) => ({
      tools: mapExecutable(tools, (name, tool) => {
        if (isGoverned(tool)) return tool
        const execute: Execute =
          RUNS_OTHERS.test(name) && !ungoverned.includes(name)
            ? () => {
                throw new Error(describeUngoverned(name))
              }
            : executeCore(gate, name, tool)
        return { ...tool, execute, onInputAvailable: mark(tool) }
      })
    })
  }
}

/** Names that Mastra gives to agents and workflows as tools. */
const RUNS_OTHERS = /^(?:agent|workflow)-/u

const mapExecutable = (
  tools: object,
  change: (name: string, tool: ExecutableTool) => ExecutableTool
): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(tools).map(([name, tool]: [string, unknown]) => [
      name,
      isExecutable(tool) ? change(name, tool) : tool
    ])
  )

/** Callbacks of governed tools: of what {@link governTools} sets, Mastra keeps only callbacks in the tools that a processor gets. */
const MARKS = new WeakSet<object>()

/** The tool's callback, as a mark of its own. */
const mark = ({ onInputAvailable }: ExecutableTool) => {
  const callback = async (options: unknown): Promise<void> => {
    await onInputAvailable?.(options)
  }
  MARKS.add(callback)
  return callback
}

const isGoverned = ({ onInputAvailable }: ExecutableTool): boolean =>
  onInputAvailable !== undefined && MARKS.has(onInputAvailable)

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
    { execute: execute(gate, name, tool, pause), onInputAvailable: mark(tool) },
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

    // What resumed the call after a pause was not meant for the tool.
    const resume = isPaused ? { resumeData: undefined, suspendPayload: undefined } : {}
    const claimed = withIdempotencyKey(context, verdict.claim)
    return complete(gate, call, context, agent?.suspend, (suspend) =>
      tool.execute(
        input,
        agent === undefined ? claimed : { ...claimed, agent: { ...agent, ...resume, suspend } }
      )
    )
  }

const executeCore =
  (gate: ToolGate<ToolContext>, name: string, tool: CoreTool): Execute =>
  async (given, context = {}) => {
    const input = (await tool.parameters?.validate?.(given)) ?? { success: true, value: given }
    if (!input.success) throw input.error
    const call = { id: context.toolCallId ?? "", tool: name, arguments: input.value }
    const verdict = await gate.ask(call, context, { signal: context.abortSignal })
    if (verdict.verdict !== "allow") throw new ToolCallDenied(verdict)
    return complete(gate, call, context, context.suspend, (suspend) =>
      tool.execute(given, { ...withIdempotencyKey(context, verdict.claim), suspend })
    )
  }

/** Executes an allowed call and reports how it ended. A tool that suspends itself has not ended: it is executed again when it is resumed. */
const complete = async (
  gate: ToolGate<ToolContext>,
  call: ToolCall,
  context: ToolContext,
  suspend: Suspend | undefined,
  execute: (suspend: Suspend) => unknown
): Promise<unknown> => {
  let isSuspended = false
  let result
  try {
    result = await execute((payload, options) => {
      isSuspended = true
      return suspend?.(payload, options)
    })
  } catch (error) {
    await gate.report(call, context, { status: "failed", error })
    throw error
  }
  if (isSuspended) gate.suspend(call)
  else await gate.report(call, context, { status: "succeeded", result })
  return result
}

const validated = async (tool: ExecutableTool, input: unknown): Promise<unknown> => {
  const result = await validateArguments(tool.inputSchema, input)
  if (!result.isValid) throw new TypeError(result.message)
  return result.value
}

const isPausedCall = (payload: unknown): boolean =>
  typeof payload === "object" && payload !== null && "type" in payload && payload.type === "countersign"
