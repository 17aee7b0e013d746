import { statements } from "./statements.ts"

/** The number of shards. Queued rows store their shard, so another number needs a migration. */
const SHARDS = 16

/**
 * The delivery engine's tables. `deliveries` is the log: its columns that change are in no index, so that a change stays
 * on its page (HOT). `delivery_queue` has the pending deliveries: narrow rows without payload, inserted and deleted and
 * rarely updated. Their numbers come from one sequence, so that the order of writing is the same for replicas with different clocks.
 * `delivery_destinations` has rows for failing destinations only.
 */
export default statements(
  `CREATE TABLE deliveries (
    org_id text COLLATE "C" NOT NULL,
    destination_id text COLLATE "C" NOT NULL,
    delivery_id text COLLATE "C" NOT NULL,
    channel text COLLATE "C" NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    label text NOT NULL,
    status text NOT NULL CHECK (status IN ('pending', 'delivered', 'failed')),
    attempts int NOT NULL DEFAULT 0,
    replays int NOT NULL DEFAULT 0,
    last_error text,
    created_at timestamptz NOT NULL,
    finished_at timestamptz,
    PRIMARY KEY (org_id, destination_id, delivery_id)
  ) WITH (fillfactor = 70)`,
  `CREATE TABLE delivery_queue (
    shard smallint NOT NULL,
    seq bigint GENERATED ALWAYS AS IDENTITY,
    org_id text COLLATE "C" NOT NULL,
    destination_id text COLLATE "C" NOT NULL,
    delivery_id text COLLATE "C" NOT NULL,
    channel text COLLATE "C" NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    due_at timestamptz NOT NULL,
    attempt int NOT NULL,
    round_start int NOT NULL,
    PRIMARY KEY (shard, seq)
  ) WITH (
    fillfactor = 90,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 1000
  )`,
  `CREATE INDEX delivery_queue_lanes ON delivery_queue (shard, org_id, destination_id, due_at, seq)`,
  `CREATE TABLE delivery_destinations (
    org_id text COLLATE "C" NOT NULL,
    destination_id text COLLATE "C" NOT NULL,
    consecutive_failures int NOT NULL DEFAULT 0,
    cooldown_round int NOT NULL DEFAULT 0,
    cooldown_until timestamptz,
    PRIMARY KEY (org_id, destination_id)
  ) WITH (fillfactor = 70)`,
  `CREATE TABLE delivery_attempts (
    org_id text COLLATE "C" NOT NULL,
    destination_id text COLLATE "C" NOT NULL,
    delivery_id text COLLATE "C" NOT NULL,
    attempt int NOT NULL,
    started_at timestamptz NOT NULL,
    duration_ms int NOT NULL,
    status int,
    error text
  ) PARTITION BY RANGE (started_at)`,
  `CREATE INDEX delivery_attempts_delivery ON delivery_attempts (org_id, destination_id, delivery_id, attempt)`,
  `CREATE TABLE delivery_attempts_default PARTITION OF delivery_attempts DEFAULT`,
  `CREATE TABLE delivery_owners (
    owner text COLLATE "C" PRIMARY KEY,
    lease_until timestamptz NOT NULL
  )`,
  `CREATE TABLE delivery_shards (
    shard smallint PRIMARY KEY,
    owner text COLLATE "C",
    epoch bigint NOT NULL DEFAULT 0,
    lease_until timestamptz
  ) WITH (fillfactor = 50)`,
  `INSERT INTO delivery_shards (shard) SELECT generate_series(0, ${SHARDS - 1})`
)
