import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { PromotionPreview } from "../../../api/Feedback.ts"
import type { PageRequest } from "../../../api/Pagination.ts"
import type { FeedbackId, OrgId, TaskId } from "../../../domain/Ids.ts"
import { planPromotion } from "../../../domain/tasks/Promotion.ts"
import { rowLimit } from "../../store/Pagination.ts"
import { getVersion } from "../Datasets/versionRows.ts"
import { cutBySize } from "./cutBySize.ts"
import { requireStaged } from "./requireStaged.ts"
import { toFeedback } from "./rows.ts"
import { countExistingInputs, readNewestVersion, readStaged, readWithInputs } from "./stagedRows.ts"

/** Superseded corrections in a preview. */
const MAX_SUPERSEDED = 1_000

/**
 * Returns what promoting a task's staged corrections would do, all or those with these ids. Reads the content of one page of corrections
 * only. Fails if one of `selected` is not staged.
 */
export const previewPromotion = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  request: PageRequest<FeedbackId>,
  selected?: ReadonlyArray<FeedbackId>
) {
  const base_dataset_id = yield* readNewestVersion(sql, org_id, task_id)
  const staged = yield* readStaged(sql, org_id, task_id, selected, "")
  const { promoted, revision, superseded } = planPromotion(staged)
  yield* requireStaged(selected, staged, {
    current_dataset_id: base_dataset_id,
    current_feedback_revision: revision
  })
  const existing = yield* countExistingInputs(
    sql,
    org_id,
    promoted.map(({ input_digest }) => input_digest)
  )
  const base =
    base_dataset_id === null ? { example_count: 0 } : yield* getVersion(sql, org_id, base_dataset_id)
  const { cursor } = request
  const rest = cursor === undefined ? promoted : promoted.filter(({ feedback_id }) => feedback_id < cursor)
  const { ids, next } = cutBySize(rest.slice(0, rowLimit(request)), rowLimit(request) - 1)
  const rows = yield* readWithInputs(sql, org_id, ids)
  const result: PromotionPreview = {
    base_dataset_id,
    feedback_revision: revision,
    corrections: rows.map((row) => ({ ...toFeedback(row), input: row.input })),
    next_cursor: next,
    correction_count: promoted.length,
    superseded: superseded.slice(0, MAX_SUPERSEDED),
    superseded_count: superseded.length,
    examples_added: promoted.length - existing,
    examples_replaced: existing,
    example_count: base.example_count + promoted.length - existing
  }
  return result
})
