import { statements } from "./statements.ts"

/**
 * Sessions of the console: a browser that signed in with a key holds a token, of which the store knows the digest. What waits for a
 * person is shown by deadline, so that order has an index of its own.
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
