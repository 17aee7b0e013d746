/** Answers of hooks to coding agents. Codex refuses unknown members and then goes on without the answer, so none are added. */
import type { HookAsk, HookFault } from "./HookInput.ts"
import type { HookVendor } from "./hookVendors.ts"

/** The decision about a call, with the text for the model. */
export type HookDecision =
  | { readonly verdict: "allow" }
  | { readonly verdict: "deny"; readonly message: string }
  /** The run ends here and is resumed after the decision. */
  | { readonly verdict: "defer"; readonly message: string }

/** The answer's JSON. */
export type HookAnswer = Readonly<Record<string, unknown>>

/** Most characters of a text for a model. Claude Code replaces longer output by a path to a file. */
const MAX_MESSAGE = 8_000

/** Modes of Claude Code in which a deferred call that it does not defer is not executed without another permission. */
const DEFERRING_MODES: ReadonlySet<string | undefined> = new Set([undefined, "default", "plan", "dontAsk"])

/** The text for the model about a further call of a turn that needs a person. */
export const OTHER_DEFERRED =
  "The run ends at another call of this turn, which waits too. Nothing has been rejected: make this call again, with the same arguments, when the run goes on."

/**
 * Whether a call can be answered with `defer`. Claude Code ignores it outside of `claude -p`, and goes on with its own permissions; a mode that
 * allows calls by itself would then execute the call without a decision. Of several deferred calls of a turn it resumes the last.
 */
export const canDefer = (vendor: HookVendor, ask: Pick<HookAsk, "event" | "permissionMode">): boolean =>
  vendor === "claude-code" && ask.event === "PreToolUse" && DEFERRING_MODES.has(ask.permissionMode)

/** The answer to an event that asks. */
export const answerAsk = (
  vendor: HookVendor,
  event: HookAsk["event"],
  decision: HookDecision
): HookAnswer => {
  if (event === "PermissionRequest") {
    return {
      hookSpecificOutput: {
        hookEventName: event,
        decision:
          decision.verdict === "allow"
            ? { behavior: "allow" }
            : { behavior: "deny", message: messageOf(decision) }
      }
    }
  }
  // Codex knows no `allow` here: its own permissions come next, and its `PermissionRequest` is answered then.
  if (vendor === "codex" && decision.verdict === "allow") return {}
  return {
    hookSpecificOutput: {
      hookEventName: event,
      permissionDecision: vendor === "codex" ? "deny" : decision.verdict,
      permissionDecisionReason:
        decision.verdict === "allow" ? "Countersign allowed this call." : messageOf(decision)
    }
  }
}

/** The answer to input that is not understood. Blocks whatever the event is, if blocking stops something. */
export const answerFault = (vendor: HookVendor, fault: HookFault): HookAnswer => {
  const message = faultMessage(fault)
  const { event } = fault
  if (event === "PreToolUse" || event === "PermissionRequest")
    return answerAsk(vendor, event, { verdict: "deny", message })
  return fault.canBlock ? { decision: "block", reason: message } : answerNote(message)
}

/** The answer to an event that reports. A note is shown to the user. */
export const answerNote = (note: string | undefined): HookAnswer =>
  note === undefined ? {} : { systemMessage: plainText(note) }

/** Describes the fault of an input. */
export const faultMessage = ({ canBlock, reason }: HookFault): string =>
  canBlock ? `Countersign denied this, because it does not understand the hook's input. ${reason}` : reason

const messageOf = ({ message }: Exclude<HookDecision, { verdict: "allow" }>): string => plainText(message)

/** A text that every JSON parser accepts, and that is never empty: Codex ignores a denial without a reason. */
const plainText = (text: string): string => {
  const whole = text.toWellFormed().trim()
  if (whole === "") return "Countersign denied this call."
  return whole.length <= MAX_MESSAGE ? whole : `${whole.slice(0, MAX_MESSAGE).toWellFormed()} … (cut)`
}
