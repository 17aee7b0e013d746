import { ClientError } from "../ClientError.ts"

/** The `timeout` of `govern` ended before a decision. The approval stays pending; calling `govern` again continues to wait. */
export class DecisionTimeout extends ClientError {
  override readonly code = "DECISION_TIMEOUT"

  constructor() {
    super("DecisionTimeout", "No decision within the timeout; the approval is pending", "govern")
  }

  override get _tag(): "DECISION_TIMEOUT" {
    return this.code
  }
}
