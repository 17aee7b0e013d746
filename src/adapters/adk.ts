/**
 * `countersign/adk`: Countersign in front of the tools of Google's Agent Development Kit (`@google/adk`).
 *
 * ```ts
 * new Runner({ appName, agent, sessionService, plugins: [governPlugin({ client, session })] })
 * ```
 *
 * A plugin, because it sees the calls of all agents of a runner, with their IDs. The policy engine of the kit's `SecurityPlugin` gets no ID, and
 * an agent's own callbacks only its own calls.
 */
import { CallMap } from "./toolGate/CallMap.ts"
import { freeze } from "./toolGate/freeze.ts"
import { validateArguments } from "./toolGate/validateArguments.ts"
import { withFallback } from "./toolGate/withFallback.ts"
import type { ToolEnd } from "../client/connect/execute.ts"
import { makeToolGate } from "./toolGate.ts"
import type { GateOptions, ToolCall, Verdict } from "./toolGate/publicTypes.ts"
import { describeUngoverned, type UngovernedSettings } from "./ungoverned.ts"

export type * from "./toolGate/publicTypes.ts"

/** The invocation of a runner that makes a call. */
export interface Invocation {
  readonly invocationId: string
  /** The kit's own session. */
  readonly sessionId: string
  readonly userId: string
}

/** The kit's context of a call. */
export interface ToolContext extends Invocation {
  readonly functionCallId?: string
  readonly abortSignal?: AbortSignal
  /** The questions of tools to the user, by the ID of the call. */
  readonly actions?: {
    readonly requestedAuthConfigs: object
    readonly requestedToolConfirmations: object
  }
  /** The user's answer. */
  readonly toolConfirmation?: { readonly confirmed: boolean }
}

/** A tool of the kit. */
export interface KitTool {
  readonly name: string
}

/** The parameters of a tool's callbacks. */
export interface ToolParameters {
  readonly tool: KitTool
  readonly toolArgs: Record<string, unknown>
  readonly toolContext: ToolContext
}

/** The members of a run's event that this adapter reads. */
export interface RunEvent {
  readonly author?: string
  readonly partial?: boolean
  readonly content?: {
    readonly parts?: ReadonlyArray<{
      readonly functionCall?: {
        readonly id?: string
        readonly name?: string
        readonly args?: Record<string, unknown>
      }
    }>
  }
}

/** The kit's context of an invocation. */
export interface InvocationContext {
  readonly invocationId: string
  readonly userId: string
  readonly session: { readonly id: string }
  readonly abortSignal?: AbortSignal
}

/** The parameters of a model's callbacks. */
export interface ModelParameters {
  readonly callbackContext: { readonly invocationId: string; readonly agentName: string }
  readonly llmRequest: { readonly toolsDict: Record<string, KitTool> }
}

/** A plugin of the kit: its `BasePlugin`. */
export interface GovernedPlugin {
  readonly name: string
  readonly onEventCallback: (parameters: {
    invocationContext: InvocationContext
    event: RunEvent
  }) => Promise<undefined>
  readonly beforeModelCallback: (parameters: ModelParameters) => Promise<undefined>
  readonly beforeToolCallback: (parameters: ToolParameters) => Promise<Record<string, unknown> | undefined>
  readonly afterToolCallback: (
    parameters: ToolParameters & { readonly result: unknown }
  ) => Promise<undefined>
  readonly onToolErrorCallback: (parameters: ToolParameters & { readonly error: Error }) => Promise<undefined>
  // No-ops.
  readonly afterAgentCallback: () => Promise<undefined>
  readonly afterContextCompaction: () => Promise<undefined>
  readonly afterModelCallback: () => Promise<undefined>
  readonly afterNodeCallback: () => Promise<undefined>
  readonly afterRunCallback: () => Promise<undefined>
  readonly beforeAgentCallback: () => Promise<undefined>
  readonly beforeContextCompaction: () => Promise<undefined>
  readonly beforeNodeCallback: () => Promise<undefined>
  readonly beforeRunCallback: () => Promise<undefined>
  readonly beforeToolSelection: () => Promise<undefined>
  readonly onModelErrorCallback: () => Promise<undefined>
  readonly onUserMessageCallback: () => Promise<undefined>
}

type Callbacks = Pick<
  GovernedPlugin,
  | "afterToolCallback"
  | "beforeModelCallback"
  | "beforeToolCallback"
  | "name"
  | "onEventCallback"
  | "onToolErrorCallback"
>

/** Calls of the kit itself, such as `adk_request_confirmation`, are no tools. */
const OWN_CALL = /^adk_/u

/**
 * Returns a plugin that asks Countersign before each call, waits for the person who decides, and records how the call ended. The tool's
 * response of a denied call is `{ error }`. Put it first: a plugin before it can answer in its place.
 */
