import { statements } from "./statements.ts"

/** Webhook endpoints for approval events, and the events with their signed bytes. */
export default statements(
  `CREATE TABLE notification_endpoints (
    org_id text COLLATE "C" NOT NULL,
    endpoint_id text COLLATE "C" NOT NULL,
    url bytea NOT NULL,
    url_hint text NOT NULL,
    secret bytea NOT NULL,
    events text[] NOT NULL,
    active boolean NOT NULL DEFAULT true,
    created_at timestamptz NOT NULL,
    created_by_id text COLLATE "C" NOT NULL,
    created_by_name text NOT NULL,
    PRIMARY KEY (org_id, endpoint_id)
  )`,
  `CREATE TABLE approval_events (
    org_id text COLLATE "C" NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    type text NOT NULL,
    approval_id text COLLATE "C",
    body bytea NOT NULL,
    occurred_at timestamptz NOT NULL,
    PRIMARY KEY (org_id, event_id)
  )`
)
