import { statements } from "./statements.ts"

/** Tables with credentials of an organization, and the column that changes with a credential. */
const credentialColumns = [
  ["notification_endpoints", "secret"],
  ["provider_keys", "api_key"],
  ["telemetry_destinations", "headers"]
] as const

/**
 * A counter per organization, raised by every change of its credentials. A replica caches credentials together with the
 * counter, and reads them again when the counter has changed. Timestamps and ids cannot serve as the version: they are
 * assigned before the commit, and by several clocks. Triggers raise the counter, so that no statement that writes a
 * credential can omit it. They are deferred to the end of the transaction: the counter is locked only while the
 * transaction commits, after all rows that its statements lock. Of the other deferred triggers, only that of the audit
 * chain (0038) takes a lock. Deferred triggers run in the order of the writes, so a transaction writes the credential
 * first and its audit entry afterwards, or it could wait for another one in a circle.
 */
export default statements(
  `CREATE TABLE secret_changes (
    org_id text COLLATE "C" PRIMARY KEY,
    changes bigint NOT NULL
  ) WITH (fillfactor = 50)`,
  `CREATE FUNCTION secret_changed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO secret_changes AS c (org_id, changes)
      VALUES (NEW.org_id, 1)
      ON CONFLICT (org_id) DO UPDATE
      SET changes = c.changes + 1;
      RETURN NULL;
    END
  $$`,
  ...credentialColumns.map(
    ([table, column]) => `CREATE CONSTRAINT TRIGGER ${table}_secret_changed
      AFTER INSERT OR UPDATE OF ${column} ON ${table}
      DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION secret_changed()`
  )
)
