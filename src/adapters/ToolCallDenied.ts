import type { Denied, Pending } from "./toolGate/publicTypes.ts"

/** Thrown instead of executing a tool. Frameworks pass its message to the model as the tool's error. */
export class ToolCallDenied extends Error {
  override readonly name = "ToolCallDenied"
  /** What decided, and the service's response. */
  readonly verdict: Denied | Pending

  constructor(verdict: Denied | Pending) {
    super(verdict.message)
    this.verdict = verdict
  }
}
