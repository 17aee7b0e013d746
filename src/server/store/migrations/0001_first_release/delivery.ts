/** The delivery engine: log, queue, health of destinations, leases. */
export const delivery = `
-- Log of deliveries: one event to one destination. Columns that change are in no index, so that updates stay on their page (HOT).
CREATE TABLE deliveries (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  destination_id text COLLATE "C" NOT NULL, -- Webhook endpoint, mail server or telemetry destination that the delivery goes to.
  delivery_id text COLLATE "C" NOT NULL, -- Id, ordered by creation time.
  channel text COLLATE "C" NOT NULL, -- Channel: webhook, mail or otlp.
  event_id text COLLATE "C" NOT NULL, -- Approval event, email or batch of spans that is delivered.
  label text NOT NULL, -- Short description for lists, such as the event type.
  status text NOT NULL, -- pending, delivered, partial or failed.
  attempts integer NOT NULL DEFAULT 0, -- Attempts so far.
  replays integer NOT NULL DEFAULT 0, -- How often the delivery was replayed.
  last_error text, -- Error of the last attempt, or why there was none, such as a full queue; null: not attempted yet, or delivered.
  created_at timestamptz NOT NULL, -- When the delivery was enqueued.
  finished_at timestamptz, -- When it was delivered or failed; null while pending.
  size integer NOT NULL DEFAULT 1, -- Units that it carries, such as spans; 1 for a webhook or an email.
  rejected integer NOT NULL DEFAULT 0, -- Units that the destination rejected.
  status_code integer, -- Response status of the last attempt; null: no response, or not attempted yet.
  PRIMARY KEY (org_id, destination_id, delivery_id),
  CHECK (status IN ('pending', 'delivered', 'partial', 'failed'))
) WITH (fillfactor=70);

-- Pending deliveries, without payloads. Rows are inserted and deleted, and rarely updated.
CREATE TABLE delivery_queue (
  shard smallint NOT NULL, -- Shard of the destination; each shard is processed by the replica that owns it.
  seq bigint GENERATED ALWAYS AS IDENTITY NOT NULL, -- Position in the queue, from one sequence, so that the order of writing is the same for all replicas.
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  destination_id text COLLATE "C" NOT NULL, -- Webhook endpoint, mail server or telemetry destination that the delivery goes to.
  delivery_id text COLLATE "C" NOT NULL, -- Delivery to attempt.
  channel text COLLATE "C" NOT NULL, -- Channel of the delivery.
  event_id text COLLATE "C" NOT NULL, -- Approval event, email or batch of spans that is delivered.
  due_at timestamptz NOT NULL, -- When the next attempt is due.
  attempt integer NOT NULL, -- Attempts made so far: the number of the next one, from 0.
  first_attempt integer NOT NULL, -- Value of attempt at the enqueue or the last replay; retries are counted from it.
  expires_at timestamptz, -- After this time no attempt starts; null: the delivery does not expire.
  PRIMARY KEY (shard, seq, org_id)
) WITH (fillfactor=90, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=1000, autovacuum_vacuum_cost_delay=0, autovacuum_analyze_threshold=1000, autovacuum_analyze_scale_factor=0.5);
CREATE INDEX delivery_queue_lanes ON delivery_queue (shard, org_id, destination_id, due_at, seq);

-- Health of destinations (circuit breaker). A destination that has never failed has no row.
CREATE TABLE delivery_destinations (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  destination_id text COLLATE "C" NOT NULL, -- Destination.
  consecutive_failures integer NOT NULL DEFAULT 0, -- Failed attempts since the last success.
  cooldown_round integer NOT NULL DEFAULT 0, -- Cooldowns since the last success; each is twice as long as the one before, up to a maximum.
  cooldown_until timestamptz, -- End of the current cooldown, after which one attempt probes; null: none.
  failing_since timestamptz, -- When the first of the consecutive failures was recorded; null: the last attempt succeeded.
  outage_reported_at timestamptz, -- When the organization's admins were notified of these failures; null: they were not.
  PRIMARY KEY (org_id, destination_id)
) WITH (fillfactor=70);
CREATE INDEX delivery_destinations_unreported ON delivery_destinations (failing_since) WHERE (failing_since IS NOT NULL) AND (outage_reported_at IS NULL);

-- Log of attempts, partitioned by time so that retention drops whole partitions.
CREATE TABLE delivery_attempts (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  destination_id text COLLATE "C" NOT NULL, -- Webhook endpoint, mail server or telemetry destination that the delivery goes to.
  delivery_id text COLLATE "C" NOT NULL, -- Delivery that was attempted.
  attempt integer NOT NULL, -- Number of the attempt.
  started_at timestamptz NOT NULL, -- When the attempt started.
  duration_ms integer NOT NULL, -- Duration, in milliseconds.
  status integer, -- Response status; null: no response.
  error text -- What went wrong; null: the attempt succeeded.
) PARTITION BY RANGE (started_at);
CREATE INDEX delivery_attempts_delivery ON delivery_attempts (org_id, destination_id, delivery_id, attempt);
CREATE INDEX delivery_attempts_errors ON delivery_attempts (org_id, destination_id, started_at) WHERE error IS NOT NULL;

CREATE TABLE delivery_attempts_default PARTITION OF delivery_attempts DEFAULT;

-- Completed deliveries per destination and day. Written by the statements that write deliveries. A count is the sum over all slots.
CREATE TABLE delivery_counts (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  day date NOT NULL, -- Day on which the deliveries were enqueued, in UTC.
  destination_id text COLLATE "C" NOT NULL, -- Destination.
  slot smallint NOT NULL, -- Part of the counter: concurrent statements add to different ones.
  delivered bigint NOT NULL, -- Deliveries that arrived, also in part.
  failed bigint NOT NULL, -- Deliveries that failed.
  PRIMARY KEY (org_id, day, destination_id, slot)
) WITH (fillfactor=50);

-- Leases of the replicas on all shards that they own, one row per replica.
CREATE TABLE delivery_leases (
  owner text COLLATE "C" NOT NULL, -- Random id of the replica.
  lease_until timestamptz NOT NULL, -- When the lease ends; then any replica removes the row, and the shards are free.
  session_pid integer, -- Process of the database session that renewed the lease, which holds an advisory lock with this number; null: unknown.
  PRIMARY KEY (owner)
) WITH (fillfactor=50);

-- Heartbeats of the replicas that process deliveries.
CREATE TABLE delivery_owners (
  owner text COLLATE "C" NOT NULL, -- Random id of the replica.
  lease_until timestamptz NOT NULL, -- When the replica's leases end; moved by each heartbeat, so it also shows how recent that is.
  PRIMARY KEY (owner)
);

-- Owners of the shards of the delivery queue, one row each.
CREATE TABLE delivery_shards (
  shard smallint NOT NULL, -- Number of the shard.
  owner text COLLATE "C", -- Replica that owns the shard while it has a lease in delivery_leases; null: none.
  epoch bigint NOT NULL DEFAULT 0, -- Fencing token: raised by each change of owner, so that writes of a former owner are rejected.
  PRIMARY KEY (shard)
) WITH (fillfactor=50);

INSERT INTO delivery_shards (shard) SELECT generate_series(0, 255);
`
