-- What the migrations make. Written by: node scripts/schema.ts

CREATE OR REPLACE FUNCTION public.audit_log_append_only()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
  BEGIN
    IF TG_OP = 'DELETE' AND current_setting('countersign.audit_retention', true) = 'on' THEN
      RETURN OLD;
    END IF;
    RAISE EXCEPTION 'audit_log is append-only';
  END
  $function$;

CREATE OR REPLACE FUNCTION public.secret_changed()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    BEGIN
      INSERT INTO secret_changes AS c (org_id, changes)
      VALUES (NEW.org_id, 1)
      ON CONFLICT (org_id) DO UPDATE
      SET changes = c.changes + 1;
      RETURN NULL;
    END
  $function$;

CREATE TABLE agent_sessions (
  org_id text COLLATE "C" NOT NULL,
  session_id text COLLATE "C" NOT NULL,
  task_id text COLLATE "C",
  trace_id text COLLATE "C" NOT NULL,
  metadata json,
  created_at timestamp with time zone NOT NULL,
  created_by_id text COLLATE "C" NOT NULL,
  created_by_name text NOT NULL,
  closed_at timestamp with time zone,
  last_event bigint DEFAULT 0 NOT NULL,
  CONSTRAINT agent_sessions_pkey PRIMARY KEY (org_id, session_id)
) WITH (fillfactor=50);

CREATE TABLE api_keys (
  org_id text COLLATE "C" NOT NULL,
  key_id text COLLATE "C" NOT NULL,
  public_id text COLLATE "C" NOT NULL,
  digest bytea NOT NULL,
  name text NOT NULL,
  preset text,
  scopes text[],
  email text,
  created_at timestamp with time zone NOT NULL,
  expires_at timestamp with time zone,
  revoked_at timestamp with time zone,
  created_by_id text COLLATE "C",
  created_by_name text,
  CONSTRAINT api_keys_pkey PRIMARY KEY (org_id, key_id),
  CONSTRAINT api_keys_org_id_fkey FOREIGN KEY (org_id) REFERENCES organizations(org_id),
  CONSTRAINT api_keys_check CHECK (((scopes IS NOT NULL) OR (preset IS NOT NULL))),
  CONSTRAINT api_keys_check1 CHECK (((created_by_id IS NULL) = (created_by_name IS NULL)))
);
CREATE INDEX api_keys_email ON api_keys USING btree (org_id, key_id) WHERE ((email IS NOT NULL) AND (revoked_at IS NULL));
CREATE UNIQUE INDEX api_keys_public_id ON api_keys USING btree (public_id);

CREATE TABLE approval_events (
  org_id text COLLATE "C" NOT NULL,
  event_id text COLLATE "C" NOT NULL,
  type text NOT NULL,
  approval_id text COLLATE "C",
  body bytea NOT NULL,
  occurred_at timestamp with time zone NOT NULL,
  CONSTRAINT approval_events_pkey PRIMARY KEY (org_id, event_id)
);

CREATE TABLE approval_mail (
  org_id text COLLATE "C" NOT NULL,
  event_id text COLLATE "C" NOT NULL,
  type text NOT NULL,
  approval_id text COLLATE "C" NOT NULL,
  key_id text COLLATE "C" NOT NULL,
  occurred_at timestamp with time zone NOT NULL,
  CONSTRAINT approval_mail_pkey PRIMARY KEY (org_id, event_id)
);

CREATE TABLE approval_rules (
  org_id text COLLATE "C" NOT NULL,
  revision bigint NOT NULL,
  rules json NOT NULL,
  CONSTRAINT approval_rules_pkey PRIMARY KEY (org_id)
);

