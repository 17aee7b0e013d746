import { statements } from "./statements.ts"

/**
 * Gives cryptic columns the names of their content. A rename breaks every replica of an older version, so it is
 * possible here only because no release precedes this migration. After the first release, rename in two steps: add the
 * new column and write both, then drop the old one a release later.
 */
export default statements(
  `ALTER TABLE governed_steps RENAME COLUMN told TO last_decision`,
  `ALTER TABLE governed_steps RENAME CONSTRAINT governed_steps_told_check TO governed_steps_last_decision_check`,
  `ALTER TABLE delivery_queue RENAME COLUMN round_start TO first_attempt`,
  `ALTER TABLE delivery_queue RENAME COLUMN give_up_at TO expires_at`,
  `ALTER TABLE tasks RENAME COLUMN input_shape TO input_schema_digest`,
  `ALTER TABLE tasks RENAME COLUMN answer_shape TO answer_schema_digest`,
  `ALTER TABLE dataset_examples RENAME COLUMN telling TO rare_tokens`,
  `ALTER INDEX dataset_examples_telling RENAME TO dataset_examples_rare_tokens`,
  `ALTER INDEX dataset_examples_came RENAME TO dataset_examples_first_version`,
  `ALTER INDEX dataset_examples_went RENAME TO dataset_examples_until_version`,
  `ALTER TABLE secret_changes RENAME COLUMN changes TO change_count`,
  `CREATE OR REPLACE FUNCTION secret_changed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO secret_changes AS c (org_id, change_count)
      VALUES (NEW.org_id, 1)
      ON CONFLICT (org_id) DO UPDATE
      SET change_count = c.change_count + 1;
      RETURN NULL;
    END
  $$`
)
