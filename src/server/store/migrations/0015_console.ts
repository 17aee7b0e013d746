import { statements } from "./statements.ts"

/**
 * Console sessions: a browser that signed in with a key has a token, stored as a digest. Pending approvals are listed by deadline, with an
 * index of their own.
 */
export default statements(
  `CREATE TABLE console_sessions (
    org_id text COLLATE "C" NOT NULL,
    digest bytea NOT NULL,
    key_id text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (org_id, digest),
    FOREIGN KEY (org_id, key_id) REFERENCES api_keys (org_id, key_id)
  )`,
  `CREATE INDEX console_sessions_expiry ON console_sessions (org_id, expires_at)`,
  `CREATE INDEX approvals_inbox ON approvals (org_id, expires_at, approval_id) WHERE status = 'pending'`
)
