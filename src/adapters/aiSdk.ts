/**
 * `countersign/ai-sdk`: Countersign in front of the tools of the Vercel AI SDK (`ai`).
 *
 * ```ts
 * const result = await generateText({ model, prompt, tools: governTools(tools, { client, session }) })
 * ```
 *
 * A call is governed where it is executed, inside `execute`, because every way of calling a tool goes through it: `generateText`,
 * `streamText`, `ToolLoopAgent` and a resumed approval. It gets the validated input and the abort signal, and the SDK executes parallel
 * calls at the same time, while it evaluates `toolApproval` for one call after the other.
 */
import type { ToolEnd } from "../client/connect/execute.ts"
import { ToolCallDenied } from "./ToolCallDenied.ts"
import { makeToolGate, type ToolGate } from "./toolGate.ts"
import type { GateOptions, ToolCall } from "./toolGate/publicTypes.ts"
import { withIdempotencyKey } from "./toolGate/withIdempotencyKey.ts"

export { ToolCallDenied } from "./ToolCallDenied.ts"
export type * from "./toolGate/publicTypes.ts"

/** The SDK's description of a tool call. */
export interface ToolRun {
  readonly toolCallId: string
  /** The messages before the response with the call. */
  readonly messages: ReadonlyArray<unknown>
  /** The tool's entry in `toolsContext`. */
  readonly context?: unknown
}

/** The second argument of `execute`. */
interface ExecutionOptions extends ToolRun {
  readonly abortSignal?: AbortSignal | undefined
  /** Added by the gate: the same for every attempt of the call. */
  readonly idempotencyKey?: string
}

type Execute = (input: unknown, options: ExecutionOptions) => unknown
type Gate = ToolGate<ToolRun>

interface ExecutableTool {
  readonly execute: Execute
}

/** The gate of a governed tool, on the tool itself: copies of the tool and of the tool set keep it. */
const GATE: unique symbol = Symbol("countersign.gate")

/**
 * Returns the tools with an `execute` that asks Countersign first, waits for the person who decides, and reports how the call ended. A
 * denied call throws {@link ToolCallDenied}, which the SDK passes to the model. The options of the original `execute` have the claim's
 * `idempotencyKey` too. Tools without `execute` are returned as they are: the SDK
 * does not execute them.
 */
export const governTools = <Tools extends object>(tools: Tools, options: GateOptions<ToolRun>): Tools => {
  const gate = makeToolGate(options)
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- each tool has the same parts, and an `execute` of the same type
  return Object.fromEntries(
    Object.entries(tools).map(([name, tool]: [string, unknown]) => [
      name,
      isExecutable(tool) ? { ...tool, execute: governed(gate, name, tool), [GATE]: gate } : tool
    ])
  ) as Tools
}

const isExecutable = (tool: unknown): tool is ExecutableTool =>
  typeof tool === "object" && tool !== null && "execute" in tool && typeof tool.execute === "function"

const governed = (gate: Gate, name: string, tool: ExecutableTool): Execute => {
  const callOf = (input: unknown, { toolCallId }: ToolRun): ToolCall => ({
    id: toolCallId,
    tool: name,
    arguments: input
  })
  if (isGenerator(tool.execute)) {
    return (input, options) => stream(gate, callOf(input, options), tool, input, options)
  }
  return async (input, options) => {
    const answer = await gate.run(
      callOf(input, options),
      options,
      async (claim) => lastOf(tool.execute(input, withIdempotencyKey(options, claim))),
      { signal: options.abortSignal }
    )
    if (answer.verdict === "executed") return answer.result
    throw new ToolCallDenied(answer)
  }
}

/** Executes a tool whose parts of a result are passed on while it runs. */
async function* stream(
  gate: Gate,
  call: ToolCall,
  tool: ExecutableTool,
  input: unknown,
  options: ExecutionOptions
): AsyncGenerator<unknown, void, undefined> {
  const verdict = await gate.ask(call, options, { signal: options.abortSignal })
  if (verdict.verdict !== "allow") throw new ToolCallDenied(verdict)
  let result: unknown
  // Of a run that stops, the generator is left here.
  let end: ToolEnd = { status: "unknown" }
  try {
    const output = tool.execute(input, withIdempotencyKey(options, verdict.claim))
    if (isAsyncIterable(output)) {
      for await (const part of output) {
        result = part
        yield part
      }
    }
    end = { status: "succeeded", result }
  } catch (error) {
    end = { status: "failed", error }
    throw error
  } finally {
    await gate.report(call, options, end)
  }
}