export const governPlugin = (options: GateOptions<Invocation> & UngovernedSettings): GovernedPlugin => {
  const { ungoverned = [] } = options
  const gate = makeToolGate(options)
  /** The tools of each agent's request until its response comes. */
  const offered = new CallMap<Readonly<Record<string, KitTool>>>()
  const asked = new CallMap<Promise<Verdict>>()
  const allowed = new CallMap<ToolCall>()

  const isUngoverned = (tool: KitTool): boolean =>
    isAgentTool(tool) && !(GOVERNED in tool) && !ungoverned.includes(tool.name)

  const report = async ({ toolContext }: ToolParameters, end: ToolEnd): Promise<undefined> => {
    const call = allowed.take(keyOf(toolContext, toolContext.functionCallId))
    if (call !== undefined) await gate.report(call, toolContext, end)
  }

  const callbacks: Callbacks = {
    name: "countersign",

    // The kit makes the calls of a response one after the other. All are submitted when the response comes, so that people see them together, and claimed when they are executed.
    onEventCallback: async ({ event: { author, content, partial }, invocationContext }) => {
      const calls = (content?.parts ?? []).flatMap(({ functionCall }) =>
        functionCall === undefined || OWN_CALL.test(functionCall.name ?? "") ? [] : [functionCall]
      )
      if (partial === true) return
      const { abortSignal: signal, invocationId, session, userId } = invocationContext
      const invocation = { invocationId, userId, sessionId: session.id }
      const tools = offered.take(keyOf(invocation, author)) ?? {}
      if (calls.length < 2) return
      for (const { args = {}, id = "", name = "" } of calls) {
        const tool = tools[name]
        const input = await validateArguments(schemaOf(tool), args)
        if (!input.isValid || tool === undefined || isUngoverned(tool)) continue
        const call = { id, tool: name, arguments: input.value }
        const verdict = gate.ask(call, invocation, { signal, wait: false, claim: false })
        // An abort is reported where the verdict is used.
        verdict.catch(() => undefined)
        asked.set(keyOf(invocation, id), verdict)
      }
    },

    // The kit looks tools up in the request when it executes the calls of the response.
    beforeModelCallback: async ({ callbackContext, llmRequest: { toolsDict } }) => {
      for (const [name, tool] of Object.entries(toolsDict)) {
        if (isAgentTool(tool)) toolsDict[name] = governAgentTool(tool, () => plugin)
      }
      offered.set(keyOf(callbackContext, callbackContext.agentName), toolsDict)
      return undefined
    },

    beforeToolCallback: async ({ tool, toolArgs, toolContext }) => {
      const { abortSignal: signal, functionCallId = "" } = toolContext
      if (isUngoverned(tool)) return { error: describeUngoverned(tool.name) }
      const key = keyOf(toolContext, functionCallId)
      // Callbacks that come later could change the call after the decision.
      const input = await validateArguments(schemaOf(tool), freeze(toolArgs))
      if (!input.isValid) return { error: input.message }
      const call = { id: functionCallId, tool: tool.name, arguments: input.value }
      const early = await asked.take(key)
      const verdict = early?.verdict === "deny" ? early : await gate.ask(call, toolContext, { signal })
      if (verdict.verdict !== "allow") {
        // The kit repeats a call whose later callback has failed: the state of the first call does not belong to the second.
        await report({ tool, toolArgs, toolContext }, { status: "unknown" })
        return { error: verdict.message }
      }
      allowed.set(key, call)
      return undefined
    },

    afterToolCallback: async (parameters) => {
      const { result, toolContext } = parameters
      if (asksUser(toolContext)) {
        // The kit makes the same call again when the user has answered.
        const call = allowed.take(keyOf(toolContext, toolContext.functionCallId))
        if (call !== undefined) gate.suspend(call)
        return undefined
      }
      const isRefused = toolContext.toolConfirmation?.confirmed === false
      return report(
        parameters,
        isRefused ? { status: "failed", error: result } : { status: "succeeded", result }
      )
    },

    onToolErrorCallback: (parameters) => report(parameters, { status: "failed", error: parameters.error })
  }
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the fallback answers the other callbacks
  const plugin = withFallback(callbacks, async () => undefined) as GovernedPlugin
  return plugin
}

const keyOf = ({ invocationId }: Pick<Invocation, "invocationId">, id = ""): string => `${invocationId} ${id}`

/** Whether the tool has only asked the user, for a confirmation or a credential. */
const asksUser = ({ actions, functionCallId = "" }: ToolContext): boolean =>
  actions !== undefined &&
  (Object.hasOwn(actions.requestedToolConfirmations, functionCallId) ||
    Object.hasOwn(actions.requestedAuthConfigs, functionCallId))

/** An agent of the kit. */
interface KitAgent {
  readonly subAgents: ReadonlyArray<KitAgent>
  runAsync(context: {
    readonly pluginManager: { getPlugin(name: string): unknown; registerPlugin(plugin: unknown): void }
  }): AsyncGenerator<unknown, void, void>
}

/** The kit's `AgentTool`, which runs its agent in a runner without plugins. */
interface AgentTool extends KitTool {
  readonly agent: KitAgent
}

const isAgentTool = (tool: KitTool): tool is AgentTool => AGENT_TOOL in tool

/** The kit's mark of an `AgentTool`. */
const AGENT_TOOL = Symbol.for("google.adk.agentTool")

/** The mark of an agent's tool whose runner gets the plugin. */
const GOVERNED = Symbol("countersign.governed")

const governAgentTool = (tool: AgentTool, plugin: () => GovernedPlugin): AgentTool =>
  GOVERNED in tool ? tool : derive(tool, { agent: governAgent(tool.agent, plugin), [GOVERNED]: true })

/** The agent or, in a session that one of them continues, its sub-agents: each is where a runner can begin. */
const governAgent = (agent: KitAgent, plugin: () => GovernedPlugin): KitAgent =>
  derive(agent, {
    subAgents: agent.subAgents.map((subAgent) => governAgent(subAgent, plugin)),
    runAsync: (context: Parameters<KitAgent["runAsync"]>[0]) => {
      const { pluginManager } = context
      if (pluginManager.getPlugin("countersign") === undefined) pluginManager.registerPlugin(plugin())
      return agent.runAsync(context)
    }
  })

/** An object that differs from another one in some members only: the other one may serve several runs at the same time. */
const derive = <Value extends object>(value: Value, members: object): Value =>
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- it inherits all other members
  Object.assign(Object.create(value), members) as Value

/** The schema by which a tool converts its arguments. */
const schemaOf = (tool: KitTool | undefined): unknown =>
  tool !== undefined && "parameters" in tool ? tool.parameters : undefined
