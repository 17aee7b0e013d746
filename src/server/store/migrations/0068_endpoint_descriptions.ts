import { statements } from "./statements.ts"

/**
 * Descriptions of webhook endpoints, and who disabled them. Who disabled one before this is not recorded in its row; the
 * audit log has it.
 */
export default statements(
  `ALTER TABLE notification_endpoints
    ADD COLUMN description text,
    ADD COLUMN disabled_at timestamptz,
    ADD COLUMN disabled_by_id text COLLATE "C",
    ADD COLUMN disabled_by_name text,
    ADD COLUMN disabled_by_delivery text COLLATE "C"`,
  `COMMENT ON COLUMN notification_endpoints.description IS 'What the endpoint is for, in the words of its organization; null: no description.'`,
  `COMMENT ON COLUMN notification_endpoints.disabled_at IS 'When it was disabled; null: it is active, or it was not recorded.'`,
  `COMMENT ON COLUMN notification_endpoints.disabled_by_id IS 'API key that disabled it; null: a 410 Gone response did.'`,
  `COMMENT ON COLUMN notification_endpoints.disabled_by_name IS 'Name of that key at the time.'`,
  `COMMENT ON COLUMN notification_endpoints.disabled_by_delivery IS 'Delivery that it answered with 410 Gone; null: it was disabled by an API key.'`
)
