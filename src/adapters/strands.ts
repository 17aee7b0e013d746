/**
 * `countersign/strands`: Countersign in front of the tools of Strands Agents (`@strands-agents/sdk`).
 *
 * ```ts
 * new Agent({ model, tools, interventions: [governIntervention({ client, session })] })
 * ```
 */
import { CallMap } from "./toolGate/CallMap.ts"
import { freeze } from "./toolGate/freeze.ts"
import { validateArguments } from "./toolGate/validateArguments.ts"
import { withFallback } from "./toolGate/withFallback.ts"
import { makeToolGate } from "./toolGate.ts"
import type { GateOptions, ToolCall, Verdict } from "./toolGate/publicTypes.ts"
import { describeUngoverned, type UngovernedSettings } from "./ungoverned.ts"

export type * from "./toolGate/publicTypes.ts"

/** The invocation that makes a call. */
export interface Invocation {
  readonly agent: object
  /** The `invocationState` that the application passed to `invoke`. */
  readonly invocationState: Record<string, unknown>
}

/** The SDK's event of a call. */
export interface ToolCallEvent extends Invocation {
  readonly agent: {
    readonly cancelSignal: AbortSignal
    takeSnapshot(options: { include: Array<"interrupts"> }): {
      readonly data: Readonly<Record<string, unknown>>
    }
  }
  readonly toolUse: { readonly toolUseId: string; readonly name: string; readonly input: unknown }
}

/** The SDK's event before a call. */
export interface BeforeToolCall extends ToolCallEvent {
  /** Undefined if the agent has no tool of this name. */
  readonly tool: object | undefined
  /** Ends the invocation with the stop reason `interrupt`; returns once the agent is invoked with a response. */
  interrupt(parameters: { name: string; reason: string }): unknown
}

/** The SDK's event after a call. */
export interface AfterToolCall extends ToolCallEvent {
  readonly result: { readonly status: "success" | "error"; readonly content: ReadonlyArray<unknown> }
  readonly error?: Error
}

/** The SDK's event after a response of the model. */
export interface AfterModelCall extends Invocation {
  readonly agent: {
    readonly cancelSignal: AbortSignal
    readonly toolRegistry: { get(name: string): object | undefined }
  }
  readonly stopData?: {
    readonly message: {
      readonly content: ReadonlyArray<
        ({ readonly type: "toolUseBlock" } & ToolCallEvent["toolUse"]) | { readonly type: string }
      >
    }
  }
}

/** The SDK's action that lets an operation go on. */
export interface Proceed {
  type: "proceed"
}

/** The SDK's action that blocks an operation. */
export interface Deny {
  type: "deny"
  reason: string
}

/** What {@link governIntervention} returns: the SDK's `InterventionHandler`. */
export interface GovernedIntervention {
  readonly name: string
  readonly onError: "throw"
  /** The SDK calls it once with each agent that has the intervention. */
  readonly observeAgent: (agent: object) => void
  readonly beforeToolCall: (event: BeforeToolCall) => Promise<Proceed | Deny>
  readonly afterToolCall: (event: AfterToolCall) => Promise<Proceed>
  readonly afterModelCall: (event: AfterModelCall) => Promise<Proceed>
  // Always proceed.
  readonly beforeInvocation: () => Promise<Proceed>
  readonly beforeModelCall: () => Promise<Proceed>
}

/** Options of {@link governIntervention}. */
export type InterventionOptions = GateOptions<Invocation> &
  UngovernedSettings & {
    /**
     * Whether the invocation ends, with the stop reason `interrupt`, when a call has to wait for a person. Take a snapshot of the agent, and
     * resume it in any process: the call then waits for its decision, whatever the responses to the interrupts are. Default: `false`, the call
     * waits within the invocation.
     */
    readonly pause?: boolean
  }

type Callbacks = Pick<
  GovernedIntervention,
  "afterModelCall" | "afterToolCall" | "beforeToolCall" | "name" | "observeAgent" | "onError"
>

/** The calls of an agent. */
interface AgentCalls {
  /** Submitted with others of the same response. */
  readonly asked: CallMap<Promise<Verdict>>
  readonly allowed: CallMap<AllowedCall>
}

/** A call that was allowed and has not ended. */
interface AllowedCall {
  readonly call: ToolCall
  /** How often its tool had interrupted the invocation before. */
  readonly interrupts: number
}

/** Agents that have an intervention of this module. */
const GOVERNED = new WeakSet<object>()

/**
 * Returns an intervention that asks Countersign before each call, waits for the person who decides, and records how the call ended. Put it
 * last, so that it sees the changes of others to a call.
 */
