import { statements } from "./statements.ts"

/** A release names the one that was live before it, which is not always the one created before it: that can be a canary that was stopped. */
export default statements(
  `ALTER TABLE releases ADD COLUMN previous_release_id text COLLATE "C"`,
  `COMMENT ON COLUMN releases.previous_release_id IS
    'Release that was live when it was created; null: the first release, or created before version 0058 of the schema.'`
)
