import { statements } from "./statements.ts"

/**
 * A rejection can propose other arguments. A replica of an older version does not look for proposals: it asks about each step. Steps that a
 * proposal has allowed have no approval of their own, so that it reads them as allowed by a rule.
 */
export default statements(
  `ALTER TABLE approvals
    ADD COLUMN proposed_arguments json,
    ADD COLUMN proposed_digest text COLLATE "C",
    ADD COLUMN proposed_by json,
    ADD COLUMN proposal_expires_at timestamptz,
    ADD COLUMN proposal_step_id text COLLATE "C",
    ADD CONSTRAINT approvals_proposal_check CHECK (proposed_digest IS NULL OR status = 'rejected') NOT VALID`,
  `COMMENT ON COLUMN approvals.proposed_arguments IS 'Arguments that the reviewer proposed instead; null: none.'`,
  `COMMENT ON COLUMN approvals.proposed_digest IS
    'Digest of the session, tool, action class and proposed arguments, by which steps find the proposal; null: none.'`,
  `COMMENT ON COLUMN approvals.proposed_by IS
    'Groups of the key that proposed, and the keys that made it, at that time; null: no proposal.'`,
  `COMMENT ON COLUMN approvals.proposal_expires_at IS 'Until when the proposal allows a step; null: no proposal.'`,
  `COMMENT ON COLUMN approvals.proposal_step_id IS 'Step that the proposal has allowed; null: none.'`,
  `COMMENT ON COLUMN approvals.arguments_bytes IS
    'Length of the arguments and the proposed arguments as text, in bytes; pages are limited by it.'`,
  `CREATE INDEX approvals_proposed ON approvals (org_id, session_id, proposed_digest)
    WHERE proposed_digest IS NOT NULL AND proposal_step_id IS NULL`,
  `ALTER TABLE agent_sessions ADD COLUMN proposals_until timestamptz`,
  `COMMENT ON COLUMN agent_sessions.proposals_until IS
    'When the last unused counter-proposal of the session expires; null: there is none. Steps look for proposals only until then.'`,
  `ALTER TABLE governed_steps ADD COLUMN proposal_approval_id text COLLATE "C"`,
  `COMMENT ON COLUMN governed_steps.proposal_approval_id IS
    'Approval whose counter-proposal allowed the step; null: a rule or an approval of its own decided.'`
)
