import { statements } from "./statements.ts"

/** When webhook endpoints answered a challenge. Existing ones have not answered any. */
export default statements(
  `ALTER TABLE notification_endpoints ADD COLUMN verified_at timestamptz`,
  `COMMENT ON COLUMN notification_endpoints.verified_at IS 'When it last answered a challenge; null: never.'`
)
