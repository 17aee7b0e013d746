import { statements } from "./statements.ts"

/** The delivery of each batch of spans, by which its row in the log is found: of its event the log has no index. */
export default statements(
  `ALTER TABLE telemetry_batches ADD COLUMN delivery_id text COLLATE "C"`,
  `UPDATE telemetry_batches b
  SET delivery_id = l.delivery_id
  FROM deliveries l
  WHERE l.org_id = b.org_id
    AND l.destination_id = b.destination_id
    AND l.event_id = b.batch_id`
)
