import { statements } from "./statements.ts"

/** The signing secret that a rotation replaced, and until when it still signs. Both are null where there was none. */
export default statements(
  `ALTER TABLE notification_endpoints
    ADD COLUMN previous_secret bytea,
    ADD COLUMN previous_secret_until timestamptz,
    ADD CHECK ((previous_secret IS NULL) = (previous_secret_until IS NULL))`
)