CREATE TABLE approvals (
  org_id text COLLATE "C" NOT NULL,
  approval_id text COLLATE "C" NOT NULL,
  session_id text COLLATE "C" NOT NULL,
  step_id text COLLATE "C" NOT NULL,
  task_id text COLLATE "C",
  tool text NOT NULL,
  action_class text NOT NULL,
  arguments json,
  arguments_digest text COLLATE "C" NOT NULL,
  status text NOT NULL,
  stage text NOT NULL,
  requested_at timestamp with time zone NOT NULL,
  requested_by_id text COLLATE "C" NOT NULL,
  review_deadline_at timestamp with time zone NOT NULL,
  escalation_deadline_at timestamp with time zone,
  expires_at timestamp with time zone NOT NULL,
  expiring_seconds double precision,
  expiring_notified boolean DEFAULT false NOT NULL,
  escalated_at timestamp with time zone,
  timeout_action text NOT NULL,
  self_approval boolean DEFAULT false NOT NULL,
  outcome text,
  decision_source text,
  decided_at timestamp with time zone,
  decided_by_id text COLLATE "C",
  decided_by_name text,
  comment text,
  next_due_at timestamp with time zone,
  arguments_bytes integer DEFAULT 0 NOT NULL,
  CONSTRAINT approvals_pkey PRIMARY KEY (org_id, approval_id),
  CONSTRAINT approvals_decision_source_check CHECK ((decision_source = ANY (ARRAY['human'::text, 'timeout'::text, 'session_closed'::text]))),
  CONSTRAINT approvals_outcome_check CHECK ((outcome = ANY (ARRAY['allow'::text, 'reject'::text]))),
  CONSTRAINT approvals_stage_check CHECK ((stage = ANY (ARRAY['reviewer'::text, 'admin'::text]))),
  CONSTRAINT approvals_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'approved'::text, 'rejected'::text, 'expired'::text]))),
  CONSTRAINT approvals_timeout_action_check CHECK ((timeout_action = ANY (ARRAY['allow'::text, 'reject'::text])))
) WITH (fillfactor=80);
CREATE INDEX approvals_due ON approvals USING btree (next_due_at, approval_id) WHERE (next_due_at IS NOT NULL);
CREATE INDEX approvals_inbox ON approvals USING btree (org_id, expires_at, approval_id) WHERE (status = 'pending'::text);
CREATE INDEX approvals_session ON approvals USING btree (org_id, session_id, approval_id DESC);
CREATE INDEX approvals_status ON approvals USING btree (org_id, status, approval_id DESC);
CREATE INDEX approvals_task ON approvals USING btree (org_id, task_id, approval_id DESC) WHERE (task_id IS NOT NULL);

CREATE TABLE audit_log (
  org_id text COLLATE "C" NOT NULL,
  entry_id text COLLATE "C" NOT NULL,
  action text COLLATE "C" NOT NULL,
  target_id text COLLATE "C" NOT NULL,
  actor_id text COLLATE "C",
  actor_name text,
  occurred_at timestamp with time zone NOT NULL,
  request_id text COLLATE "C",
  detail json NOT NULL,
  CONSTRAINT audit_log_pkey PRIMARY KEY (org_id, entry_id),
  CONSTRAINT audit_log_check CHECK (((actor_id IS NULL) = (actor_name IS NULL)))
);
CREATE INDEX audit_log_action ON audit_log USING btree (org_id, action, entry_id);
CREATE INDEX audit_log_actor ON audit_log USING btree (org_id, actor_id, entry_id);
CREATE INDEX audit_log_age ON audit_log USING brin (occurred_at) WITH (pages_per_range='16');
CREATE INDEX audit_log_target ON audit_log USING btree (org_id, target_id, entry_id);

CREATE TABLE comparison_results (
  org_id text COLLATE "C" NOT NULL,
  comparison_id text COLLATE "C" NOT NULL,
  example_id text COLLATE "C" NOT NULL,
  candidate json NOT NULL,
  live json NOT NULL,
  CONSTRAINT comparison_results_pkey PRIMARY KEY (org_id, comparison_id, example_id)
);

