import { statements } from "./statements.ts"

/**
 * A telemetry destination chooses the trace of runs and the format of scores. Some formats have batches of their own. `NOT VALID`: the defaults
 * satisfy the constraints, and checking them would read all batches while runs wait for the lock.
 */
export default statements(
  `ALTER TABLE telemetry_destinations
    ADD COLUMN trace text NOT NULL DEFAULT 'own',
    ADD COLUMN scores text NOT NULL DEFAULT 'span',
    ADD CONSTRAINT telemetry_destinations_trace_check CHECK (trace IN ('own', 'join')) NOT VALID,
    ADD CONSTRAINT telemetry_destinations_scores_check
      CHECK (scores IN ('span', 'log', 'langfuse', 'phoenix', 'braintrust')) NOT VALID`,
  `ALTER TABLE telemetry_batches
    ADD COLUMN signal text NOT NULL DEFAULT 'spans',
    ADD CONSTRAINT telemetry_batches_signal_check CHECK (signal IN ('spans', 'scores')) NOT VALID`,
  `COMMENT ON COLUMN telemetry_destinations.trace IS 'Whether a run is a trace of its own, or part of the trace that its request names.'`,
  `COMMENT ON COLUMN telemetry_destinations.scores IS 'How feedback is exported as a score.'`,
  `COMMENT ON COLUMN telemetry_batches.signal IS 'Whether the batch has spans, or scores that are sent apart from them.'`,
  `COMMENT ON COLUMN telemetry_batches.spans IS 'Number of spans or scores.'`,
  `COMMENT ON COLUMN telemetry_batches.payload IS 'Sealed, compressed request.'`
)
