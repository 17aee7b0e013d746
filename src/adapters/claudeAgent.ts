/**
 * `countersign/claude-agent`: Countersign in front of the tools of the Claude Agent SDK (`@anthropic-ai/claude-agent-sdk`).
 *
 * ```ts
 * query({ prompt, options: { hooks: governHooks({ client, session }) } })
 * ```
 *
 * Hooks see every call, also calls of subagents and calls that a permission mode or rule allows. `canUseTool` sees only the calls that Claude
 * Code would ask a person about: see {@link governPermissions}.
 */
import { CallMap } from "./toolGate/CallMap.ts"
import { makeToolGate, type ToolGate } from "./toolGate.ts"
import type { GateOptions, ToolCall, Verdict } from "./toolGate/publicTypes.ts"

export type * from "./toolGate/publicTypes.ts"

/** The input of a hook: the SDK's description of a tool call. */
export interface ToolUse {
  /** The session of Claude Code. Absent in `canUseTool`. */
  readonly session_id?: string
  /** The subagent that makes the call. Absent in the main thread. */
  readonly agent_id?: string
}

/** The members of a hook's input that this adapter reads. */
export interface HookInput extends ToolUse {
  readonly hook_event_name: string
  readonly tool_name?: unknown
  readonly tool_input?: unknown
  readonly tool_use_id?: unknown
  readonly tool_response?: unknown
  readonly error?: unknown
  readonly is_interrupt?: unknown
  readonly tool_calls?: unknown
}

/** The decision of a `PreToolUse` hook. */
export interface PreToolUseOutput {
  hookSpecificOutput: {
    hookEventName: "PreToolUse"
    permissionDecision: "allow" | "deny"
    permissionDecisionReason: string
  }
}

/** A hook of the SDK. */
export type Hook<Output> = (
  input: HookInput,
  toolUseID: string | undefined,
  options: { signal: AbortSignal }
) => Promise<Output>

/** Hooks of one event: the SDK's `HookCallbackMatcher`. */
export interface HookMatcher<Output> {
  hooks: Array<Hook<Output>>
  timeout: number
  onFailure?: "block"
}

/** The hooks that record how calls ended. After the last two, allowed calls without an outcome are unknown. */
export interface OutcomeHooks {
  PostToolUse: Array<HookMatcher<Record<string, never>>>
  PostToolUseFailure: Array<HookMatcher<Record<string, never>>>
  PostToolBatch: Array<HookMatcher<Record<string, never>>>
  Stop: Array<HookMatcher<Record<string, never>>>
}

/** The result of {@link governHooks}, for `options.hooks`. */
export interface GovernedHooks extends OutcomeHooks {
  PreToolUse: Array<HookMatcher<PreToolUseOutput>>
}

/** The answer of `canUseTool`. */
export type Permission =
  | { behavior: "allow"; updatedInput: Record<string, unknown> }
  | { behavior: "deny"; message: string }

/** The result of {@link governPermissions}, for `options`. */
export interface GovernedPermissions {
  canUseTool: (
    tool: string,
    input: Record<string, unknown>,
    options: { signal: AbortSignal; toolUseID: string; agentID?: string }
  ) => Promise<Permission>
  hooks: OutcomeHooks
}

/**
 * How long a hook may take, in seconds: 24 days, which is the longest timer. Claude Code's default is 10 minutes, after which it denies the
 * call.
 */
const HOOK_SECONDS = 2_073_600

/**
 * Returns hooks that ask Countersign before each call, wait for the person who decides, and record how the call ended. A hook that fails
 * blocks the call. Deny and ask rules of Claude Code's settings still apply to what Countersign allows.
 */
export const governHooks = (options: GateOptions<ToolUse>): GovernedHooks => {
  const { ask, hooks } = governCalls(options)
  return {
    PreToolUse: [
      {
        timeout: HOOK_SECONDS,
        onFailure: "block",
        hooks: [
          async (input, _toolUseID, { signal }) => {
            const verdict = await ask(callOf(input), input, signal)
            return {
              hookSpecificOutput: {
                hookEventName: "PreToolUse",
                permissionDecision: verdict.verdict === "allow" ? "allow" : "deny",
                permissionDecisionReason:
                  verdict.verdict === "allow" ? "Countersign allowed this call." : verdict.message
              }
            }
          }
        ]
      }
    ],
    ...hooks
  }
}