CREATE TABLE comparisons (
  org_id text COLLATE "C" NOT NULL,
  comparison_id text COLLATE "C" NOT NULL,
  task_id text COLLATE "C" NOT NULL,
  task_revision integer NOT NULL,
  live_release_id text COLLATE "C" NOT NULL,
  candidate_instructions text NOT NULL,
  candidate_provider json NOT NULL,
  candidate_dataset_id text COLLATE "C",
  dataset_id text COLLATE "C" NOT NULL,
  status text NOT NULL,
  example_count integer NOT NULL,
  compared integer DEFAULT 0 NOT NULL,
  last_example_id text COLLATE "C",
  tally json NOT NULL,
  lease_epoch integer DEFAULT 0 NOT NULL,
  lease_until timestamp with time zone,
  created_at timestamp with time zone NOT NULL,
  created_by_id text COLLATE "C" NOT NULL,
  created_by_name text NOT NULL,
  finished_at timestamp with time zone,
  CONSTRAINT comparisons_pkey PRIMARY KEY (org_id, comparison_id),
  CONSTRAINT comparisons_status_check CHECK ((status = ANY (ARRAY['running'::text, 'completed'::text])))
) WITH (fillfactor=70);
CREATE INDEX comparisons_at_work ON comparisons USING btree (org_id) WHERE (status = 'running'::text);
CREATE INDEX comparisons_running ON comparisons USING btree (lease_until NULLS FIRST) WHERE (status = 'running'::text);
CREATE INDEX comparisons_task ON comparisons USING btree (org_id, task_id, comparison_id DESC);

CREATE TABLE console_sessions (
  org_id text COLLATE "C" NOT NULL,
  digest bytea NOT NULL,
  key_id text COLLATE "C" NOT NULL,
  created_at timestamp with time zone NOT NULL,
  expires_at timestamp with time zone NOT NULL,
  CONSTRAINT console_sessions_pkey PRIMARY KEY (org_id, digest),
  CONSTRAINT console_sessions_org_id_key_id_fkey FOREIGN KEY (org_id, key_id) REFERENCES api_keys(org_id, key_id)
);
CREATE INDEX console_sessions_expiry ON console_sessions USING btree (org_id, expires_at);

CREATE TABLE dataset_examples (
  org_id text COLLATE "C" NOT NULL,
  task_id text COLLATE "C" NOT NULL,
  example_id text COLLATE "C" NOT NULL,
  first_version integer NOT NULL,
  until_version integer,
  input json NOT NULL,
  answer json NOT NULL,
  bytes integer NOT NULL,
  input_digest bytea NOT NULL,
  source_feedback_id text COLLATE "C",
  tokens integer[] NOT NULL,
  telling bigint[] NOT NULL,
  CONSTRAINT dataset_examples_pkey PRIMARY KEY (org_id, task_id, example_id) INCLUDE (first_version, until_version, bytes)
);
CREATE INDEX dataset_examples_came ON dataset_examples USING btree (org_id, task_id, first_version);
CREATE INDEX dataset_examples_input ON dataset_examples USING btree (org_id, input_digest);
CREATE INDEX dataset_examples_telling ON dataset_examples USING gin (telling) WITH (fastupdate=off);
CREATE INDEX dataset_examples_went ON dataset_examples USING btree (org_id, task_id, until_version) WHERE (until_version IS NOT NULL);

CREATE TABLE dataset_words (
  org_id text COLLATE "C" NOT NULL,
  task_id text COLLATE "C" NOT NULL,
  counts bytea NOT NULL,
  CONSTRAINT dataset_words_pkey PRIMARY KEY (org_id, task_id)
);

