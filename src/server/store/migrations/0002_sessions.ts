import { statements } from "./statements.ts"

/**
 * Agent sessions, their governed steps, the approvals of steps, and the events of sessions. `last_event` is the number of the newest event,
 * raised under the session's row lock, so that event numbers follow commit order.
 */
export default statements(
  `CREATE TABLE agent_sessions (
    org_id text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    task_id text COLLATE "C",
    trace_id text COLLATE "C" NOT NULL,
    metadata json,
    created_at timestamptz NOT NULL,
    created_by_id text COLLATE "C" NOT NULL,
    created_by_name text NOT NULL,
    closed_at timestamptz,
    last_event bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (org_id, session_id)
  ) WITH (fillfactor = 80)`,
  `CREATE TABLE governed_steps (
    org_id text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    step_id text COLLATE "C" NOT NULL,
    task_id text COLLATE "C",
    tool text NOT NULL,
    action_class text NOT NULL,
    arguments json,
    arguments_digest text COLLATE "C" NOT NULL,
    rule_id text COLLATE "C",
    decision text NOT NULL CHECK (decision IN ('allow', 'reject', 'pending')),
    reason text NOT NULL,
    approval_id text COLLATE "C",
    requested_by_id text COLLATE "C" NOT NULL,
    requested_at timestamptz NOT NULL,
    outcome_status text CHECK (outcome_status IN ('succeeded', 'failed')),
    outcome_result json,
    outcome_error text,
    outcome_at timestamptz,
    PRIMARY KEY (org_id, session_id, step_id)
  ) WITH (fillfactor = 80)`,
  `CREATE TABLE approvals (
    org_id text COLLATE "C" NOT NULL,
    approval_id text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    step_id text COLLATE "C" NOT NULL,
    task_id text COLLATE "C",
    tool text NOT NULL,
    action_class text NOT NULL,
    arguments json,
    arguments_digest text COLLATE "C" NOT NULL,
    status text NOT NULL CHECK (status IN ('pending', 'approved', 'rejected', 'expired')),
    stage text NOT NULL CHECK (stage IN ('reviewer', 'admin')),
    requested_at timestamptz NOT NULL,
    requested_by_id text COLLATE "C" NOT NULL,
    review_deadline_at timestamptz NOT NULL,
    escalation_deadline_at timestamptz,
    expires_at timestamptz NOT NULL,
    expiring_seconds double precision NOT NULL,
    expiring_notified boolean NOT NULL DEFAULT false,
    escalated_at timestamptz,
    timeout_action text NOT NULL CHECK (timeout_action IN ('allow', 'reject')),
    self_approval boolean NOT NULL DEFAULT false,
    outcome text CHECK (outcome IN ('allow', 'reject')),
    decision_source text CHECK (decision_source IN ('human', 'timeout', 'session_closed')),
    decided_at timestamptz,
    decided_by_id text COLLATE "C",
    decided_by_name text,
    comment text,
    next_due_at timestamptz,
    PRIMARY KEY (org_id, approval_id)
  ) WITH (fillfactor = 80)`,
  `CREATE UNIQUE INDEX approvals_step ON approvals (org_id, session_id, step_id)`,
  `CREATE INDEX approvals_status ON approvals (org_id, status, approval_id DESC)`,
  `CREATE INDEX approvals_due ON approvals (next_due_at) WHERE next_due_at IS NOT NULL`,
  `CREATE TABLE approval_rules (
    org_id text COLLATE "C" PRIMARY KEY,
    revision bigint NOT NULL,
    rules json NOT NULL
  )`,
  `CREATE TABLE session_events (
    org_id text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    type text NOT NULL,
    step_id text COLLATE "C",
    occurred_at timestamptz NOT NULL,
    data json NOT NULL,
    PRIMARY KEY (org_id, session_id, number)
  )`
)
