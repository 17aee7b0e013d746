import { statements } from "./statements.ts"

/**
 * The console shows the steps of a session before an approval. Every step writes an entry, so it has a hash of the session: 43 bytes of a
 * step instead of 151 with the organization and the session, and less than half of the log. The entry never changes with the step.
 */
export default statements(
  `CREATE INDEX governed_steps_of_session ON governed_steps (hashtextextended(session_id, 0), requested_at)`
)