/** Whether calling the function returns a stream of results. Another function that does is executed, but its parts are not passed on. */
const isGenerator = (execute: Execute): boolean =>
  Object.prototype.toString.call(execute) === "[object AsyncGeneratorFunction]"

const isAsyncIterable = (value: unknown): value is AsyncIterable<unknown> =>
  typeof value === "object" && value !== null && Symbol.asyncIterator in value

const lastOf = async (output: unknown): Promise<unknown> => {
  if (!isAsyncIterable(output)) return output
  let last: unknown
  for await (const part of output) last = part
  return last
}

/** The SDK's description of a call that needs approval. */
export interface ToolApprovalRequest {
  readonly toolCall: { readonly toolCallId: string; readonly toolName: string; readonly input: unknown }
  readonly tools: object | undefined
  readonly toolsContext?: unknown
  readonly messages: ReadonlyArray<unknown>
}

/** The SDK's next step with a call. Undefined: it executes it, and the governed tool asks by itself. */
export type ToolApproval =
  | { readonly type: "denied"; readonly reason: string }
  | { readonly type: "user-approval" }
  | undefined

/**
 * For `toolApproval`: ends the run when a call has to wait for a person, instead of waiting inside it. Save `responseMessages`; later, also in
 * another process, run again with `messages` and {@link approvalResponses}.
 *
 * ```ts
 * generateText({ model, messages, tools: governTools(tools, options), toolApproval: pauseForApproval })
 * ```
 *
 * Decides nothing by itself: a resumed call is executed by the governed tool, which asks Countersign whatever the messages say.
 */
export const pauseForApproval = async ({
  messages,
  toolCall: { input, toolCallId, toolName },
  tools = {},
  toolsContext = {}
}: ToolApprovalRequest): Promise<ToolApproval> => {
  const gate = gateOf(ownValue(tools, toolName))
  if (gate === undefined) return undefined
  const call = { id: toolCallId, tool: toolName, arguments: input }
  const run = { toolCallId, messages, context: ownValue(toolsContext, toolName) }
  const verdict = await gate.ask(call, run, { wait: false, claim: false })
  switch (verdict.verdict) {
    case "allow":
      return undefined
    case "deny":
      return { type: "denied", reason: verdict.message }
    case "pending": {
      // The first versions of the SDK ignore the reason, and their types refuse it.
      const paused = { type: "user-approval" as const, reason: verdict.message }
      return paused
    }
  }
}

const ownValue = (record: unknown, name: string): unknown =>
  typeof record === "object" && record !== null && Object.hasOwn(record, name)
    ? Reflect.get(record, name)
    : undefined

const gateOf = (tool: unknown): Gate | undefined =>
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- only `governTools` has the symbol
  typeof tool === "object" && tool !== null ? (Reflect.get(tool, GATE) as Gate | undefined) : undefined

/** A message that lets the SDK go on with paused calls. */
export interface ApprovalResponses {
  readonly role: "tool"
  readonly content: Array<{
    readonly type: "tool-approval-response"
    readonly approvalId: string
    readonly approved: true
  }>
}

/**
 * The message that resumes a paused run, in an array to append to its messages; empty if no call is paused. It lets every paused call reach
 * its governed tool, which waits for the decision: it approves nothing.
 */
export const approvalResponses = (messages: ReadonlyArray<object>): Array<ApprovalResponses> => {
  const requested = new Set<string>()
  for (const message of messages) {
    const content = ownValue(message, "content")
    for (const part of Array.isArray(content) ? content : []) {
      const id = ownValue(part, "approvalId")
      if (typeof id !== "string") continue
      if (ownValue(part, "type") === "tool-approval-request") requested.add(id)
      else requested.delete(id)
    }
  }
  const content = Array.from(requested, (approvalId) => ({
    type: "tool-approval-response" as const,
    approvalId,
    approved: true as const
  }))
  return content.length === 0 ? [] : [{ role: "tool", content }]
}
