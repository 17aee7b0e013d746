import { statements } from "./statements.ts"

/**
 * The size of a staged correction's input, beside its digest: a promotion reads chunks that are limited by the sizes of
 * correction and input. Null if nothing is staged.
 */
export default statements(
  `ALTER TABLE feedback ADD COLUMN input_bytes int`,
  `UPDATE feedback
  SET input_bytes = octet_length(runs.input::text)
  FROM runs
  WHERE feedback.org_id = runs.org_id
    AND feedback.trace_id = runs.trace_id
    AND feedback.status = 'staged'`
)
