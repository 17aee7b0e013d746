import { statements } from "./statements.ts"

/**
 * Counts deliveries that fail at once by statement. By row, an approval that is announced to fifty endpoints with full queues wrote
 * their counters fifty times.
 */
export default statements(
  `CREATE FUNCTION deliveries_added() RETURNS trigger LANGUAGE plpgsql AS $$
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
  $$`,
  `CREATE TRIGGER deliveries_added AFTER INSERT ON deliveries
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION deliveries_added()`,
  `DROP TRIGGER delivery_refused ON deliveries`,
  `DROP FUNCTION delivery_refused()`
)
