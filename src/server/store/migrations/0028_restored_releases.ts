import { statements } from "./statements.ts"

/** The earlier release that a release restores; null if it comes from a comparison. */
export default statements(`ALTER TABLE releases ADD COLUMN restored_release_id text COLLATE "C"`)
