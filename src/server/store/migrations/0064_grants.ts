import { Effect } from "effect"
import { comments, createdBy, orgId } from "./comments.ts"
import { statements } from "./statements.ts"

/**
 * Standing grants. A session without active grants is recognized by `grants_until`, in the row that every step reads anyway. Replicas of an
 * older version know no grants, and ask a person about every step that asks.
 */
export default Effect.andThen(
  statements(
    `CREATE TABLE grants (
      org_id text COLLATE "C" NOT NULL,
      grant_id text COLLATE "C" NOT NULL,
      session_id text COLLATE "C" NOT NULL,
      approval_id text COLLATE "C" NOT NULL,
      step_id text COLLATE "C" NOT NULL,
      scope text NOT NULL CHECK (scope IN ('arguments', 'tool', 'condition')),
      tool text NOT NULL,
      action_class text NOT NULL,
      content_digest text COLLATE "C",
      conditions json NOT NULL,
      reason text NOT NULL,
      uses integer NOT NULL DEFAULT 0,
      max_uses integer,
      last_used_at timestamptz,
      created_at timestamptz NOT NULL,
      created_by_id text COLLATE "C" NOT NULL,
      created_by_name text NOT NULL,
      expires_at timestamptz NOT NULL,
      ended_at timestamptz,
      end_reason text CHECK (end_reason IN ('used_up', 'revoked', 'session_closed')),
      revoked_by_id text COLLATE "C",
      revoked_by_name text,
      PRIMARY KEY (org_id, grant_id),
      CHECK (uses <= max_uses),
      CHECK ((ended_at IS NULL) = (end_reason IS NULL)),
      CHECK ((scope = 'arguments') = (content_digest IS NOT NULL))
    ) WITH (fillfactor = 80)`,
    `CREATE UNIQUE INDEX grants_approval ON grants (org_id, approval_id)`,
    `CREATE INDEX grants_session ON grants (org_id, session_id, grant_id)`,
    `CREATE INDEX grants_tool ON grants (org_id, tool, grant_id)`,
    `CREATE INDEX grants_open ON grants (org_id, expires_at) WHERE ended_at IS NULL`,
    `CREATE INDEX grants_open_session ON grants (org_id, session_id, expires_at) WHERE ended_at IS NULL`,
    `ALTER TABLE agent_sessions ADD COLUMN grants_until timestamptz`,
    `ALTER TABLE governed_steps ADD COLUMN grant_id text COLLATE "C"`
  ),
  comments({
    grants: [
      "Standing grants: approvals in advance for further steps of one agent session.",
      {
        ...orgId,
        grant_id: "Id, grt_….",
        session_id: "Agent session whose steps it allows.",
        approval_id: "Approval with whose decision it was made.",
        step_id: "Step of that approval.",
        scope: "Which steps it allows: arguments, tool or condition.",
        tool: "Tool of these steps.",
        action_class: "Action class of these steps.",
        content_digest: "SHA-256 of tool, action class and arguments; null: another scope.",
        conditions: "Conditions on the arguments; empty: another scope.",
        reason: "Why it was made; empty: no reason was given.",
        uses: "Number of steps that it has allowed.",
        max_uses: "How many steps it can allow; null: any number.",
        last_used_at: "When it allowed a step last; null: never.",
        created_at: "When it was made.",
        ...createdBy,
        expires_at: "When it ends at the latest.",
        ended_at: "When it ended before that; null: it did not.",
        end_reason: "used_up, revoked or session_closed; null: it did not end before its time.",
        revoked_by_id: "API key that revoked it; null: not revoked.",
        revoked_by_name: "Name of that key at the time; null: not revoked."
      }
    ],
    agent_sessions: [
      "Sessions of agents: a sequence of governed steps.",
      { grants_until: "When the last of its standing grants ends at the latest; null: it has none." }
    ],
    governed_steps: [
      "Steps that agents asked permission for, with the decision and the reported outcome.",
      { grant_id: "Standing grant that allowed the step; null: none." }
    ]
  })
)
