/** Atoms of the feedback queue and the promotion preview. */
import { Atom } from "effect/reactivity"
import type { FeedbackId, TaskId } from "../../domain/Ids.ts"
import type { FeedbackRecord, FeedbackStatus } from "../../domain/tasks/Feedback.ts"
import type { FeedbackFilter } from "../../api/Feedback.ts"
import type { Score } from "../../domain/tasks/Feedback.ts"
import { refresh } from "./atoms.ts"
import { startOfDay } from "./queryState.ts"
import { pagedAtom } from "./pagedAtom.ts"
import { apiClient } from "./apiClient.ts"
import { consoleClient } from "./consoleClient.ts"

/** A filter of the feedback. Absent members filter nothing. */
export interface FeedbackList {
  readonly status: FeedbackStatus | "all"
  readonly task: TaskId | "all"
  readonly score?: Score
  /** Days, as in an address. */
  readonly from?: string
  readonly until?: string
}

/** The filter as the service takes it. */
export const toFeedbackFilter = ({ from, score, status, task, until }: FeedbackList): FeedbackFilter => ({
  ...(status === "all" ? {} : { status }),
  ...(task === "all" ? {} : { task_id: task }),
  ...(score === undefined ? {} : { score }),
  ...(from === undefined ? {} : { created_after: startOfDay(from) }),
  ...(until === undefined ? {} : { created_before: startOfDay(until, 1) })
})

/** The feedback of a filter, newest first. */
export const feedbackAtom = Atom.family((list: FeedbackList) =>
  pagedAtom(
    (cursor: FeedbackId | undefined) =>
      consoleClient.feedback_rows.list({
        query: { ...toFeedbackFilter(list), ...(cursor === undefined ? {} : { cursor }) }
      }),
    "feedback"
  )
)

/** The preview of promoting a task's staged corrections, with the newest 50 of them. */
export const promotionPreviewAtom = Atom.family((task_id: TaskId) =>
  Atom.make(apiClient.feedback.previewPromotion({ params: { id: task_id }, query: { limit: 50 } }))
)

/** Refreshes the lists that a reviewed correction left and entered, and the promotion preview. */
export const refreshAfterReview = ({ status, task_id }: Pick<FeedbackRecord, "status" | "task_id">): void => {
  for (const one of new Set(["pending", "staged", status] as const)) {
    refresh(feedbackAtom({ status: one, task: "all" }))
    refresh(feedbackAtom({ status: one, task: task_id }))
  }
  refresh(promotionPreviewAtom(task_id))
}

/** Refreshes the lists that reviewed corrections left and entered, and the promotion previews. */
export const refreshAfterReviews = (records: ReadonlyArray<Pick<FeedbackRecord, "task_id">>): void => {
  const tasks = new Set(records.map(({ task_id }) => task_id))
  for (const status of ["pending", "staged", "rejected"] as const) {
    refresh(feedbackAtom({ status, task: "all" }))
    for (const task of tasks) refresh(feedbackAtom({ status, task }))
  }
  for (const task of tasks) refresh(promotionPreviewAtom(task))
}

/** Refreshes the lists that deleted feedback was in. */
export const refreshAfterFeedbackDeletion = ({
  status,
  task_id
}: Pick<FeedbackRecord, "status" | "task_id">): void => {
  refresh(feedbackAtom({ status, task: "all" }))
  refresh(feedbackAtom({ status, task: task_id }))
  if (status === "staged") refresh(promotionPreviewAtom(task_id))
}

/** Refreshes the lists that a promotion changes: corrections leave `staged` and become `promoted` or `superseded`. */
export const refreshAfterPromotion = (task_id: TaskId): void => {
  for (const status of ["staged", "promoted", "superseded"] as const) {
    refresh(feedbackAtom({ status, task: "all" }))
    refresh(feedbackAtom({ status, task: task_id }))
  }
  refresh(promotionPreviewAtom(task_id))
}