CREATE TABLE datasets (
  org_id text COLLATE "C" NOT NULL,
  dataset_id text COLLATE "C" NOT NULL,
  task_id text COLLATE "C" NOT NULL,
  version integer NOT NULL,
  base_dataset_id text COLLATE "C",
  example_count integer NOT NULL,
  content_state bytea NOT NULL,
  content_digest text COLLATE "C" NOT NULL,
  last_example_id text COLLATE "C" NOT NULL,
  created_at timestamp with time zone NOT NULL,
  created_by_id text COLLATE "C" NOT NULL,
  created_by_name text NOT NULL,
  CONSTRAINT datasets_pkey PRIMARY KEY (org_id, dataset_id)
);
CREATE UNIQUE INDEX datasets_version ON datasets USING btree (org_id, task_id, version);

CREATE TABLE deliveries (
  org_id text COLLATE "C" NOT NULL,
  destination_id text COLLATE "C" NOT NULL,
  delivery_id text COLLATE "C" NOT NULL,
  channel text COLLATE "C" NOT NULL,
  event_id text COLLATE "C" NOT NULL,
  label text NOT NULL,
  status text NOT NULL,
  attempts integer DEFAULT 0 NOT NULL,
  replays integer DEFAULT 0 NOT NULL,
  last_error text,
  created_at timestamp with time zone NOT NULL,
  finished_at timestamp with time zone,
  size integer DEFAULT 1 NOT NULL,
  rejected integer DEFAULT 0 NOT NULL,
  status_code integer,
  CONSTRAINT deliveries_pkey PRIMARY KEY (org_id, destination_id, delivery_id),
  CONSTRAINT deliveries_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'delivered'::text, 'partial'::text, 'failed'::text])))
) WITH (fillfactor=70);

CREATE TABLE delivery_attempts (
  org_id text COLLATE "C" NOT NULL,
  destination_id text COLLATE "C" NOT NULL,
  delivery_id text COLLATE "C" NOT NULL,
  attempt integer NOT NULL,
  started_at timestamp with time zone NOT NULL,
  duration_ms integer NOT NULL,
  status integer,
  error text
) PARTITION BY RANGE (started_at);
CREATE INDEX delivery_attempts_delivery ON ONLY delivery_attempts USING btree (org_id, destination_id, delivery_id, attempt);
CREATE INDEX delivery_attempts_errors ON ONLY delivery_attempts USING btree (org_id, destination_id, started_at) WHERE (error IS NOT NULL);

CREATE TABLE delivery_attempts_default PARTITION OF delivery_attempts DEFAULT;

CREATE TABLE delivery_destinations (
  org_id text COLLATE "C" NOT NULL,
  destination_id text COLLATE "C" NOT NULL,
  consecutive_failures integer DEFAULT 0 NOT NULL,
  cooldown_round integer DEFAULT 0 NOT NULL,
  cooldown_until timestamp with time zone,
  CONSTRAINT delivery_destinations_pkey PRIMARY KEY (org_id, destination_id)
) WITH (fillfactor=70);

CREATE TABLE delivery_owners (
  owner text COLLATE "C" NOT NULL,
  lease_until timestamp with time zone NOT NULL,
  CONSTRAINT delivery_owners_pkey PRIMARY KEY (owner)
);

CREATE TABLE delivery_queue (
  shard smallint NOT NULL,
  seq bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
  org_id text COLLATE "C" NOT NULL,
  destination_id text COLLATE "C" NOT NULL,
  delivery_id text COLLATE "C" NOT NULL,
  channel text COLLATE "C" NOT NULL,
  event_id text COLLATE "C" NOT NULL,
  due_at timestamp with time zone NOT NULL,
  attempt integer NOT NULL,
  round_start integer NOT NULL,
  give_up_at timestamp with time zone,
  CONSTRAINT delivery_queue_pkey PRIMARY KEY (shard, seq)
) WITH (fillfactor=90, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=1000, autovacuum_vacuum_cost_delay=0, autovacuum_analyze_threshold=1000, autovacuum_analyze_scale_factor=0.5);
CREATE INDEX delivery_queue_lanes ON delivery_queue USING btree (shard, org_id, destination_id, due_at, seq);

