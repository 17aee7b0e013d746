/**
 * `countersign/langchain`: Countersign in front of the tools of LangChain and LangGraph agents, as a middleware.
 *
 * ```ts
 * const agent = createAgent({ model, tools, middleware: [governMiddleware({ client, session, ToolMessage })] })
 * ```
 */
import { makeToolGate, type ToolGate } from "./toolGate.ts"
import type { GateOptions, ToolCall } from "./toolGate/publicTypes.ts"
import { validateArguments } from "./toolGate/validateArguments.ts"
import { describeUngoverned, type UngovernedSettings } from "./ungoverned.ts"

export type * from "./toolGate/publicTypes.ts"

/** What LangChain tells about the run: its state, and the runtime with `context` and, from LangChain 1.1, `configurable`. */
export interface MiddlewareRun {
  readonly state: unknown
  readonly runtime: {
    readonly context?: unknown
    readonly configurable?: unknown
    readonly signal?: AbortSignal | undefined
    readonly interrupt?: ((value: unknown) => unknown) | undefined
  }
}

/** A call of a tool, as LangChain passes it to `wrapToolCall`. */
export interface ToolCallRequest extends MiddlewareRun {
  readonly toolCall: { readonly id?: string; readonly name: string; readonly args: unknown }
  readonly tool: unknown
}

interface ToolMessageFields {
  readonly content: string
  readonly tool_call_id: string
  readonly name: string
  readonly status: "error"
}

/** Settings of this adapter alone. */
export interface MiddlewareSettings<Message> extends UngovernedSettings {
  /**
   * The class of your LangChain: `import { ToolMessage } from "langchain"`. The adapter imports no framework, so that it creates the messages
   * of the version and the module format that your agent uses.
   */
  readonly ToolMessage: new (fields: ToolMessageFields) => Message
  /**
   * Whether a call that has to wait for a person interrupts the graph instead of waiting. It needs a checkpointer. Go on with
   * `agent.invoke(null, config)`, also in another process: a call that was decided goes on, another one interrupts again. Default: `false`.
   */
  readonly pause?: boolean
}

/** The value of an interrupt. */
export interface PausedCall {
  readonly type: "countersign"
  readonly tool: string
  readonly tool_call_id: string
  readonly approval_id: string | null
  readonly message: string
}

/** The middleware, with the mark that `createMiddleware` sets. */
export interface GovernMiddleware<Message> {
  readonly name: string
  readonly wrapToolCall: <Request extends ToolCallRequest, Result>(
    request: Request,
    handler: (request: Request) => Promise<Result> | Result
  ) => Promise<Result | Message>
}

/**
 * Creates a middleware that asks Countersign before a tool is executed, waits for the person who decides, and reports how the call ended. A
 * denied call gets a tool message with the status `error`. So does a tool that throws, which LangChain without a middleware does too.
 *
 * Put it after middleware that changes arguments, and before middleware that retries tools or words their errors.
 */
export const governMiddleware = <Message>(
  options: GateOptions<MiddlewareRun> & MiddlewareSettings<Message>
): GovernMiddleware<Message> => {
  const { pause = false, ToolMessage, ungoverned = [] } = options
  const gate = makeToolGate(options)
  const middleware: GovernMiddleware<Message> = {
    name: "Countersign",
    wrapToolCall: async (request, handler) => {
      const { id = "", name } = request.toolCall
      const fail = (content: string) => new ToolMessage({ content, tool_call_id: id, name, status: "error" })

      const input = await validateArguments(schemaOf(request.tool), request.toolCall.args)
      if (!input.isValid) return fail(input.message)
      const call = { id, tool: name, arguments: input.value }
      const verdict = await ask(gate, call, request, pause)
      if (verdict.verdict !== "allow") return fail(verdict.message)

      let result
      try {
        const tool = guardTool(request.tool, id, verdict.claim?.idempotency_key, ungoverned)
        result = await handler({ ...request, tool })
      } catch (error) {
        if (isBubbleUp(error)) {
          if (SUSPENSIONS.has(error.name)) gate.suspend(call)
          // Such as a command for the agent's graph, by which a graph inside the tool hands off: the tool is not executed again.
          else await gate.report(call, request, { status: "succeeded" })
          throw error
        }
        await gate.report(call, request, { status: "failed", error })
        request.runtime.signal?.throwIfAborted()
        return fail(`${String(error)}\n Please fix your mistakes.`)
      }
      await gate.report(call, request, endOf(result))
      return result
    }
  }
  return Object.assign(middleware, { [MIDDLEWARE]: true })
}

/** The mark of a middleware. */
const MIDDLEWARE = Symbol.for("AgentMiddleware")

