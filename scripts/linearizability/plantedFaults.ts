/** Broken lines of the service with which a run must find a violation: they show that the check has teeth. */
import type { Mutant } from "../mutants/list.ts"

/** A broken line, and the kind of object whose history shows it. */
export interface PlantedFault extends Pick<Mutant, "file" | "from" | "to"> {
  readonly object: "session" | "dataset" | "key" | "budget"
}

export const plantedFaults: Readonly<Record<string, PlantedFault>> = {
  "decided twice": {
    object: "session",
    file: "server/approvals/SessionWriter/transitionChange.ts",
    from: "AND a.status = n.old_status",
    to: ""
  },
  "claimed twice": {
    object: "session",
    file: "server/approvals/SessionWriter/stepUpdates.ts",
    from: "= n.old_decision AND ${sql.literal(hasOldExecution)}",
    to: "= n.old_decision"
  },
  "step in a closed session": {
    object: "session",
    file: "server/approvals/SessionWriter/writeStatement.ts",
    from: "WHERE s.closed_at IS NULL AND (",
    to: "WHERE ("
  },
  "proposal ignored": {
    object: "session",
    file: "server/approvals/SessionWriter/writeStatement.ts",
    from: "AND (NOT o.asks OR s.proposals_until IS NULL OR s.proposals_until <= o.at)",
    to: ""
  },
  "promoted without a preview": {
    object: "dataset",
    file: "server/tasks/Feedback/promoteStaged.ts",
    from: "if (plan.revision !== request.expected_feedback_revision) {",
    to: "if (plan.revision === undefined) {"
  },
  "budget exceeded": {
    object: "budget",
    file: "server/approvals/SessionWriter/counterChange.ts",
    from: "AND l.counter = g.counter AND l.version = g.version",
    to: "AND l.counter = g.counter"
  },
  "key claimed twice": {
    object: "key",
    file: "server/store/idempotencyKeys.ts",
    from: "WHERE existing.created_at < ${before(now, RETENTION_MILLIS)}",
    to: "WHERE existing.created_at <= excluded.created_at"
  }
}
