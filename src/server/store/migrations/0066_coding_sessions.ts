import { Effect } from "effect"
import { comments, orgId } from "./comments.ts"
import { statements } from "./statements.ts"

/** Sessions and waiting calls of coding agents that ask by HTTP hooks. Replicas of an older version answer no hooks. */
export default Effect.andThen(
  statements(
    `CREATE TABLE coding_sessions (
      org_id text COLLATE "C" NOT NULL,
      key_id text COLLATE "C" NOT NULL,
      agent text COLLATE "C" NOT NULL,
      coding_session text COLLATE "C" NOT NULL,
      session_id text COLLATE "C",
      created_at timestamptz NOT NULL,
      PRIMARY KEY (org_id, key_id, agent, coding_session)
    )`,
    `CREATE INDEX coding_sessions_session ON coding_sessions (org_id, session_id)`,
    `CREATE TABLE coding_calls (
      org_id text COLLATE "C" NOT NULL,
      session_id text COLLATE "C" NOT NULL,
      call_id text COLLATE "C" NOT NULL,
      step_id text COLLATE "C" NOT NULL,
      content_digest text COLLATE "C" NOT NULL,
      waiting boolean NOT NULL,
      PRIMARY KEY (org_id, session_id, call_id)
    )`,
    `CREATE INDEX coding_calls_waiting ON coding_calls (org_id, session_id, content_digest, call_id) WHERE waiting`
  ),
  comments({
    coding_sessions: [
      "Sessions of coding agents that ask by HTTP hooks.",
      {
        ...orgId,
        key_id: "API key of the coding agent.",
        agent: "The coding agent: claude-code.",
        coding_session: "Its own id of the session.",
        session_id: "Newest agent session; null: none was created.",
        created_at: "When it asked first."
      }
    ],
    coding_calls: [
      "Calls of coding agents that waited for a person longer than the request.",
      {
        ...orgId,
        session_id: "Agent session.",
        call_id: "The coding agent's id of the call that asked last.",
        step_id: "Step of the call.",
        content_digest:
          "Digest of tool, action class and arguments, by which the next call with the same content finds the step.",
        waiting: "Whether it waits for a person; false: a later request got the decision."
      }
    ]
  })
)
