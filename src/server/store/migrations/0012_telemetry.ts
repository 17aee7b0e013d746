import { statements } from "./statements.ts"

/**
 * The collector of an organization, at most one, and the batches of spans to deliver to it. `waiting_spans` and `dropped_spans` change in
 * the transactions that queue, complete and drop batches, so they are exact over all replicas. A batch's payload is the request, compressed
 * and sealed. A batch is deleted when the collector has accepted it, or when it is too old to be replayed.
 */
export default statements(
  `CREATE TABLE telemetry_destinations (
    org_id text COLLATE "C" PRIMARY KEY,
    destination_id text COLLATE "C" NOT NULL,
    url bytea NOT NULL,
    url_hint text NOT NULL,
    headers bytea NOT NULL,
    content boolean NOT NULL,
    created_at timestamptz NOT NULL,
    created_by_id text COLLATE "C" NOT NULL,
    created_by_name text NOT NULL,
    last_delivered_at timestamptz,
    waiting_spans bigint NOT NULL DEFAULT 0,
    dropped_spans bigint NOT NULL DEFAULT 0,
    tested_at timestamptz
  ) WITH (fillfactor = 50)`,
  `CREATE TABLE telemetry_batches (
    org_id text COLLATE "C" NOT NULL,
    batch_id text COLLATE "C" NOT NULL,
    destination_id text COLLATE "C" NOT NULL,
    spans int NOT NULL,
    payload bytea NOT NULL,
    PRIMARY KEY (org_id, batch_id)
  ) WITH (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
  )`,
  // Compressed and encrypted already, so PostgreSQL's own compression would only cost time.
  `ALTER TABLE telemetry_batches ALTER COLUMN payload SET STORAGE EXTERNAL`
)
