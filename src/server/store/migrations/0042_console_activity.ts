import { statements } from "./statements.ts"

/**
 * Lets users list and end their console sessions, and ends idle ones. The defaults are for older versions of the
 * service.
 */
export default statements(
  `ALTER TABLE console_sessions
    ADD COLUMN session_id text COLLATE "C" NOT NULL DEFAULT ('cse_' || replace(gen_random_uuid()::text, '-', '')),
    ADD COLUMN last_active_at timestamptz NOT NULL DEFAULT now()`,
  `CREATE UNIQUE INDEX console_sessions_id ON console_sessions (org_id, session_id)`,
  `COMMENT ON COLUMN console_sessions.session_id IS 'Id, cse_….'`,
  `COMMENT ON COLUMN console_sessions.last_active_at IS 'When its user was last active, to within a minute.'`
)
