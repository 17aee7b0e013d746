/** What belongs to no area: idempotency, settings of organizations, usage, deletions, search. */
export const store = `
-- Idempotency keys of requests and the sealed responses to repeat. Kept for 24 hours.
CREATE TABLE idempotency_keys (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  operation text NOT NULL, -- Operation that the key was sent to, group.endpoint.
  key text COLLATE "C" NOT NULL, -- Value of the Idempotency-Key header.
  fingerprint bytea NOT NULL, -- SHA-256 digest of the caller and the request: a different request with the same key is rejected.
  created_at timestamptz NOT NULL, -- When the key was claimed.
  answer bytea, -- Sealed response; null: the request is in progress.
  PRIMARY KEY (org_id, operation, key)
);
CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at);

-- Master keys that have sealed a secret in this database. A start without one that is still needed is refused.
CREATE TABLE master_keys (
  key_id text COLLATE "C" NOT NULL, -- Id derived from the key by a digest; the key itself is never stored.
  first_used_at timestamptz NOT NULL, -- When a replica first started with this key as the sealing key.
  PRIMARY KEY (key_id)
);

-- Version of each organization's credentials, raised by each transaction that writes one. Caches for redaction compare it.
CREATE TABLE secret_changes (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  change_count bigint NOT NULL, -- Number of committed changes of credentials.
  PRIMARY KEY (org_id)
) WITH (fillfactor=50);

-- What organizations have redacted besides recognizable secrets, as one document each.
CREATE TABLE redaction_settings (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  revision integer NOT NULL, -- Raised with each change, for optimistic concurrency.
  rules jsonb NOT NULL, -- Patterns, exceptions and kinds of personal data, as a JSON object.
  PRIMARY KEY (org_id)
);

-- How long organizations retain runs, feedback and agent sessions.
CREATE TABLE retention_settings (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  revision integer NOT NULL, -- Raised with each change, for optimistic concurrency.
  run_days integer, -- Days that runs are retained; null: until they are deleted.
  feedback_days integer, -- Days that feedback is retained; null: as long as its run.
  session_days integer, -- Days that agent sessions are retained; null: until they are deleted.
  PRIMARY KEY (org_id),
  CHECK (feedback_days > 0),
  CHECK (run_days > 0),
  CHECK (session_days > 0)
);

-- What organizations store, an estimate for their limits. Replicas add to it every few seconds.
CREATE TABLE organization_usage (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  runs bigint NOT NULL DEFAULT 0, -- Logged runs.
  feedback bigint NOT NULL DEFAULT 0, -- Feedback records.
  bytes bigint NOT NULL DEFAULT 0, -- Size of runs, feedback, datasets, comparison results, sessions, steps and approvals.
  PRIMARY KEY (org_id)
) WITH (fillfactor=50);

-- Deletions of tasks and dataset versions, and erasures of data subjects. A background worker performs them in small transactions, each with its progress.
CREATE TABLE deletions (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  deletion_id text COLLATE "C" NOT NULL, -- Id, del_….
  kind text NOT NULL, -- task, dataset (one version) or erasure.
  target_id text COLLATE "C", -- Task or dataset version that is deleted; null: an erasure.
  task_id text COLLATE "C", -- Task of the dataset version; null: another kind.
  version integer, -- Number of the dataset version; null: another kind.
  metadata_key text, -- Member of the metadata that names the data subject; null: another kind, or the erasure of an end user.
  metadata_digest bytea, -- SHA-256 of the member: its name, =, and its value as JSON; null: as metadata_key.
  status text NOT NULL, -- running or completed.
  phase text NOT NULL, -- What the next transaction deletes.
  cursor text COLLATE "C", -- Where it continues in this phase; null: at the beginning.
  due_at timestamptz, -- When the next transaction is due; null: never. A completed deletion is repeated once, for what requests in progress still wrote.
  runs bigint NOT NULL DEFAULT 0, -- Runs deleted so far.
  feedback bigint NOT NULL DEFAULT 0, -- Feedback records deleted so far.
  examples bigint NOT NULL DEFAULT 0, -- Examples deleted or erased so far.
  sessions bigint NOT NULL DEFAULT 0, -- Agent sessions deleted so far.
  created_at timestamptz NOT NULL, -- When it was requested.
  created_by_id text COLLATE "C" NOT NULL, -- API key that created the row.
  created_by_name text NOT NULL, -- Name of that key at the time.
  finished_at timestamptz, -- When everything was deleted; null: not yet.
  end_user text COLLATE "C", -- Pseudonym of the end user whose feedback is erased; null: another kind, or an erasure by metadata.
  PRIMARY KEY (org_id, deletion_id),
  CHECK (kind IN ('task', 'dataset', 'erasure')),
  CHECK (status IN ('running', 'completed'))
) WITH (fillfactor=50);
CREATE INDEX deletions_due ON deletions (due_at, deletion_id) WHERE due_at IS NOT NULL;
CREATE INDEX deletions_running ON deletions (org_id) WHERE status = 'running';
CREATE UNIQUE INDEX deletions_target ON deletions (org_id, target_id) WHERE target_id IS NOT NULL;

-- Words of approvals and sessions, for the console's search. Filled when an organization searches.
CREATE TABLE search_documents (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  document_id text COLLATE "C" NOT NULL, -- Id of the approval, apr_…, or of the session, ses_….
  session_id text COLLATE "C" NOT NULL, -- Session that it belongs to.
  words tsvector NOT NULL, -- Distinct words, each after the last 8 characters of org_id and a colon: the entries of the GIN index belong to one organization.
  PRIMARY KEY (org_id, document_id),
  FOREIGN KEY (org_id, session_id) REFERENCES agent_sessions(org_id, session_id) ON DELETE CASCADE
);
CREATE INDEX search_documents_session ON search_documents (org_id, session_id);
CREATE INDEX search_documents_words ON search_documents USING gin (words) WITH (fastupdate=off);

-- How far the records of an organization are in search_documents.
CREATE TABLE search_progress (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  kind text COLLATE "C" NOT NULL, -- Kind of record: approval or session.
  indexed_before text COLLATE "C" NOT NULL, -- Records with lower ids are indexed, or in a range.
  ranges json NOT NULL, -- Ranges of ids that are to be indexed, newest first, each from its end: before (exclusive) and from (inclusive).
  PRIMARY KEY (org_id, kind)
);

COMMENT ON TABLE schema_migrations IS 'Migrations that have been applied.';
COMMENT ON COLUMN schema_migrations.migration_id IS 'Number of the migration.';
COMMENT ON COLUMN schema_migrations.created_at IS 'When the migration was applied.';
COMMENT ON COLUMN schema_migrations.name IS 'Name of the migration, as its file has it.';
`
