import { statements } from "./statements.ts"

/** Which earlier release one is again, where it was not released by a comparison. */
export default statements(`ALTER TABLE releases ADD COLUMN restored_release_id text COLLATE "C"`)
