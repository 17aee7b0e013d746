import { Context } from "effect"

/** Limits of the work that one organization has in progress on this replica. Further requests wait. */
export interface WorkLimitValues {
  /** Reads that run concurrently. */
  readonly reads: number
  /** Bytes of bodies of more than 64 KiB, from before they are read until the response. At least one body's. */
  readonly largeBodyBytes: number
}

/** The limits of every organization of the installation. */
export class WorkLimits extends Context.Service<WorkLimits, WorkLimitValues>()(
  "countersign/server/admission/WorkLimits"
) {}
