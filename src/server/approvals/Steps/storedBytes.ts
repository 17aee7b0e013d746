import type { OutcomeReport } from "../../../api/AgentSessions.ts"
import { rowBytes } from "../../identity/StoredUsage.ts"
import type { NewStep } from "./newStep.ts"

/** Approximate size of a new step with its approval and its events. */
export const stepBytes = ({ approval, row }: NewStep): number =>
  rowBytes.step + (row.arguments?.length ?? 0) * (approval === null ? 1 : 2)

/** Approximate size of an outcome with its event. */
export const outcomeBytes = ({ error, result }: OutcomeReport): number =>
  rowBytes.outcome + (result === undefined ? 0 : JSON.stringify(result).length) + (error?.length ?? 0)