CREATE TABLE delivery_shards (
  shard smallint NOT NULL,
  owner text COLLATE "C",
  epoch bigint DEFAULT 0 NOT NULL,
  lease_until timestamp with time zone,
  CONSTRAINT delivery_shards_pkey PRIMARY KEY (shard)
) WITH (fillfactor=50);

CREATE TABLE feedback (
  org_id text COLLATE "C" NOT NULL,
  feedback_id text COLLATE "C" NOT NULL,
  task_id text COLLATE "C" NOT NULL,
  trace_id text COLLATE "C" NOT NULL,
  score smallint NOT NULL,
  correction json,
  bytes integer NOT NULL,
  status text COLLATE "C" NOT NULL,
  redaction_warning text,
  created_at timestamp with time zone NOT NULL,
  created_by_id text COLLATE "C" NOT NULL,
  created_by_name text NOT NULL,
  reviewed_at timestamp with time zone,
  reviewed_by_id text COLLATE "C",
  reviewed_by_name text,
  review_note text,
  input_digest text COLLATE "C",
  dataset_id text COLLATE "C",
  input_bytes integer,
  CONSTRAINT feedback_pkey PRIMARY KEY (org_id, feedback_id),
  CONSTRAINT feedback_score_check CHECK ((score = ANY (ARRAY['-1'::integer, 0, 1]))),
  CONSTRAINT feedback_status_check CHECK ((status = ANY (ARRAY['recorded'::text, 'pending'::text, 'staged'::text, 'rejected'::text, 'promoted'::text, 'superseded'::text])))
) WITH (fillfactor=80);
CREATE INDEX feedback_lists ON feedback USING btree (org_id, status, score, feedback_id DESC);
CREATE INDEX feedback_run ON feedback USING btree (org_id, trace_id, feedback_id DESC);
CREATE INDEX feedback_task_lists ON feedback USING btree (org_id, task_id, status, score, feedback_id DESC);

CREATE TABLE governed_steps (
  org_id text COLLATE "C" NOT NULL,
  session_id text COLLATE "C" NOT NULL,
  step_id text COLLATE "C" NOT NULL,
  task_id text COLLATE "C",
  tool text NOT NULL,
  action_class text NOT NULL,
  arguments json,
  arguments_digest text COLLATE "C" NOT NULL,
  rule_id text COLLATE "C",
  decision text NOT NULL,
  reason text NOT NULL,
  approval_id text COLLATE "C",
  requested_by_id text COLLATE "C" NOT NULL,
  requested_at timestamp with time zone NOT NULL,
  outcome_status text,
  outcome_result json,
  outcome_error text,
  outcome_at timestamp with time zone,
  told text,
  CONSTRAINT governed_steps_pkey PRIMARY KEY (org_id, session_id, step_id),
  CONSTRAINT governed_steps_decision_check CHECK ((decision = ANY (ARRAY['allow'::text, 'reject'::text, 'pending'::text]))),
  CONSTRAINT governed_steps_outcome_status_check CHECK ((outcome_status = ANY (ARRAY['succeeded'::text, 'failed'::text]))),
  CONSTRAINT governed_steps_told_check CHECK ((told = ANY (ARRAY['allow'::text, 'reject'::text, 'pending'::text])))
) WITH (fillfactor=80);

CREATE TABLE idempotency_keys (
  org_id text COLLATE "C" NOT NULL,
  operation text NOT NULL,
  key text COLLATE "C" NOT NULL,
  fingerprint bytea NOT NULL,
  created_at timestamp with time zone NOT NULL,
  answer bytea,
  CONSTRAINT idempotency_keys_pkey PRIMARY KEY (org_id, operation, key)
);
CREATE INDEX idempotency_keys_age ON idempotency_keys USING btree (created_at);

