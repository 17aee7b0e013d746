import { statements } from "./statements.ts"

/**
 * Lets models see the nearest examples of the release's dataset in their prompt, records the examples that a run used, and adds sampling parameters. Existing tasks
 * and releases go on without examples, because a release never changes.
 */
export default statements(
  ...[
    ["tasks", "provider"],
    ["releases", "provider"],
    ["comparisons", "candidate_provider"]
  ].map(
    ([table, column]) => `UPDATE ${table}
    SET ${column} = (${column}::jsonb || '{
      "top_p": null, "seed": null, "max_tokens": null, "reasoning_effort": null,
      "few_shot": {"examples": 0, "max_tokens": 4000}
    }')::json
    WHERE ${column}->>'kind' = 'openai'`
  ),
  `ALTER TABLE runs ADD COLUMN examples json NOT NULL DEFAULT '[]'`,
  `COMMENT ON COLUMN runs.examples IS 'Examples that the answer was made from, nearest first: their ids and scores.'`
)
