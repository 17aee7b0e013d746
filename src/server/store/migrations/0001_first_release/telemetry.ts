/** Telemetry destinations and batches of spans. */
export const telemetry = `
-- The OpenTelemetry collector of an organization, at most one. Counts change in the transactions that queue, deliver and drop spans.
CREATE TABLE telemetry_destinations (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  destination_id text COLLATE "C" NOT NULL, -- Id, the destination of its deliveries.
  url bytea NOT NULL, -- Sealed URL.
  url_hint text NOT NULL, -- URL without secrets, for display.
  headers bytea NOT NULL, -- Sealed request headers.
  content boolean NOT NULL, -- Whether spans carry content: inputs, answers, arguments and results.
  created_at timestamptz NOT NULL, -- When the destination was created.
  created_by_id text COLLATE "C" NOT NULL, -- API key that created the row.
  created_by_name text NOT NULL, -- Name of that key at the time.
  last_delivered_at timestamptz, -- When the collector last accepted a whole batch; null: never.
  waiting_spans bigint NOT NULL DEFAULT 0, -- Spans that wait to be delivered.
  dropped_spans bigint NOT NULL DEFAULT 0, -- Spans that exceeded a limit, were rejected by the collector, or can no longer be replayed.
  tested_at timestamptz, -- When a test was last sent; null: never.
  trace text NOT NULL DEFAULT 'own', -- Whether a run is a trace of its own, or part of the trace that its request names.
  scores text NOT NULL DEFAULT 'span', -- How feedback is exported as a score.
  compression text NOT NULL DEFAULT 'auto', -- Whether requests are compressed.
  gzip_refused boolean NOT NULL DEFAULT false, -- Whether the collector refused a compressed request that it took without compression.
  PRIMARY KEY (org_id),
  CHECK (compression IN ('auto', 'gzip', 'none')),
  CHECK (scores IN ('span', 'log', 'langfuse', 'phoenix', 'braintrust')),
  CHECK (trace IN ('own', 'join'))
) WITH (fillfactor=50);

-- Batches of spans that wait for delivery, or failed and can be replayed. A batch is deleted when the collector has accepted it or it is too old to be replayed.
CREATE TABLE telemetry_batches (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  batch_id text COLLATE "C" NOT NULL, -- Id of the batch as a delivery event.
  destination_id text COLLATE "C" NOT NULL, -- Telemetry destination of the batch.
  spans integer NOT NULL, -- Number of spans or scores.
  payload bytea NOT NULL, -- Sealed, compressed request.
  delivery_id text COLLATE "C", -- Delivery of the batch.
  signal text NOT NULL DEFAULT 'spans', -- Whether the batch has spans, or scores that are sent apart from them.
  PRIMARY KEY (org_id, batch_id),
  CHECK (signal IN ('spans', 'scores'))
) WITH (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=1000, autovacuum_vacuum_cost_delay=0);
ALTER TABLE telemetry_batches ALTER COLUMN payload SET STORAGE EXTERNAL;
`