CREATE TABLE master_keys (
  key_id text COLLATE "C" NOT NULL,
  first_used_at timestamp with time zone NOT NULL,
  CONSTRAINT master_keys_pkey PRIMARY KEY (key_id)
);

CREATE TABLE notification_endpoints (
  org_id text COLLATE "C" NOT NULL,
  endpoint_id text COLLATE "C" NOT NULL,
  url bytea NOT NULL,
  url_hint text NOT NULL,
  secret bytea NOT NULL,
  events text[] NOT NULL,
  active boolean DEFAULT true NOT NULL,
  created_at timestamp with time zone NOT NULL,
  created_by_id text COLLATE "C" NOT NULL,
  created_by_name text NOT NULL,
  previous_secret bytea,
  previous_secret_until timestamp with time zone,
  CONSTRAINT notification_endpoints_pkey PRIMARY KEY (org_id, endpoint_id),
  CONSTRAINT notification_endpoints_check CHECK (((previous_secret IS NULL) = (previous_secret_until IS NULL)))
);

CREATE TABLE organizations (
  org_id text COLLATE "C" NOT NULL,
  name text NOT NULL,
  created_at timestamp with time zone NOT NULL,
  CONSTRAINT organizations_pkey PRIMARY KEY (org_id)
);
CREATE UNIQUE INDEX organizations_name ON organizations USING btree (name);

CREATE TABLE provider_keys (
  org_id text COLLATE "C" NOT NULL,
  task_id text COLLATE "C" NOT NULL,
  base_url text COLLATE "C" NOT NULL,
  api_key bytea NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  CONSTRAINT provider_keys_pkey PRIMARY KEY (org_id, task_id, base_url)
);
CREATE INDEX provider_keys_updated ON provider_keys USING btree (org_id, updated_at DESC);

CREATE TABLE releases (
  org_id text COLLATE "C" NOT NULL,
  release_id text COLLATE "C" NOT NULL,
  task_id text COLLATE "C" NOT NULL,
  instructions text NOT NULL,
  provider json NOT NULL,
  dataset_id text COLLATE "C",
  comparison_id text COLLATE "C",
  created_at timestamp with time zone NOT NULL,
  created_by_id text COLLATE "C" NOT NULL,
  created_by_name text NOT NULL,
  restored_release_id text COLLATE "C",
  CONSTRAINT releases_pkey PRIMARY KEY (org_id, release_id)
);
CREATE INDEX releases_task ON releases USING btree (org_id, task_id, release_id DESC);

CREATE TABLE runs (
  org_id text COLLATE "C" NOT NULL,
  trace_id text COLLATE "C" NOT NULL,
  run_id text COLLATE "C" NOT NULL,
  task_id text COLLATE "C" NOT NULL,
  release_id text COLLATE "C" NOT NULL,
  dataset_id text COLLATE "C",
  session_id text COLLATE "C",
  source text NOT NULL,
  status text NOT NULL,
  input json NOT NULL,
  answer json,
  failure text,
  metadata json NOT NULL,
  provider text NOT NULL,
  model text NOT NULL,
  input_tokens integer NOT NULL,
  output_tokens integer NOT NULL,
  provider_calls integer NOT NULL,
  duration_ms double precision NOT NULL,
  caller_traceparent text,
  created_at timestamp with time zone NOT NULL,
  created_by_id text COLLATE "C" NOT NULL,
  created_by_name text NOT NULL,
  CONSTRAINT runs_pkey PRIMARY KEY (org_id, trace_id),
  CONSTRAINT runs_source_check CHECK ((source = ANY (ARRAY['provider'::text, 'logged'::text]))),
  CONSTRAINT runs_status_check CHECK ((status = ANY (ARRAY['succeeded'::text, 'failed'::text])))
);

CREATE TABLE schema_migrations (
  migration_id integer NOT NULL,
  created_at timestamp with time zone DEFAULT now() NOT NULL,
  name text NOT NULL,
  CONSTRAINT schema_migrations_pkey PRIMARY KEY (migration_id)
);