/**
 * Returns `canUseTool`, and hooks that record the outcome of the calls that it allowed. For `options`, if Claude Code's permission mode and
 * rules decide about most calls and only the rest is for people. Its built-in tools that ask the user, such as `AskUserQuestion`, come here too.
 *
 * One result is for one `query`: `canUseTool` does not get the session, and when a turn of its query ends, so have all calls that it allowed,
 * except for those of subagents.
 */
export const governPermissions = (options: GateOptions<ToolUse>): GovernedPermissions => {
  const { ask, hooks } = governCalls(options)
  return {
    canUseTool: async (tool, input, { agentID, signal, toolUseID }) => {
      const call = { id: toolUseID, tool, arguments: input }
      const verdict = await ask(call, agentID === undefined ? {} : { agent_id: agentID }, signal)
      return verdict.verdict === "allow"
        ? { behavior: "allow", updatedInput: input }
        : { behavior: "deny", message: verdict.message }
    },
    hooks
  }
}

/** Asks about calls, and records the outcome of allowed ones. */
const governCalls = (options: GateOptions<ToolUse>) => {
  const gate = makeToolGate(options)
  const allowed = new CallMap<{ readonly call: ToolCall; readonly context: ToolUse }>()

  const ask = async (call: ToolCall, context: ToolUse, signal: AbortSignal): Promise<Verdict> => {
    const verdict = await gate.ask(call, context, { signal })
    if (verdict.verdict === "allow") allowed.set(call.id, { call, context })
    return verdict
  }

  const report =
    (endOf: (input: HookInput) => Parameters<ToolGate<ToolUse>["report"]>[2]): Hook<Record<string, never>> =>
    async (input) => {
      const call = allowed.take(callOf(input).id)?.call
      if (call !== undefined) await gate.report(call, input, endOf(input))
      return {}
    }

  /** Reports calls that have ended without a hook of their own, such as one that a rule of Claude Code's forbids. */
  const reportLeft =
    (
      hasEnded: (call: ToolCall, context: ToolUse, input: HookInput) => boolean
    ): Hook<Record<string, never>> =>
    async (input) => {
      const left = allowed.takeAll(({ call, context }) => hasEnded(call, context, input))
      await Promise.all(left.map(({ call }) => gate.report(call, input, { status: "unknown" })))
      return {}
    }

  const hooks: OutcomeHooks = {
    PostToolUse: [
      {
        timeout: HOOK_SECONDS,
        hooks: [report(({ tool_response }) => ({ status: "succeeded", result: tool_response }))]
      }
    ],
    PostToolUseFailure: [
      {
        timeout: HOOK_SECONDS,
        hooks: [
          report(({ error, is_interrupt }) =>
            is_interrupt === true ? { status: "unknown" } : { status: "failed", error }
          )
        ]
      }
    ],
    PostToolBatch: [
      {
        timeout: HOOK_SECONDS,
        hooks: [
          reportLeft(
            ({ id }, _context, { tool_calls }) =>
              Array.isArray(tool_calls) && tool_calls.some((ended: HookInput) => callOf(ended).id === id)
          )
        ]
      }
    ],
    // An interrupted response has no `PostToolBatch`. Subagents can go on in the background. Calls of `canUseTool` are of one query.
    Stop: [
      {
        timeout: HOOK_SECONDS,
        hooks: [
          reportLeft(
            (_call, context, { agent_id, session_id }) =>
              (context.session_id ?? session_id) === session_id && context.agent_id === agent_id
          )
        ]
      }
    ]
  }
  return { ask, hooks }
}

/** The call of a hook's input. One without a name or an ID is refused by the service, so it is denied. */
const callOf = ({ tool_input, tool_name, tool_use_id }: HookInput): ToolCall => ({
  id: typeof tool_use_id === "string" ? tool_use_id : "",
  tool: typeof tool_name === "string" ? tool_name : "",
  arguments: tool_input
})
