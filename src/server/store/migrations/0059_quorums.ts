import { statements } from "./statements.ts"

/**
 * Approvals can need several people, of certain groups. Existing approvals need one. The constraint holds for replicas of an older version
 * too, which know no quorum: their approval of one that has a quorum fails.
 */
export default statements(
  `ALTER TABLE api_keys ADD COLUMN groups text[] NOT NULL DEFAULT '{}'`,
  `COMMENT ON COLUMN api_keys.groups IS 'Groups of the key, which quorums of approval rules name.'`,
  `ALTER TABLE approvals
    ADD COLUMN quorum json,
    ADD COLUMN approvals_required integer NOT NULL DEFAULT 1,
    ADD COLUMN votes json,
    ADD COLUMN approvals_given integer NOT NULL DEFAULT 0,
    ADD CONSTRAINT approvals_quorum_check
      CHECK (status <> 'approved' OR quorum IS NULL OR approvals_given >= approvals_required) NOT VALID`,
  `COMMENT ON COLUMN approvals.quorum IS 'How many people, of which groups, must approve; null: one person.'`,
  `COMMENT ON COLUMN approvals.approvals_required IS 'Sum of the counts of the quorum.'`,
  `COMMENT ON COLUMN approvals.votes IS
    'Approvals that count towards the quorum, with the keys that made the voters; null: none, or decided before version 0059 of the schema.'`,
  `COMMENT ON COLUMN approvals.approvals_given IS 'Number of votes.'`
)
