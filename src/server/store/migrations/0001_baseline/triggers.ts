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
  `CREATE TRIGGER audit_chain_append_only BEFORE DELETE OR UPDATE ON audit_chain FOR EACH ROW EXECUTE FUNCTION audit_log_append_only()`,
  `CREATE TRIGGER audit_chain_keeps_all BEFORE TRUNCATE ON audit_chain FOR EACH STATEMENT EXECUTE FUNCTION audit_log_append_only()`,
  `CREATE TRIGGER audit_log_append_only BEFORE DELETE OR UPDATE ON audit_log FOR EACH ROW EXECUTE FUNCTION audit_log_append_only()`,
  `CREATE CONSTRAINT TRIGGER audit_log_chain AFTER INSERT ON audit_log DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((current_setting('countersign.importing'::text, true) IS DISTINCT FROM 'on'::text)) EXECUTE FUNCTION audit_log_chain()`,
  `CREATE TRIGGER audit_log_keeps_all BEFORE TRUNCATE ON audit_log FOR EACH STATEMENT EXECUTE FUNCTION audit_log_append_only()`,
  `CREATE TRIGGER feedback_run BEFORE INSERT ON feedback FOR EACH ROW WHEN (((new.run_id IS NULL) AND (current_setting('countersign.importing'::text, true) IS DISTINCT FROM 'on'::text))) EXECUTE FUNCTION feedback_run()`,
  `CREATE CONSTRAINT TRIGGER notification_endpoints_secret_changed AFTER INSERT OR UPDATE OF secret ON notification_endpoints DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((current_setting('countersign.importing'::text, true) IS DISTINCT FROM 'on'::text)) EXECUTE FUNCTION secret_changed()`,
  `CREATE CONSTRAINT TRIGGER provider_keys_secret_changed AFTER INSERT OR UPDATE OF api_key, headers ON provider_keys DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((current_setting('countersign.importing'::text, true) IS DISTINCT FROM 'on'::text)) EXECUTE FUNCTION secret_changed()`,
  `CREATE CONSTRAINT TRIGGER redaction_settings_secret_changed AFTER INSERT OR UPDATE OF rules ON redaction_settings DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((current_setting('countersign.importing'::text, true) IS DISTINCT FROM 'on'::text)) EXECUTE FUNCTION secret_changed()`,
  `CREATE TRIGGER runs_metadata_added AFTER INSERT ON runs FOR EACH ROW WHEN ((((new.metadata)::text <> '{}'::text) AND (current_setting('countersign.importing'::text, true) IS DISTINCT FROM 'on'::text))) EXECUTE FUNCTION run_metadata_added()`,
  `CREATE TRIGGER runs_removed AFTER DELETE ON runs FOR EACH ROW WHEN ((current_setting('countersign.importing'::text, true) IS DISTINCT FROM 'on'::text)) EXECUTE FUNCTION run_removed()`,
  `CREATE CONSTRAINT TRIGGER telemetry_destinations_secret_changed AFTER INSERT OR UPDATE OF headers ON telemetry_destinations DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((current_setting('countersign.importing'::text, true) IS DISTINCT FROM 'on'::text)) EXECUTE FUNCTION secret_changed()`
]
