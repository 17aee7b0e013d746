import { statements } from "./statements.ts"

/**
 * The append-only audit log. A trigger rejects every update, and every delete except by retention. The index by time is
 * a BRIN index of a few pages, because rows are inserted in that order.
 */
export default statements(
  `CREATE TABLE audit_log (
    org_id text COLLATE "C" NOT NULL,
    entry_id text COLLATE "C" NOT NULL,
    action text COLLATE "C" NOT NULL,
    target_id text COLLATE "C" NOT NULL,
    actor_id text COLLATE "C",
    actor_name text,
    occurred_at timestamptz NOT NULL,
    request_id text COLLATE "C",
    detail json NOT NULL,
    PRIMARY KEY (org_id, entry_id),
    CHECK ((actor_id IS NULL) = (actor_name IS NULL))
  )`,
  `CREATE INDEX audit_log_action ON audit_log (org_id, action, entry_id)`,
  `CREATE INDEX audit_log_target ON audit_log (org_id, target_id, entry_id)`,
  `CREATE INDEX audit_log_actor ON audit_log (org_id, actor_id, entry_id)`,
  `CREATE INDEX audit_log_age ON audit_log USING brin (occurred_at) WITH (pages_per_range = 16)`,
  `CREATE FUNCTION audit_log_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF TG_OP = 'DELETE' AND current_setting('countersign.audit_retention', true) = 'on' THEN
      RETURN OLD;
    END IF;
    RAISE EXCEPTION 'audit_log is append-only';
  END
  $$`,
  `CREATE TRIGGER audit_log_append_only BEFORE UPDATE OR DELETE ON audit_log
  FOR EACH ROW EXECUTE FUNCTION audit_log_append_only()`,
  `CREATE TRIGGER audit_log_keeps_all BEFORE TRUNCATE ON audit_log
  FOR EACH STATEMENT EXECUTE FUNCTION audit_log_append_only()`
)
