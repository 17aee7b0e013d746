/** Mutants of approvals and their deadlines. */
import type { ListedMutant } from "../list.ts"

const deadlines = ["server/approvals/Deadlines.test.ts", "server/approvals/Approvals.test.ts"]
const transitionRows = "server/approvals/Approvals/transitionRows.ts"

export const approvals: ReadonlyArray<ListedMutant> = [
  {
    file: transitionRows,
    from: "FOR NO KEY UPDATE OF agent_sessions, approvals SKIP LOCKED",
    to: "FOR NO KEY UPDATE OF agent_sessions, approvals",
    tests: deadlines
  },
  {
    file: transitionRows,
    from: "(approvals.next_due_at, approvals.approval_id) > (",
    to: "(approvals.next_due_at, approvals.approval_id) >= (",
    tests: deadlines
  },
  {
    file: "server/approvals/Deadlines.ts",
    from: "yield* sql`SET LOCAL lock_timeout = 0`",
    to: "",
    tests: deadlines
  },
  {
    file: "server/approvals/Deadlines.ts",
    from: "Duration.isZero(next_due_in) ? lockedRetry :",
    to: "",
    tests: deadlines
  }
]
