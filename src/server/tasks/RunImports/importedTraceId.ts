import { createHash } from "node:crypto"
import { type OrgId, type TaskId, TraceId } from "../../../domain/Ids.ts"

/**
 * Derives a run's trace id from the caller's id. The primary key of runs is the trace id in an organization, so an id is imported once.
 */
export const importedTraceId = (org_id: OrgId, task_id: TaskId, id: string): TraceId =>
  TraceId.make(createHash("sha256").update(`${org_id}\n${task_id}\n${id}`).digest("hex").slice(0, 32))
