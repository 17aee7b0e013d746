import { statements } from "./statements.ts"

/** A telemetry destination chooses the trace of runs and the format of scores. Some formats have batches of their own. */
export default statements(
  `ALTER TABLE telemetry_destinations
    ADD COLUMN trace text NOT NULL DEFAULT 'own' CHECK (trace IN ('own', 'join')),
    ADD COLUMN scores text NOT NULL DEFAULT 'span' CHECK (scores IN ('span', 'log', 'langfuse', 'phoenix', 'braintrust'))`,
  `ALTER TABLE telemetry_batches ADD COLUMN signal text NOT NULL DEFAULT 'spans' CHECK (signal IN ('spans', 'scores'))`,
  `COMMENT ON COLUMN telemetry_destinations.trace IS 'Whether a run is a trace of its own, or part of the trace that its request names.'`,
  `COMMENT ON COLUMN telemetry_destinations.scores IS 'How feedback is exported as a score.'`,
  `COMMENT ON COLUMN telemetry_batches.signal IS 'Whether the batch has spans, or scores that are sent apart from them.'`,
  `COMMENT ON COLUMN telemetry_batches.spans IS 'Number of spans or scores.'`,
  `COMMENT ON COLUMN telemetry_batches.payload IS 'Sealed, compressed request.'`,
  ...["tasks", "releases"].map(
    (table) => `UPDATE ${table}
    SET provider = (provider::jsonb || '{"send_traceparent": false}')::json
    WHERE provider->>'kind' = 'openai'`
  ),
  `UPDATE comparisons
  SET candidate_provider = (candidate_provider::jsonb || '{"send_traceparent": false}')::json
  WHERE candidate_provider->>'kind' = 'openai'`
)
