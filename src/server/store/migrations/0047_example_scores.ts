import { statements } from "./statements.ts"

/** Gives the providers that answer by the nearest example the lowest score that answers, 0: they answer every run, as before. */
export default statements(
  ...[
    ["tasks", "provider"],
    ["releases", "provider"],
    ["comparisons", "candidate_provider"]
  ].map(
    ([table, column]) => `UPDATE ${table}
    SET ${column} = (${column}::jsonb || '{"min_score": 0}')::json
    WHERE ${column}->>'kind' = 'examples'`
  )
)
