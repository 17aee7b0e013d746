import { statements } from "./statements.ts"

/**
 * Tests of rules read an organization's steps by time. Sessions cannot be that order: they stay open for as long as their agents want. The
 * index never changes with a step, so outcomes and decisions are written without touching it (heap-only tuples).
 */
export default statements(
  `CREATE INDEX governed_steps_requested ON governed_steps (org_id, requested_at, session_id, step_id)`
)
