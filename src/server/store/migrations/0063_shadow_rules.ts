import { statements } from "./statements.ts"

/**
 * A second list of rules per organization, which is evaluated and not enforced. A difference is written with its step, so that it takes no
 * statement of its own and goes with the session; steps without one have nulls and are not in the index. The index never changes with a step.
 */
export default statements(
  `ALTER TABLE approval_rules
    ADD COLUMN shadow_rules json,
    ADD COLUMN shadow_revision integer NOT NULL DEFAULT 0,
    ADD COLUMN shadow_since timestamptz`,
  `COMMENT ON COLUMN approval_rules.shadow_rules IS
    'Rules that are evaluated beside the others and not enforced, as a JSON array in the order of evaluation; null: none.'`,
  `COMMENT ON COLUMN approval_rules.shadow_revision IS 'Raised with each change of the shadow rules, also when they are removed.'`,
  `COMMENT ON COLUMN approval_rules.shadow_since IS 'When the shadow rules were stored; null: there are none.'`,
  `ALTER TABLE governed_steps
    ADD COLUMN shadow_effect text,
    ADD COLUMN shadow_rule_id text,
    ADD COLUMN shadow_reason text,
    ADD COLUMN shadow_revision integer,
    ADD CONSTRAINT governed_steps_shadow_effect_check
      CHECK (shadow_effect = ANY (ARRAY['allow'::text, 'reject'::text, 'require_approval'::text])) NOT VALID`,
  `COMMENT ON COLUMN governed_steps.shadow_effect IS
    'Effect that the shadow rules would have had; null: the same as the decision, or there were none.'`,
  `COMMENT ON COLUMN governed_steps.shadow_rule_id IS 'Shadow rule that matched; null: none did, or there is no difference.'`,
  `COMMENT ON COLUMN governed_steps.shadow_reason IS 'Explanation that the shadow rules would have given; null: no difference.'`,
  `COMMENT ON COLUMN governed_steps.shadow_revision IS 'Revision of the shadow rules that differ; null: no difference.'`,
  `CREATE INDEX governed_steps_shadow
    ON governed_steps (org_id, shadow_revision, decision, shadow_effect, requested_at, session_id, step_id)
    WHERE shadow_effect IS NOT NULL`
)
