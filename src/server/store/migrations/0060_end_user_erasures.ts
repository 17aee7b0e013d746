import { statements } from "./statements.ts"

/** Erasures of the feedback of an end user. An older replica that finds one defers it, and leaves it to a newer one. */
export default statements(
  `ALTER TABLE deletions ADD COLUMN end_user text COLLATE "C"`,
  `COMMENT ON COLUMN deletions.end_user IS 'Pseudonym of the end user whose feedback is erased; null: another kind, or an erasure by metadata.'`,
  `COMMENT ON COLUMN deletions.metadata_key IS 'Member of the metadata that names the data subject; null: another kind, or the erasure of an end user.'`,
  `COMMENT ON COLUMN deletions.metadata_digest IS 'SHA-256 of the member: its name, =, and its value as JSON; null: as metadata_key.'`
)
