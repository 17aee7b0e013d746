import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { PreviewCursor, type PromotionPreview } from "../../../api/Feedback.ts"
import type { PageRequest } from "../../../api/Pagination.ts"
import { FeedbackChanged } from "../../../api/Problems.ts"
import type { DatasetId, FeedbackId, OrgId, TaskId } from "../../../domain/Ids.ts"
import { planPromotion } from "../../../domain/tasks/Promotion.ts"
import { LruCache } from "../../concurrency/LruCache.ts"
import { monotonicNow } from "../../concurrency/monotonicMillis.ts"
import { rowLimit } from "../../store/Pagination.ts"
import { getVersion } from "../Datasets/versionRows.ts"
import { cutBySize } from "./cutBySize.ts"
import { requireStaged } from "./requireStaged.ts"
import { toFeedback } from "./rows.ts"
import {
  countExistingInputs,
  readNewestVersion,
  readStaged,
  readWithInputs,
  type StagedRow
} from "./stagedRows.ts"

/** Superseded corrections in a preview. */
const MAX_SUPERSEDED = 1_000

/** Previews that are kept, and the corrections of all of them together: about 10 MB. */
const MAX_KEPT = { entries: 1_000, weight: 50_000 }

/** How long later pages follow the first one, in milliseconds. */
const MAX_AGE_MILLIS = 60_000

/** A preview of all staged corrections of a task, without their content. */
interface PlannedPreview {
  readonly plannedAt: number
  /** The corrections that would be promoted, newest first. */
  readonly promoted: ReadonlyArray<Pick<StagedRow, "feedback_id" | "bytes">>
  readonly totals: Omit<PromotionPreview, "corrections" | "next_cursor">
}

/** The latest previews of this process, by task and revision, which later pages continue. */
export type PlannedPreviews = LruCache<PlannedPreview>

export const makePlannedPreviews = (): PlannedPreviews => new LruCache(MAX_KEPT)

/**
 * Returns what promoting a task's staged corrections would do, all or those with these ids. The first page reads all of them, without their
 * content, and reads one page of it. Later pages continue the first one, and read a page alone, unless the dataset or a correction of
 * the page has changed since. Fails if one of `selected` is not staged, or if a later page would be one of another set than the first.
 */
export const previewPromotion = Effect.fnUntraced(function* (
  { previews, sql }: { readonly previews: PlannedPreviews; readonly sql: SqlClient.SqlClient },
  org_id: OrgId,
  task_id: TaskId,
  request: PageRequest<PreviewCursor>,
  selected?: ReadonlyArray<FeedbackId>
) {
  const base = yield* readNewestVersion(sql, org_id, task_id)
  const keyOf = (revision: string) => `${org_id} ${task_id} ${revision}`
  const now = yield* monotonicNow
  const [after, revision] = request.cursor?.split(".") ?? []
  const kept = revision === undefined || selected !== undefined ? undefined : previews.get(keyOf(revision))
  const limit = rowLimit(request)
  if (kept !== undefined && kept.totals.base_dataset_id === base && now - kept.plannedAt < MAX_AGE_MILLIS) {
    const { isCurrent, preview } = yield* readPage(sql, org_id, kept, { after, limit })
    if (isCurrent) return preview
  }
  const planned = yield* plan(sql, org_id, task_id, { base, now, selected })
  const { feedback_revision } = planned.totals
  if (revision !== undefined && revision !== feedback_revision) {
    return yield* new FeedbackChanged({
      detail: "The staged corrections changed since the first page. Preview them again from the first page.",
      current_dataset_id: base,
      current_feedback_revision: feedback_revision
    })
  }
  if (selected === undefined) {
    const weight = 1 + planned.promoted.length + planned.totals.superseded.length
    previews.set(keyOf(feedback_revision), planned, weight)
  }
  return (yield* readPage(sql, org_id, planned, { after, limit })).preview
})

const plan = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  options: {
    readonly base: DatasetId | null
    readonly now: number
    readonly selected: ReadonlyArray<FeedbackId> | undefined
  }
) {
  const { base, now, selected } = options
  const staged = yield* readStaged(sql, org_id, task_id, selected, "")
  const { promoted, revision, superseded } = planPromotion(staged)
  yield* requireStaged(selected, staged, {
    current_dataset_id: base,
    current_feedback_revision: revision
  })
  const existing = yield* countExistingInputs(
    sql,
    org_id,
    promoted.map(({ input_digest }) => input_digest)
  )
  const { example_count } = base === null ? { example_count: 0 } : yield* getVersion(sql, org_id, base)
  const planned: PlannedPreview = {
    plannedAt: now,
    promoted: promoted.map(({ bytes, feedback_id }) => ({ bytes, feedback_id })),
    totals: {
      base_dataset_id: base,
      feedback_revision: revision,
      correction_count: promoted.length,
      superseded: superseded.slice(0, MAX_SUPERSEDED),
      superseded_count: superseded.length,
      examples_added: promoted.length - existing,
      examples_replaced: existing,
      example_count: example_count + promoted.length - existing
    }
  }
  return planned
})

/** Reads the content of one page, and tells whether all of its corrections are still staged. */
const readPage = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  { promoted, totals }: PlannedPreview,
  { after, limit }: { readonly after: string | undefined; readonly limit: number }
) {
  const first = after === undefined ? 0 : promoted.findIndex(({ feedback_id }) => feedback_id < after)
  const sized = first < 0 ? [] : promoted.slice(first, first + limit)
  const { ids, next } = cutBySize(sized, limit - 1)
  const rows = yield* readWithInputs(sql, org_id, ids)
  const preview: PromotionPreview = {
    ...totals,
    corrections: rows.map((row) => ({ ...toFeedback(row), input: row.input })),
    next_cursor: next === null ? null : PreviewCursor.make(`${next}.${totals.feedback_revision}`)
  }
  return {
    isCurrent: rows.length === ids.length && rows.every(({ status }) => status === "staged"),
    preview
  }
})
