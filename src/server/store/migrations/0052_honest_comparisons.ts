import { statements } from "./statements.ts"

/**
 * The hold-out, evaluators and budget of a comparison. Existing comparisons held out nothing, or not from both kinds of providers. The
 * index lists wins and regressions; it is over expressions, because rewriting the results would take long. A second index
 * finds the results of an example that is erased. They are built first: reads of comparisons would wait for them if their table were locked.
 */
export default statements(
  `CREATE INDEX comparison_results_verdict
    ON comparison_results (org_id, comparison_id, (candidate->>'agrees'), (live->>'agrees'), example_id)`,
  `CREATE INDEX comparison_results_example ON comparison_results (org_id, example_id)`,
  `ALTER TABLE comparisons
    ADD COLUMN hold_out json NOT NULL DEFAULT '{"kind":"none"}',
    ADD COLUMN evaluators json NOT NULL DEFAULT '{}',
    ADD COLUMN judge json,
    ADD COLUMN budget json NOT NULL
      DEFAULT '{"max_calls":null,"max_tokens":null,"max_cost":null,"max_failures":null}',
    ADD COLUMN spent_calls integer NOT NULL DEFAULT 0,
    ADD COLUMN spent_input_tokens double precision NOT NULL DEFAULT 0,
    ADD COLUMN spent_output_tokens double precision NOT NULL DEFAULT 0,
    ADD COLUMN spent_cost double precision`,
  `COMMENT ON COLUMN comparisons.hold_out IS 'Which examples are compared, and which ones the sides must not see.'`,
  `COMMENT ON COLUMN comparisons.evaluators IS 'How values of the answers are compared, by JSON pointer.'`,
  `COMMENT ON COLUMN comparisons.judge IS 'Prompt and provider of the judge; null: none.'`,
  `COMMENT ON COLUMN comparisons.budget IS 'Limits of what it may spend; null: no limit.'`,
  `COMMENT ON COLUMN comparisons.spent_calls IS 'Calls to models, in all attempts.'`,
  `COMMENT ON COLUMN comparisons.spent_input_tokens IS 'Input tokens of these calls.'`,
  `COMMENT ON COLUMN comparisons.spent_output_tokens IS 'Output tokens of these calls.'`,
  `COMMENT ON COLUMN comparisons.spent_cost IS 'Cost of these calls by the prices of their providers; null: none has a price.'`,
  `COMMENT ON COLUMN comparisons.failure IS 'Why it failed, such as its spent budget, or who cancelled it; null unless the status is failed or cancelled.'`
)
