/** Feedback, as its queue and its promotion show it. */
import { Atom } from "effect/reactivity"
import type { FeedbackRecord, FeedbackStatus } from "../../domain/tasks/Feedback.ts"
import type { FeedbackId, TaskId } from "../../domain/Ids.ts"
import { refresh } from "./atoms.ts"
import { pagedAtom } from "./pagedAtom.ts"
import { apiClient } from "./apiClient.ts"

/** The list of each filter, newest first. */
export const feedbackAtom = Atom.family((status: FeedbackStatus) =>
  Atom.family((task: TaskId | "all") =>
    pagedAtom(
      (cursor: FeedbackId | undefined) =>
        apiClient.feedback.list({
          query: {
            status,
            ...(task === "all" ? {} : { task_id: task }),
            ...(cursor === undefined ? {} : { cursor })
          }
        }),
      "feedback"
    )
  )
)

/** What promoting a task's staged corrections would do; of them the newest are shown. */
export const promotionPreviewAtom = Atom.family((task_id: TaskId) =>
  Atom.make(apiClient.feedback.preview({ params: { task_id }, query: { limit: 50 } }))
)

/** A correction was reviewed: the lists that it left and came to are read anew, and what promoting would do. */
export const refreshAfterReview = ({ status, task_id }: Pick<FeedbackRecord, "status" | "task_id">): void => {
  for (const one of ["pending", status] as const) {
    refresh(feedbackAtom(one)("all"))
    refresh(feedbackAtom(one)(task_id))
  }
  refresh(promotionPreviewAtom(task_id))
}

/** A task's staged corrections were promoted: some of them, and of those before, into a version, the others superseded. */
export const refreshAfterPromotion = (task_id: TaskId): void => {
  for (const status of ["staged", "promoted", "superseded"] as const) {
    refresh(feedbackAtom(status)("all"))
    refresh(feedbackAtom(status)(task_id))
  }
  refresh(promotionPreviewAtom(task_id))
}
