import type { OutcomeReport } from "../../../api/AgentSessions.ts"
import { rowBytes } from "../../identity/StoredUsage.ts"
import type { NewStep } from "./newStep.ts"

/** Approximate size of a new step with its approval and its events. */
export const stepBytes = ({ approval, row }: NewStep): number =>
  rowBytes.step +
  Buffer.byteLength(row.arguments ?? "") * (approval === null ? 1 : 2) +
  Buffer.byteLength(`${approval?.rule_summary ?? ""}${approval?.agent_summary ?? ""}`)

/** Approximate size of an outcome with its event. */
export const outcomeBytes = ({ error, result }: OutcomeReport): number =>
  rowBytes.outcome +
  Buffer.byteLength(result === undefined ? "" : JSON.stringify(result)) +
  Buffer.byteLength(error ?? "")
