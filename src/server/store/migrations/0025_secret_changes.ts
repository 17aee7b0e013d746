import { statements } from "./statements.ts"

/** Tables that hold credentials of an organization, and the column that changes with one. */
const holders = [
  ["notification_endpoints", "secret"],
  ["provider_keys", "api_key"],
  ["telemetry_destinations", "headers"]
] as const

/**
 * How often an organization's credentials have changed: what any process knows of them is as old as the number it read with them. No time
 * and no id could tell, which are made before the commits and on several clocks. Counted by the store, so that no statement that writes a
 * credential can forget it, and at the end of the transaction, so that its lock is the last one and no two wait for each other.
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
  ...holders.map(
    ([table, column]) => `CREATE CONSTRAINT TRIGGER ${table}_secret_changed
      AFTER INSERT OR UPDATE OF ${column} ON ${table}
      DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION secret_changed()`
  )
)
