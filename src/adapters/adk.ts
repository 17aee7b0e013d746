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
import { withFallback } from "./toolGate/withFallback.ts"
import { type GateOptions, makeToolGate, type ToolCall, type ToolEnd, type Verdict } from "./toolGate.ts"

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
}

/** The parameters of a tool's callbacks. */
export interface ToolParameters {
  readonly tool: { readonly name: string }
  readonly toolArgs: Record<string, unknown>
  readonly toolContext: ToolContext
}

/** An event of a run, as far as this adapter reads it. */
export interface RunEvent {
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

/** A plugin of the kit: its `BasePlugin`. */
export interface GovernedPlugin {
  readonly name: string
  readonly onEventCallback: (parameters: {
    invocationContext: InvocationContext
    event: RunEvent
  }) => Promise<undefined>
  readonly beforeToolCallback: (parameters: ToolParameters) => Promise<Record<string, unknown> | undefined>
  readonly afterToolCallback: (
    parameters: ToolParameters & { readonly result: unknown }
  ) => Promise<undefined>
  readonly onToolErrorCallback: (parameters: ToolParameters & { readonly error: Error }) => Promise<undefined>
  // The rest does nothing.
  readonly afterAgentCallback: () => Promise<undefined>
  readonly afterContextCompaction: () => Promise<undefined>
  readonly afterModelCallback: () => Promise<undefined>
  readonly afterNodeCallback: () => Promise<undefined>
  readonly afterRunCallback: () => Promise<undefined>
  readonly beforeAgentCallback: () => Promise<undefined>
  readonly beforeContextCompaction: () => Promise<undefined>
  readonly beforeModelCallback: () => Promise<undefined>
  readonly beforeNodeCallback: () => Promise<undefined>
  readonly beforeRunCallback: () => Promise<undefined>
  readonly beforeToolSelection: () => Promise<undefined>
  readonly onModelErrorCallback: () => Promise<undefined>
  readonly onUserMessageCallback: () => Promise<undefined>
}

type Callbacks = Pick<
  GovernedPlugin,
  "afterToolCallback" | "beforeToolCallback" | "name" | "onEventCallback" | "onToolErrorCallback"
>

/** Calls of the kit itself, such as `adk_request_confirmation`, are no tools. */
const OWN_CALL = /^adk_/u

/**
 * Returns a plugin that asks Countersign before each call, waits for the person who decides, and records how the call ended. The tool's
 * response of a denied call is `{ error }`. Put it first: a plugin before it can answer in its place.
 */
export const governPlugin = (options: GateOptions<Invocation>): GovernedPlugin => {
  const gate = makeToolGate(options)
  const asked = new CallMap<Promise<Verdict>>()
  const allowed = new CallMap<ToolCall>()

  const report = async ({ toolContext }: ToolParameters, end: ToolEnd): Promise<undefined> => {
    const call = allowed.take(keyOf(toolContext, toolContext.functionCallId))
    if (call !== undefined) await gate.report(call, toolContext, end)
  }

  const callbacks: Callbacks = {
    name: "countersign",

    // The kit makes the calls of a response one after the other. All are submitted when the response comes, so that people see them together.
    onEventCallback: async ({ event: { content, partial }, invocationContext }) => {
      const calls = (content?.parts ?? []).flatMap(({ functionCall }) =>
        functionCall === undefined || OWN_CALL.test(functionCall.name ?? "") ? [] : [functionCall]
      )
      if (partial === true || calls.length < 2) return
      const { abortSignal: signal, invocationId, session, userId } = invocationContext
      const invocation = { invocationId, userId, sessionId: session.id }
      for (const { args = {}, id = "", name = "" } of calls) {
        const verdict = gate.ask({ id, tool: name, arguments: args }, invocation, { signal, wait: false })
        // An abort is reported where the verdict is used.
        verdict.catch(() => undefined)
        asked.set(keyOf(invocation, id), verdict)
      }
    },

    beforeToolCallback: async ({ tool, toolArgs, toolContext }) => {
      const { abortSignal: signal, functionCallId = "" } = toolContext
      const key = keyOf(toolContext, functionCallId)
      // Callbacks that come later could change the call after the decision.
      const call = { id: functionCallId, tool: tool.name, arguments: freeze(toolArgs) }
      const early = await asked.take(key)
      const verdict = early?.verdict === "deny" ? early : await gate.ask(call, toolContext, { signal })
      if (verdict.verdict !== "allow") return { error: verdict.message }
      allowed.set(key, call)
      return undefined
    },

    afterToolCallback: (parameters) => report(parameters, { status: "succeeded", result: parameters.result }),

    onToolErrorCallback: (parameters) => report(parameters, { status: "failed", error: parameters.error })
  }
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the fallback answers the other callbacks
  return withFallback(callbacks, async () => undefined) as GovernedPlugin
}

const keyOf = ({ invocationId }: Invocation, callId = ""): string => `${invocationId} ${callId}`
