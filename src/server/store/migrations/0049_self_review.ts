import { statements } from "./statements.ts"

/** Lets a task require that another key than the submitter's stages a correction. */
export default statements(
  `ALTER TABLE tasks ADD COLUMN self_review boolean NOT NULL DEFAULT true`,
  `COMMENT ON COLUMN tasks.self_review IS 'Whether the key that submitted a correction, or a key that it created, may stage it.'`
)
