import type { FeedbackId } from "../../../domain/Ids.ts"
import { MAX_PAGE_BYTES } from "../../store/Pagination.ts"

/**
 * Cuts a list to one page: at most `limit` ids and the page's size in bytes, at least one id. `next` is the cursor of the next page; null
 * if the list ends here.
 */
export const cutBySize = (
  sized: ReadonlyArray<{ readonly feedback_id: FeedbackId; readonly bytes: number }>,
  limit: number
) => {
  let bytes = 0
  const ids: Array<FeedbackId> = []
  for (const row of sized) {
    bytes += row.bytes
    if (ids.length > 0 && (ids.length === limit || bytes > MAX_PAGE_BYTES)) break
    ids.push(row.feedback_id)
  }
  return { ids, next: ids.length < sized.length ? (ids.at(-1) ?? null) : null }
}
