/** Functions and triggers. */
export const triggers: ReadonlyArray<string> = [
  `CREATE OR REPLACE FUNCTION audit_chain_digest(previous_digest bytea, "position" bigint, entry audit_log)
 RETURNS bytea
 LANGUAGE sql
 STABLE
AS $function$
      SELECT sha256(convert_to(concat(
        '["', encode(previous_digest, 'hex'), '",', "position", ',', to_json(entry.org_id), ',', to_json(entry.entry_id), ',',
        to_json(entry.action), ',', to_json(entry.target_id), ',', coalesce(to_json(entry.actor_id), 'null'), ',',
        coalesce(to_json(entry.actor_name), 'null'), ',"',
        to_char(entry.occurred_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), '",',
        coalesce(to_json(entry.request_id), 'null'), ',', entry.detail, ']'
      ), 'UTF8'))
    $function$`,
  `CREATE OR REPLACE FUNCTION approvals_removed()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    BEGIN
      INSERT INTO approval_counts AS c (org_id, day, outcome, bucket, slot, closed, escalated)
  SELECT org_id, day, outcome, bucket, pg_backend_pid() % 4, sum(sign), sum(sign * is_escalated)
  FROM (
  SELECT
    sign, org_id, (decided_at AT TIME ZONE 'UTC')::date AS day, tool, decided_by_id,
    CASE status WHEN 'expired' THEN decision_source ELSE status END AS outcome,
    CASE decision_source
      WHEN 'human' THEN floor(ln(greatest(1, extract(epoch FROM decided_at - requested_at)::float8)) / ln(1.1::float8))::smallint
      ELSE -1
    END AS bucket,
    (escalated_at IS NOT NULL)::int AS is_escalated
  FROM (SELECT -1 AS sign, * FROM before) AS approval
  WHERE status <> 'pending'
    AND decided_at IS NOT NULL
    AND decision_source IS NOT NULL) AS closed
  GROUP BY 1, 2, 3, 4
  HAVING sum(sign) <> 0
  ORDER BY 1, 2, 3, 4
  ON CONFLICT (org_id, day, outcome, bucket, slot) DO UPDATE
  SET closed = c.closed + excluded.closed, escalated = c.escalated + excluded.escalated;
INSERT INTO approval_group_counts AS c (org_id, day, kind, name, outcome, slot, closed)
  SELECT org_id, day, kind, name, outcome, pg_backend_pid() % 4, sum(sign)
  FROM (
  SELECT
    sign, org_id, (decided_at AT TIME ZONE 'UTC')::date AS day, tool, decided_by_id,
    CASE status WHEN 'expired' THEN decision_source ELSE status END AS outcome,
    CASE decision_source
      WHEN 'human' THEN floor(ln(greatest(1, extract(epoch FROM decided_at - requested_at)::float8)) / ln(1.1::float8))::smallint
      ELSE -1
    END AS bucket,
    (escalated_at IS NOT NULL)::int AS is_escalated
  FROM (SELECT -1 AS sign, * FROM before) AS approval
  WHERE status <> 'pending'
    AND decided_at IS NOT NULL
    AND decision_source IS NOT NULL) AS closed
    CROSS JOIN LATERAL (VALUES ('tool', tool), ('person', decided_by_id)) AS "group" (kind, name)
  WHERE name IS NOT NULL
  GROUP BY 1, 2, 3, 4, 5
  HAVING sum(sign) <> 0
  ORDER BY 1, 2, 3, 4, 5
  ON CONFLICT (org_id, day, kind, name, outcome, slot) DO UPDATE
  SET closed = c.closed + excluded.closed;
      RETURN NULL;
    END
  $function$`,
  `CREATE OR REPLACE FUNCTION approvals_updated()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    BEGIN
      IF NOT EXISTS (SELECT FROM after WHERE status <> 'pending') THEN
        RETURN NULL;
      END IF;
      INSERT INTO approval_counts AS c (org_id, day, outcome, bucket, slot, closed, escalated)
  SELECT org_id, day, outcome, bucket, pg_backend_pid() % 4, sum(sign), sum(sign * is_escalated)
  FROM (
  SELECT
    sign, org_id, (decided_at AT TIME ZONE 'UTC')::date AS day, tool, decided_by_id,
    CASE status WHEN 'expired' THEN decision_source ELSE status END AS outcome,
    CASE decision_source
      WHEN 'human' THEN floor(ln(greatest(1, extract(epoch FROM decided_at - requested_at)::float8)) / ln(1.1::float8))::smallint
      ELSE -1
    END AS bucket,
    (escalated_at IS NOT NULL)::int AS is_escalated
  FROM (
  SELECT 1 AS sign, org_id, tool, status, decision_source, decided_by_id, requested_at, decided_at, escalated_at FROM after
  UNION ALL
  SELECT -1 AS sign, org_id, tool, status, decision_source, decided_by_id, requested_at, decided_at, escalated_at FROM before) AS approval
  WHERE status <> 'pending'
    AND decided_at IS NOT NULL
    AND decision_source IS NOT NULL) AS closed
  GROUP BY 1, 2, 3, 4
  HAVING sum(sign) <> 0
  ORDER BY 1, 2, 3, 4
  ON CONFLICT (org_id, day, outcome, bucket, slot) DO UPDATE
  SET closed = c.closed + excluded.closed, escalated = c.escalated + excluded.escalated;
INSERT INTO approval_group_counts AS c (org_id, day, kind, name, outcome, slot, closed)
  SELECT org_id, day, kind, name, outcome, pg_backend_pid() % 4, sum(sign)
  FROM (
  SELECT
    sign, org_id, (decided_at AT TIME ZONE 'UTC')::date AS day, tool, decided_by_id,
    CASE status WHEN 'expired' THEN decision_source ELSE status END AS outcome,
    CASE decision_source
      WHEN 'human' THEN floor(ln(greatest(1, extract(epoch FROM decided_at - requested_at)::float8)) / ln(1.1::float8))::smallint
      ELSE -1
    END AS bucket,
    (escalated_at IS NOT NULL)::int AS is_escalated
  FROM (
  SELECT 1 AS sign, org_id, tool, status, decision_source, decided_by_id, requested_at, decided_at, escalated_at FROM after
  UNION ALL
  SELECT -1 AS sign, org_id, tool, status, decision_source, decided_by_id, requested_at, decided_at, escalated_at FROM before) AS approval
  WHERE status <> 'pending'
    AND decided_at IS NOT NULL
    AND decision_source IS NOT NULL) AS closed
    CROSS JOIN LATERAL (VALUES ('tool', tool), ('person', decided_by_id)) AS "group" (kind, name)
  WHERE name IS NOT NULL
  GROUP BY 1, 2, 3, 4, 5
  HAVING sum(sign) <> 0
  ORDER BY 1, 2, 3, 4, 5
  ON CONFLICT (org_id, day, kind, name, outcome, slot) DO UPDATE
  SET closed = c.closed + excluded.closed;
      RETURN NULL;
    END
  $function$`,
  `CREATE OR REPLACE FUNCTION audit_chain_append(entry audit_log)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
    BEGIN
      LOOP
        WITH head AS (
          UPDATE audit_heads SET
            position = position + 1,
            previous_digest = digest,
            digest = audit_chain_digest(digest, position + 1, entry)
          WHERE org_id = entry.org_id
          RETURNING *
        )
        INSERT INTO audit_chain
        SELECT org_id, position, entry.entry_id, previous_digest, digest FROM head;
        EXIT WHEN FOUND;
        INSERT INTO audit_heads
        SELECT entry.org_id, 0, zeros, zeros FROM decode(repeat('00', 32), 'hex') AS zeros
        ON CONFLICT DO NOTHING;
      END LOOP;
    END
    $function$`,
  `CREATE OR REPLACE FUNCTION audit_log_append_only()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
  BEGIN
    IF TG_OP = 'DELETE' AND current_setting('countersign.audit_retention', true) = 'on' THEN
      RETURN OLD;
    END IF;
    RAISE EXCEPTION 'audit_log is append-only';
  END
  $function$`,
  `CREATE OR REPLACE FUNCTION audit_log_chain()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    BEGIN
      PERFORM audit_chain_append(NEW);
      RETURN NULL;
    END
    $function$`,
  `CREATE OR REPLACE FUNCTION deliveries_added()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    BEGIN
      IF NOT EXISTS (SELECT FROM added WHERE status <> 'pending') THEN
        RETURN NULL;
      END IF;
      INSERT INTO delivery_counts AS c (org_id, day, destination_id, slot, delivered, failed)
      SELECT
        org_id, (created_at AT TIME ZONE 'UTC')::date AS day, destination_id, pg_backend_pid() % 4,
        count(*) FILTER (WHERE status <> 'failed'), count(*) FILTER (WHERE status = 'failed')
      FROM added
      WHERE status <> 'pending'
      GROUP BY 1, 2, 3
      -- All statements lock counters in the same order, or two of them could deadlock.
      ORDER BY 1, 2, 3
      ON CONFLICT (org_id, day, destination_id, slot) DO UPDATE
      SET delivered = c.delivered + excluded.delivered, failed = c.failed + excluded.failed;
      RETURN NULL;
    END
  $function$`,
  `CREATE OR REPLACE FUNCTION deliveries_updated()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    BEGIN
      IF NOT EXISTS (SELECT FROM after WHERE status <> 'pending')
        AND NOT EXISTS (SELECT FROM before WHERE status <> 'pending') THEN
        RETURN NULL;
      END IF;
      
  INSERT INTO delivery_counts AS c (org_id, day, destination_id, slot, delivered, failed)
  SELECT
    org_id, (created_at AT TIME ZONE 'UTC')::date AS day, destination_id, pg_backend_pid() % 4,
    coalesce(sum(sign) FILTER (WHERE status <> 'failed'), 0), coalesce(sum(sign) FILTER (WHERE status = 'failed'), 0)
  FROM (
  SELECT 1 AS sign, org_id, destination_id, created_at, status FROM after
  UNION ALL
  SELECT -1 AS sign, org_id, destination_id, created_at, status FROM before) AS delivery
  WHERE status <> 'pending'
  GROUP BY 1, 2, 3
  HAVING sum(sign) FILTER (WHERE status = 'failed') <> 0 OR sum(sign) FILTER (WHERE status <> 'failed') <> 0
  ORDER BY 1, 2, 3
  ON CONFLICT (org_id, day, destination_id, slot) DO UPDATE
  SET delivered = c.delivered + excluded.delivered, failed = c.failed + excluded.failed;
      RETURN NULL;
    END
  $function$`,
  `CREATE OR REPLACE FUNCTION feedback_added()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
      BEGIN
        
  INSERT INTO feedback_counts AS c (org_id, task_id, day, release_id, slot, positive, neutral, negative)
  SELECT
    org_id, task_id, (created_at AT TIME ZONE 'UTC')::date, coalesce(release_id, ''), pg_backend_pid() % 16,
    count(*) FILTER (WHERE score = 1), count(*) FILTER (WHERE score = 0),
    count(*) FILTER (WHERE score = -1)
  FROM added
  GROUP BY 1, 2, 3, 4
  -- All statements lock counters in the same order, or two of them could deadlock.
  ORDER BY 1, 2, 3, 4
  ON CONFLICT (org_id, task_id, day, release_id, slot) DO UPDATE
  SET
    positive = c.positive + excluded.positive,
    neutral = c.neutral + excluded.neutral,
    negative = c.negative + excluded.negative;
        DELETE FROM run_reviews
        USING added
        WHERE run_reviews.org_id = added.org_id
          AND run_reviews.task_id = added.task_id
          AND run_reviews.run_id = added.run_id;
        RETURN NULL;
      END
    $function$`,
  `CREATE OR REPLACE FUNCTION feedback_removed()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
      BEGIN
        
  INSERT INTO feedback_counts AS c (org_id, task_id, day, release_id, slot, positive, neutral, negative)
  SELECT
    org_id, task_id, (created_at AT TIME ZONE 'UTC')::date, coalesce(release_id, ''), pg_backend_pid() % 16,
    -count(*) FILTER (WHERE score = 1), -count(*) FILTER (WHERE score = 0),
    -count(*) FILTER (WHERE score = -1)
  FROM removed
  GROUP BY 1, 2, 3, 4
  -- All statements lock counters in the same order, or two of them could deadlock.
  ORDER BY 1, 2, 3, 4
  ON CONFLICT (org_id, task_id, day, release_id, slot) DO UPDATE
  SET
    positive = c.positive + excluded.positive,
    neutral = c.neutral + excluded.neutral,
    negative = c.negative + excluded.negative;
        RETURN NULL;
      END
    $function$`,
  `CREATE OR REPLACE FUNCTION feedback_run()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
      BEGIN
        SELECT runs.run_id, CASE runs.source WHEN 'provider' THEN runs.release_id END
        INTO NEW.run_id, NEW.release_id
        FROM runs
        WHERE runs.org_id = NEW.org_id
          AND runs.trace_id = NEW.trace_id;
        RETURN NEW;
      END
    $function$`,
  `CREATE OR REPLACE FUNCTION feedback_scores_added()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
      BEGIN
        
  IF NOT EXISTS (SELECT FROM added WHERE score_value IS NOT NULL OR score_label IS NOT NULL) THEN
    RETURN NULL;
  END IF;
  INSERT INTO feedback_counts AS c (
    org_id, task_id, day, release_id, slot, positive, neutral, negative, value_excess
  )
  SELECT
    org_id, task_id, (created_at AT TIME ZONE 'UTC')::date, coalesce(release_id, ''), pg_backend_pid() % 16, 0, 0, 0,
    sum(round((score_value - score) * 1000000))::bigint
  FROM added
  WHERE score_value IS NOT NULL
  GROUP BY 1, 2, 3, 4
  -- All statements lock counters in the same order, or two of them could deadlock.
  ORDER BY 1, 2, 3, 4
  ON CONFLICT (org_id, task_id, day, release_id, slot) DO UPDATE
  SET value_excess = c.value_excess + excluded.value_excess;
  INSERT INTO feedback_label_counts AS c (org_id, task_id, day, release_id, score_label, slot, count)
  SELECT
    org_id, task_id, (created_at AT TIME ZONE 'UTC')::date, coalesce(release_id, ''), score_label,
    pg_backend_pid() % 16, count(*)
  FROM added
  WHERE score_label IS NOT NULL
  GROUP BY 1, 2, 3, 4, 5
  ORDER BY 1, 2, 3, 4, 5
  ON CONFLICT (org_id, task_id, day, release_id, score_label, slot) DO UPDATE
  SET count = c.count + excluded.count;
  RETURN NULL;
      END
    $function$`,
  `CREATE OR REPLACE FUNCTION feedback_scores_removed()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
      BEGIN
        
  IF NOT EXISTS (SELECT FROM removed WHERE score_value IS NOT NULL OR score_label IS NOT NULL) THEN
    RETURN NULL;
  END IF;
  INSERT INTO feedback_counts AS c (
    org_id, task_id, day, release_id, slot, positive, neutral, negative, value_excess
  )
  SELECT
    org_id, task_id, (created_at AT TIME ZONE 'UTC')::date, coalesce(release_id, ''), pg_backend_pid() % 16, 0, 0, 0,
    -sum(round((score_value - score) * 1000000))::bigint
  FROM removed
  WHERE score_value IS NOT NULL
  GROUP BY 1, 2, 3, 4
  -- All statements lock counters in the same order, or two of them could deadlock.
  ORDER BY 1, 2, 3, 4
  ON CONFLICT (org_id, task_id, day, release_id, slot) DO UPDATE
  SET value_excess = c.value_excess + excluded.value_excess;
  INSERT INTO feedback_label_counts AS c (org_id, task_id, day, release_id, score_label, slot, count)
  SELECT
    org_id, task_id, (created_at AT TIME ZONE 'UTC')::date, coalesce(release_id, ''), score_label,
    pg_backend_pid() % 16, -count(*)
  FROM removed
  WHERE score_label IS NOT NULL
  GROUP BY 1, 2, 3, 4, 5
  ORDER BY 1, 2, 3, 4, 5
  ON CONFLICT (org_id, task_id, day, release_id, score_label, slot) DO UPDATE
  SET count = c.count + excluded.count;
  RETURN NULL;
      END
    $function$`,
  `CREATE OR REPLACE FUNCTION run_metadata_added()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
      BEGIN
        INSERT INTO run_metadata (org_id, task_id, digest, run_id)
        SELECT NEW.org_id, NEW.task_id, digest, NEW.run_id
        FROM (
  SELECT substr(sha256(convert_to(member.key || '=' || member.value::text, 'UTF8')), 1, 16) AS digest
  FROM json_each(NEW.metadata) WITH ORDINALITY AS member (key, value, number)
  WHERE json_typeof(member.value) IN ('string', 'number', 'boolean')
  ORDER BY number
  LIMIT 16) AS member
        ON CONFLICT DO NOTHING;
        RETURN NULL;
      END
    $function$`,
  `CREATE OR REPLACE FUNCTION run_removed()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
      BEGIN
        DELETE FROM run_metadata
        USING (
  SELECT substr(sha256(convert_to(member.key || '=' || member.value::text, 'UTF8')), 1, 16) AS digest
  FROM json_each(OLD.metadata) WITH ORDINALITY AS member (key, value, number)
  WHERE json_typeof(member.value) IN ('string', 'number', 'boolean')
  ORDER BY number
  LIMIT 16) AS member
        WHERE run_metadata.org_id = OLD.org_id
          AND run_metadata.task_id = OLD.task_id
          AND run_metadata.digest = member.digest
          AND run_metadata.run_id = OLD.run_id;
        DELETE FROM run_reviews
        WHERE org_id = OLD.org_id
          AND task_id = OLD.task_id
          AND run_id = OLD.run_id;
        RETURN NULL;
      END
    $function$`,
  `CREATE OR REPLACE FUNCTION runs_counted()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    BEGIN
      
  INSERT INTO run_counts AS c (org_id, day, task_id, release_id, slot, runs)
  SELECT
    org_id, (created_at AT TIME ZONE 'UTC')::date, task_id, CASE source WHEN 'provider' THEN release_id ELSE '' END, pg_backend_pid() % 8, count(*)
  FROM added
  GROUP BY 1, 2, 3, 4
  ORDER BY 1, 2, 3, 4
  ON CONFLICT (org_id, day, task_id, release_id, slot) DO UPDATE
  SET runs = c.runs + excluded.runs;
      RETURN NULL;
    END
  $function$`,
  `CREATE OR REPLACE FUNCTION runs_uncounted()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    BEGIN
      
  INSERT INTO run_counts AS c (org_id, day, task_id, release_id, slot, runs)
  SELECT
    org_id, (created_at AT TIME ZONE 'UTC')::date, task_id, CASE source WHEN 'provider' THEN release_id ELSE '' END, pg_backend_pid() % 8, -count(*)
  FROM removed
  GROUP BY 1, 2, 3, 4
  ORDER BY 1, 2, 3, 4
  ON CONFLICT (org_id, day, task_id, release_id, slot) DO UPDATE
  SET runs = c.runs + excluded.runs;
      RETURN NULL;
    END
  $function$`,
  `CREATE OR REPLACE FUNCTION secret_changed()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    BEGIN
      INSERT INTO secret_changes AS c (org_id, change_count)
      VALUES (NEW.org_id, 1)
      ON CONFLICT (org_id) DO UPDATE
      SET change_count = c.change_count + 1;
      RETURN NULL;
    END
  $function$`,
  `CREATE TRIGGER approvals_removed AFTER DELETE ON approvals REFERENCING OLD TABLE AS before FOR EACH STATEMENT WHEN ((current_setting('countersign.keeps_feedback_counts'::text, true) IS DISTINCT FROM 'on'::text)) EXECUTE FUNCTION approvals_removed()`,
  `CREATE TRIGGER approvals_updated AFTER UPDATE ON approvals REFERENCING OLD TABLE AS before NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION approvals_updated()`,
  `CREATE TRIGGER audit_chain_append_only BEFORE DELETE OR UPDATE ON audit_chain FOR EACH ROW EXECUTE FUNCTION audit_log_append_only()`,
  `CREATE TRIGGER audit_chain_keeps_all BEFORE TRUNCATE ON audit_chain FOR EACH STATEMENT EXECUTE FUNCTION audit_log_append_only()`,
  `CREATE TRIGGER audit_log_append_only BEFORE DELETE OR UPDATE ON audit_log FOR EACH ROW EXECUTE FUNCTION audit_log_append_only()`,
  `CREATE CONSTRAINT TRIGGER audit_log_chain AFTER INSERT ON audit_log DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((current_setting('countersign.importing'::text, true) IS DISTINCT FROM 'on'::text)) EXECUTE FUNCTION audit_log_chain()`,
  `CREATE TRIGGER audit_log_keeps_all BEFORE TRUNCATE ON audit_log FOR EACH STATEMENT EXECUTE FUNCTION audit_log_append_only()`,
  `CREATE TRIGGER deliveries_added AFTER INSERT ON deliveries REFERENCING NEW TABLE AS added FOR EACH STATEMENT WHEN ((current_setting('countersign.importing'::text, true) IS DISTINCT FROM 'on'::text)) EXECUTE FUNCTION deliveries_added()`,
  `CREATE TRIGGER deliveries_updated AFTER UPDATE ON deliveries REFERENCING OLD TABLE AS before NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION deliveries_updated()`,
  `CREATE TRIGGER feedback_added AFTER INSERT ON feedback REFERENCING NEW TABLE AS added FOR EACH STATEMENT WHEN ((current_setting('countersign.importing'::text, true) IS DISTINCT FROM 'on'::text)) EXECUTE FUNCTION feedback_added()`,
  `CREATE TRIGGER feedback_removed AFTER DELETE ON feedback REFERENCING OLD TABLE AS removed FOR EACH STATEMENT WHEN ((current_setting('countersign.keeps_feedback_counts'::text, true) IS DISTINCT FROM 'on'::text)) EXECUTE FUNCTION feedback_removed()`,
  `CREATE TRIGGER feedback_run BEFORE INSERT ON feedback FOR EACH ROW WHEN (((new.run_id IS NULL) AND (current_setting('countersign.importing'::text, true) IS DISTINCT FROM 'on'::text))) EXECUTE FUNCTION feedback_run()`,
  `CREATE TRIGGER feedback_scores_added AFTER INSERT ON feedback REFERENCING NEW TABLE AS added FOR EACH STATEMENT WHEN ((current_setting('countersign.importing'::text, true) IS DISTINCT FROM 'on'::text)) EXECUTE FUNCTION feedback_scores_added()`,
  `CREATE TRIGGER feedback_scores_removed AFTER DELETE ON feedback REFERENCING OLD TABLE AS removed FOR EACH STATEMENT WHEN ((current_setting('countersign.keeps_feedback_counts'::text, true) IS DISTINCT FROM 'on'::text)) EXECUTE FUNCTION feedback_scores_removed()`,
  `CREATE CONSTRAINT TRIGGER notification_endpoints_secret_changed AFTER INSERT OR UPDATE OF secret ON notification_endpoints DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((current_setting('countersign.importing'::text, true) IS DISTINCT FROM 'on'::text)) EXECUTE FUNCTION secret_changed()`,
  `CREATE CONSTRAINT TRIGGER provider_keys_secret_changed AFTER INSERT OR UPDATE OF api_key, headers ON provider_keys DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((current_setting('countersign.importing'::text, true) IS DISTINCT FROM 'on'::text)) EXECUTE FUNCTION secret_changed()`,
  `CREATE CONSTRAINT TRIGGER redaction_settings_secret_changed AFTER INSERT OR UPDATE OF rules ON redaction_settings DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((current_setting('countersign.importing'::text, true) IS DISTINCT FROM 'on'::text)) EXECUTE FUNCTION secret_changed()`,
  `CREATE TRIGGER runs_counted AFTER INSERT ON runs REFERENCING NEW TABLE AS added FOR EACH STATEMENT WHEN ((current_setting('countersign.importing'::text, true) IS DISTINCT FROM 'on'::text)) EXECUTE FUNCTION runs_counted()`,
  `CREATE TRIGGER runs_metadata_added AFTER INSERT ON runs FOR EACH ROW WHEN ((((new.metadata)::text <> '{}'::text) AND (current_setting('countersign.importing'::text, true) IS DISTINCT FROM 'on'::text))) EXECUTE FUNCTION run_metadata_added()`,
  `CREATE TRIGGER runs_removed AFTER DELETE ON runs FOR EACH ROW WHEN ((current_setting('countersign.importing'::text, true) IS DISTINCT FROM 'on'::text)) EXECUTE FUNCTION run_removed()`,
  `CREATE TRIGGER runs_uncounted AFTER DELETE ON runs REFERENCING OLD TABLE AS removed FOR EACH STATEMENT WHEN ((current_setting('countersign.keeps_feedback_counts'::text, true) IS DISTINCT FROM 'on'::text)) EXECUTE FUNCTION runs_uncounted()`,
  `CREATE CONSTRAINT TRIGGER telemetry_destinations_secret_changed AFTER INSERT OR UPDATE OF headers ON telemetry_destinations DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((current_setting('countersign.importing'::text, true) IS DISTINCT FROM 'on'::text)) EXECUTE FUNCTION secret_changed()`
]
