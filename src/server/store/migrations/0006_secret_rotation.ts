import { statements } from "./statements.ts"

/** The previous signing secret after a rotation, and until when it also signs. Both are null without a rotation. */
export default statements(
  `ALTER TABLE notification_endpoints
    ADD COLUMN previous_secret bytea,
    ADD COLUMN previous_secret_until timestamptz,
    ADD CHECK ((previous_secret IS NULL) = (previous_secret_until IS NULL))`
)
