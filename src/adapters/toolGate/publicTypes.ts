/** The types of the gate that applications name, which every adapter exports. */
export type {
  Allowed,
  Denied,
  DenialCause,
  GateFault,
  GateOptions,
  GateSettings,
  Pending,
  ToolCall,
  Verdict
} from "../toolGate.ts"
export type { Claim } from "../../client/connect/generated/Operations.ts"
