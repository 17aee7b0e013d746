import { statements } from "./statements.ts"

/** The delivery id of each span batch, the key of its row in the log, which has no index by event. */
export default statements(
  `ALTER TABLE telemetry_batches ADD COLUMN delivery_id text COLLATE "C"`,
  `UPDATE telemetry_batches b
  SET delivery_id = l.delivery_id
  FROM deliveries l
  WHERE l.org_id = b.org_id
    AND l.destination_id = b.destination_id
    AND l.event_id = b.batch_id`
)