export const governIntervention = (options: InterventionOptions): GovernedIntervention => {
  const { ungoverned = [] } = options
  const gate = makeToolGate(options)
  const agents = new WeakMap<object, AgentCalls>()

  const isRefused = async (name: string, tool: object | undefined): Promise<boolean> =>
    isAgentTool(tool) && !ungoverned.includes(name) && !(await isGoverned(tool.agent))

  const callsOf = ({ agent }: Invocation): AgentCalls => {
    const known = agents.get(agent)
    if (known !== undefined) return known
    const calls = { asked: new CallMap<Promise<Verdict>>(), allowed: new CallMap<AllowedCall>() }
    agents.set(agent, calls)
    return calls
  }

  const ask = async (call: ToolCall, event: BeforeToolCall): Promise<Verdict> => {
    const { cancelSignal: signal } = event.agent
    const early = await callsOf(event).asked.take(call.id)
    if (early?.verdict === "deny") return early
    if (options.pause === true) {
      const verdict = await gate.ask(call, event, { signal, wait: false })
      if (verdict.verdict !== "pending") return verdict
      // Throws, unless the agent was resumed.
      event.interrupt({ name: "countersign", reason: verdict.message })
    }
    return gate.ask(call, event, { signal })
  }

  const callbacks: Callbacks = {
    name: "countersign",
    onError: "throw",

    observeAgent: (agent) => void GOVERNED.add(agent),

    // The SDK asks about the calls of a response one after the other. All are submitted when it comes, so that people see them together, and claimed when they are executed.
    afterModelCall: async (event) => {
      const uses = (event.stopData?.message.content ?? []).filter(isToolUse)
      for (const { input, name, toolUseId: id } of uses.length < 2 ? [] : uses) {
        const { cancelSignal: signal, toolRegistry } = event.agent
        const tool = toolRegistry.get(name)
        const validated = await validateArguments(schemaOf(tool), input)
        if (!validated.isValid || (await isRefused(name, tool))) continue
        const call = { id, tool: name, arguments: validated.value }
        const verdict = gate.ask(call, event, { signal, wait: false, claim: false })
        // An abort is reported where the verdict is used.
        verdict.catch(() => undefined)
        callsOf(event).asked.set(id, verdict)
      }
      return { type: "proceed" }
    },

    beforeToolCall: async (event) => {
      // Interventions and hooks that come later could change the call after the decision.
      const { input, name, toolUseId } = freeze(event.toolUse)
      if (await isRefused(name, event.tool)) return { type: "deny", reason: describeUngoverned(name) }
      const validated = await validateArguments(schemaOf(event.tool), input)
      if (!validated.isValid) return { type: "deny", reason: validated.message }
      const call = { id: toolUseId, tool: name, arguments: validated.value }
      const { allowed } = callsOf(event)
      const left = allowed.take(toolUseId)
      const interrupts = interruptsOf(event)
      // The tool has asked the user: the same call goes on.
      const isInterrupted = left !== undefined && interrupts > left.interrupts
      if (isInterrupted) gate.suspend(left.call)
      const verdict = await ask(call, event)
      if (verdict.verdict !== "allow") {
        // The SDK repeats a call whose later hook has failed: the state of the first call does not belong to the second.
        if (left !== undefined && !isInterrupted) await gate.report(left.call, event, { status: "unknown" })
        return { type: "deny", reason: verdict.message }
      }
      allowed.set(toolUseId, { call, interrupts })
      return { type: "proceed" }
    },

    afterToolCall: async (event) => {
      const ended = callsOf(event).allowed.take(event.toolUse.toolUseId)
      if (ended !== undefined) {
        const { error, result } = event
        await gate.report(
          ended.call,
          event,
          result.status === "success"
            ? { status: "succeeded", result: result.content }
            : { status: "failed", error: error ?? result.content }
        )
      }
      return { type: "proceed" }
    }
  }
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the fallback answers the other callbacks
  return withFallback(callbacks, async () => ({ type: "proceed" })) as GovernedIntervention
}

/** How often the tool of a call has interrupted the invocation. */
const interruptsOf = ({ agent, toolUse }: ToolCallEvent): number => {
  const { interrupts: state } = agent.takeSnapshot({ include: ["interrupts"] }).data
  const interrupts =
    typeof state === "object" && state !== null && "interrupts" in state ? state.interrupts : {}
  return Object.keys(Object(interrupts)).filter((id) => id.startsWith(`tool:${toolUse.toolUseId}:`)).length
}

type ContentBlock = NonNullable<AfterModelCall["stopData"]>["message"]["content"][number]

const isToolUse = (block: ContentBlock): block is ContentBlock & ToolCallEvent["toolUse"] =>
  block.type === "toolUseBlock"

/** The SDK's `AgentAsTool`. */
interface AgentTool {
  readonly agent: { initialize?(): Promise<void> }
}

const isAgentTool = (tool: object | undefined): tool is AgentTool =>
  tool !== undefined && "agent" in tool && typeof tool.agent === "object" && tool.agent !== null

/** Whether the agent inside a tool has an intervention of this module, which observes the agent when it is initialized. */
const isGoverned = async (agent: AgentTool["agent"]): Promise<boolean> => {
  await agent.initialize?.()
  return GOVERNED.has(agent)
}

/** The Zod schema by which a tool converts its arguments. A tool without parameters has `z.void()`, by which it converts nothing. */
const schemaOf = (tool: object | undefined): unknown => {
  const schema = tool !== undefined && "_inputSchema" in tool ? tool._inputSchema : undefined
  const isVoid = typeof schema === "object" && schema !== null && "type" in schema && schema.type === "void"
  return isVoid ? undefined : schema
}