CREATE TABLE secret_changes (
  org_id text COLLATE "C" NOT NULL,
  changes bigint NOT NULL,
  CONSTRAINT secret_changes_pkey PRIMARY KEY (org_id)
) WITH (fillfactor=50);

CREATE TABLE session_events (
  org_id text COLLATE "C" NOT NULL,
  session_id text COLLATE "C" NOT NULL,
  number bigint NOT NULL,
  type text NOT NULL,
  step_id text COLLATE "C",
  occurred_at timestamp with time zone NOT NULL,
  data json NOT NULL,
  CONSTRAINT session_events_pkey PRIMARY KEY (org_id, session_id, number)
);

CREATE TABLE tasks (
  org_id text COLLATE "C" NOT NULL,
  task_id text COLLATE "C" NOT NULL,
  name text NOT NULL,
  instructions text NOT NULL,
  input_schema json NOT NULL,
  answer_schema json NOT NULL,
  input_shape text COLLATE "C" NOT NULL,
  answer_shape text COLLATE "C" NOT NULL,
  provider json NOT NULL,
  revision integer DEFAULT 1 NOT NULL,
  live_release_id text COLLATE "C" NOT NULL,
  dataset_id text COLLATE "C",
  dataset_version integer DEFAULT 0 NOT NULL,
  first_run_at timestamp with time zone,
  created_at timestamp with time zone NOT NULL,
  created_by_id text COLLATE "C" NOT NULL,
  created_by_name text NOT NULL,
  CONSTRAINT tasks_pkey PRIMARY KEY (org_id, task_id)
) WITH (fillfactor=80);

CREATE TABLE telemetry_batches (
  org_id text COLLATE "C" NOT NULL,
  batch_id text COLLATE "C" NOT NULL,
  destination_id text COLLATE "C" NOT NULL,
  spans integer NOT NULL,
  payload bytea NOT NULL,
  delivery_id text COLLATE "C",
  CONSTRAINT telemetry_batches_pkey PRIMARY KEY (org_id, batch_id)
) WITH (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=1000, autovacuum_vacuum_cost_delay=0);

CREATE TABLE telemetry_destinations (
  org_id text COLLATE "C" NOT NULL,
  destination_id text COLLATE "C" NOT NULL,
  url bytea NOT NULL,
  url_hint text NOT NULL,
  headers bytea NOT NULL,
  content boolean NOT NULL,
  created_at timestamp with time zone NOT NULL,
  created_by_id text COLLATE "C" NOT NULL,
  created_by_name text NOT NULL,
  last_delivered_at timestamp with time zone,
  waiting_spans bigint DEFAULT 0 NOT NULL,
  dropped_spans bigint DEFAULT 0 NOT NULL,
  tested_at timestamp with time zone,
  CONSTRAINT telemetry_destinations_pkey PRIMARY KEY (org_id)
) WITH (fillfactor=50);

CREATE TRIGGER audit_log_append_only BEFORE DELETE OR UPDATE ON public.audit_log FOR EACH ROW EXECUTE FUNCTION audit_log_append_only();

CREATE TRIGGER audit_log_keeps_all BEFORE TRUNCATE ON public.audit_log FOR EACH STATEMENT EXECUTE FUNCTION audit_log_append_only();

CREATE CONSTRAINT TRIGGER notification_endpoints_secret_changed AFTER INSERT OR UPDATE OF secret ON public.notification_endpoints DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION secret_changed();

CREATE CONSTRAINT TRIGGER provider_keys_secret_changed AFTER INSERT OR UPDATE OF api_key ON public.provider_keys DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION secret_changed();

CREATE CONSTRAINT TRIGGER telemetry_destinations_secret_changed AFTER INSERT OR UPDATE OF headers ON public.telemetry_destinations DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION secret_changed();