const ask = async (gate: ToolGate<MiddlewareRun>, call: ToolCall, run: MiddlewareRun, pause: boolean) => {
  const { interrupt, signal } = run.runtime
  if (!pause) return gate.ask(call, run, { signal })
  const verdict = await gate.ask(call, run, { signal, wait: false })
  if (verdict.verdict !== "pending" || interrupt === undefined) return verdict
  const paused: PausedCall = {
    type: "countersign",
    tool: call.tool,
    tool_call_id: call.id,
    approval_id: verdict.decision.approval_id,
    message: verdict.message
  }
  // Throws, unless the graph is resumed with a value: then the call waits here.
  interrupt(paused)
  return gate.ask(call, run, { signal })
}

/** The part of a callback handler that this adapter implements. Tools pass it on to the agents that they run. */
interface CallGuard {
  readonly [GUARD]: true
  readonly name: string
  readonly awaitHandlers: true
  readonly raiseError: true
  readonly handleToolStart: (...parameters: ToolStart) => void
}

/** The parameters of LangChain's `handleToolStart`. A call that a model did not ask for has no ID. */
type ToolStart = [
  tool: unknown,
  input: string,
  runId: string,
  parentRunId?: string,
  tags?: ReadonlyArray<string>,
  metadata?: unknown,
  runName?: string,
  toolCallId?: string
]

/** LangChain's `CallbackManager`. */
interface CallbackManager {
  readonly handlers: ReadonlyArray<object>
  copy(): CallbackManager
  addHandler(handler: object, inherit: boolean): void
  removeHandler(handler: object): void
}

interface InvokableTool {
  readonly name: string
  invoke(
    input: unknown,
    config?: { readonly callbacks?: CallbackManager | ReadonlyArray<object>; readonly configurable?: object }
  ): unknown
}

const GUARD: unique symbol = Symbol("countersign.guard")

const isInvokable = (tool: unknown): tool is InvokableTool =>
  typeof tool === "object" && tool !== null && "invoke" in tool && "name" in tool

/**
 * Returns the tool with the claim's idempotency key in its `configurable`. Inside it, calls that another model makes fail: an agent there
 * without this middleware would not be governed.
 */
const guardTool = (
  tool: unknown,
  callId: string,
  idempotencyKey: string | undefined,
  ungoverned: ReadonlyArray<string>
): unknown => {
  if (!isInvokable(tool)) return tool
  const { name } = tool
  const invoke: InvokableTool["invoke"] = (input, config) => {
    let isStarted = false
    const guard: CallGuard = {
      [GUARD]: true,
      name: "countersign",
      awaitHandlers: true,
      raiseError: true,
      handleToolStart: (...[, , , , , , , toolCallId]) => {
        const isInside = isStarted || toolCallId !== callId
        isStarted = true
        if (isInside && toolCallId !== undefined) throw new Error(describeUngoverned(name))
      }
    }
    const guards = ungoverned.includes(name) ? [] : [guard]
    return tool.invoke(input, {
      ...config,
      configurable: { ...config?.configurable, countersign_idempotency_key: idempotencyKey },
      callbacks: replaceGuard(config?.callbacks ?? [], guards)
    })
  }
  return Object.assign(Object.create(tool), { invoke })
}

const replaceGuard = (
  callbacks: CallbackManager | ReadonlyArray<object>,
  guards: ReadonlyArray<CallGuard>
): CallbackManager | ReadonlyArray<object> => {
  if (!("copy" in callbacks)) return [...callbacks.filter((handler) => !(GUARD in handler)), ...guards]
  const manager = callbacks.copy()
  for (const handler of callbacks.handlers) if (GUARD in handler) manager.removeHandler(handler)
  for (const guard of guards) manager.addHandler(guard, true)
  return manager
}

const schemaOf = (tool: unknown): unknown =>
  typeof tool === "object" && tool !== null && "schema" in tool ? tool.schema : undefined

/** Names of LangGraph's errors after which the tool has not ended: it is executed again when the graph resumes. */
const SUSPENSIONS: ReadonlySet<unknown> = new Set(["GraphInterrupt", "NodeInterrupt", "GraphDrained"])

/** Whether the error is LangGraph's `GraphBubbleUp`, which is no failure. */
const isBubbleUp = (error: unknown): error is { readonly name?: unknown } =>
  typeof error === "object" && error !== null && "is_bubble_up" in error && error.is_bubble_up === true

/** How a tool ended, by its message. A command, which changes the graph's state, is a success without a recorded result. */
const endOf = (result: unknown) => {
  if (typeof result !== "object" || result === null || !("content" in result)) {
    return { status: "succeeded" as const }
  }
  return "status" in result && result.status === "error"
    ? { status: "failed" as const, error: result.content }
    : { status: "succeeded" as const, result: result.content }
}
