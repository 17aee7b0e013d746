/**
 * The JSON that a coding agent gives to its hooks, as calls of tools. Claude Code and Codex share most of the format; `hookVendors` has the
 * differences. Formats: `@anthropic-ai/claude-agent-sdk` 0.3.330 (`sdk.d.ts`) and the schemas in `codex-rs/hooks/schema/generated` of
 * github.com/openai/codex.
 *
 * No imports at run time: the command `countersign hook` starts once for each call of a tool.
 */
import { type HookVendor, hookVendors } from "./hookVendors.ts"

/** Events that ask before a call. */
export type AskEvent = "PreToolUse" | "PermissionRequest"

/** A coding agent asks whether it may call a tool. */
export interface HookAsk {
  readonly _tag: "Ask"
  readonly event: AskEvent
  /** The coding agent's ID of its session. */
  readonly session: string
  /** The coding agent's ID of the call; undefined for `PermissionRequest`, which has none. */
  readonly callId: string | undefined
  readonly tool: string
  readonly arguments: unknown
  /** The mode of the coding agent's own permissions; undefined if it named none. */
  readonly permissionMode: string | undefined
}

/** A coding agent reports how a call ended. */
export interface HookReport {
  readonly _tag: "Report"
  readonly event: "PostToolUse" | "PostToolUseFailure"
  readonly session: string
  readonly callId: string
  readonly tool: string
  readonly arguments: unknown
  readonly end:
    | { readonly status: "succeeded"; readonly result: unknown }
    | { readonly status: "failed"; readonly error: string }
    /** It was interrupted: it may have been executed. */
    | { readonly status: "unknown" }
}

/** A session of a coding agent has ended. It can be resumed later under the same ID. */
export interface HookEnd {
  readonly _tag: "End"
  readonly event: "SessionEnd"
  readonly session: string
}

/** Input that is not understood. */
export interface HookFault {
  readonly _tag: "Fault"
  /** The event's name, if there is one. */
  readonly event: string | undefined
  /** The fault, as a sentence. Contains no value of the input except the event's name. */
  readonly reason: string
  /** Whether blocking the event stops something. Blocking the end of a turn would make the agent go on. */
  readonly canBlock: boolean
}

export type HookInput = HookAsk | HookReport | HookEnd | HookFault

/** Most characters of a name and of an ID of a session, as the service accepts them. */
const MAX_NAME = 200

/** Most characters of an ID of a call: gateways put signatures of a model's thoughts into it. */
const MAX_CALL_ID = 65_536

/** Most characters of a name that a message repeats. */
const MAX_SHOWN = 60

/** Parses the text of a hook's input. Never throws; unknown fields are ignored. */
export const parseHookInput = (vendor: HookVendor, text: string): HookInput => {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return fault(undefined, text.trim() === "" ? "The input is empty." : "The input is not complete JSON.")
  }
  return readHookInput(vendor, value)
}

/** Reads a hook's input that has been parsed as JSON. */
export const readHookInput = (vendor: HookVendor, value: unknown): HookInput => {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return fault(undefined, "The input is not a JSON object.")
  }
  const member = (name: string): unknown =>
    Object.hasOwn(value, name) ? Reflect.get(value, name) : undefined
  const event = member("hook_event_name")
  if (typeof event !== "string") return fault(undefined, "`hook_event_name` is missing or not a string.")
  const { name, otherEvents } = hookVendors[vendor]
  if (!isGoverned(event)) {
    const shown = JSON.stringify(event.slice(0, MAX_SHOWN))
    return otherEvents.has(event)
      ? fault(event, `The event ${shown} is not a call of a tool. Remove this hook from it.`, false)
      : fault(
          event,
          `Countersign does not govern the event ${shown}. Remove this hook from it, or update Countersign.`
        )
  }

  const missing = (field: string, expected: string): HookFault =>
    fault(event, `\`${field}\` of ${event} is missing or not ${expected}: a newer format of ${name}?`)
  const nameOf = (field: string, max = MAX_NAME): string | HookFault => {
    const text = member(field)
    if (typeof text !== "string" || text === "") return missing(field, "a string that is not empty")
    if (text.length <= max) return text
    return fault(event, `\`${field}\` of ${event} is too long: ${text.length} characters, at most ${max}.`)
  }

  const session = nameOf("session_id")
  if (typeof session !== "string") return session
  if (event === "SessionEnd") return { _tag: "End", event, session }

  const tool = nameOf("tool_name")
  if (typeof tool !== "string") return tool
  const input = member("tool_input")
  if (input === undefined) return missing("tool_input", "JSON")
  const mode = member("permission_mode")
  const permissionMode = typeof mode === "string" ? mode : undefined
  const ask = { _tag: "Ask", session, tool, arguments: input, permissionMode } as const
  if (event === "PermissionRequest") return { ...ask, event, callId: undefined }
  const callId = nameOf("tool_use_id", MAX_CALL_ID)
  if (typeof callId !== "string") return callId
  if (event === "PreToolUse") return { ...ask, event, callId }

  if (event === "PostToolUse") {
    const end = { status: "succeeded" as const, result: member("tool_response") }
    return { _tag: "Report", event, session, callId, tool, arguments: input, end }
  }
  const error = member("error")
  if (typeof error !== "string") return missing("error", "a string")
  const end =
    member("is_interrupt") === true ? { status: "unknown" as const } : { status: "failed" as const, error }
  return { _tag: "Report", event, session, callId, tool, arguments: input, end }
}

const fault = (event: string | undefined, reason: string, canBlock = true): HookFault => ({
  _tag: "Fault",
  event,
  reason,
  canBlock
})

const governedEvents = [
  "PreToolUse",
  "PermissionRequest",
  "PostToolUse",
  "PostToolUseFailure",
  "SessionEnd"
] as const

const isGoverned = (event: string): event is (typeof governedEvents)[number] =>
  (governedEvents as ReadonlyArray<string>).includes(event)

/**
 * The arguments of a call without a coding agent's additions to a request for permission. Codex adds its reason to a command, as
 * `description`, and the call before it was without.
 */
export const comparedArguments = (vendor: HookVendor, ask: Pick<HookAsk, "event" | "arguments">): unknown => {
  const input = ask.arguments
  const isCommand =
    vendor === "codex" &&
    ask.event === "PermissionRequest" &&
    typeof input === "object" &&
    input !== null &&
    "command" in input
  if (!isCommand) return input
  const { description: _, ...rest } = input as { readonly command: unknown; readonly description?: unknown }
  return rest
}
