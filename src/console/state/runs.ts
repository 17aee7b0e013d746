/** Atoms of logged runs, and of feedback on the answers of releases. */
import { Atom } from "effect/reactivity"
import type { TaskId, TraceId } from "../../domain/Ids.ts"
import { apiClient } from "./apiClient.ts"
import { refresh } from "./atoms.ts"
import { refreshRunLists } from "./runFilter.ts"

/** One run. */
export const runAtom = Atom.family((trace_id: TraceId) =>
  Atom.make(apiClient.runs.get({ params: { id: trace_id } }))
)

/** The newest feedback on a run. */
export const runFeedbackAtom = Atom.family((inference_log_id: TraceId) =>
  Atom.make(apiClient.feedback.list({ query: { inference_log_id, limit: 20 } }))
)

/** Feedback by release and day, of the last 30 days. */
export const qualityAtom = Atom.family((task_id: TaskId) =>
  Atom.make(apiClient.feedback.getQuality({ params: { id: task_id }, query: {} }))
)

/** Refreshes the data that a deleted run was part of. */
export const refreshAfterRunDeletion = (task_id: TaskId): void => {
  refreshRunLists()
  refresh(qualityAtom(task_id))
}

/** Refreshes the data that a review of a run changes. */
export const refreshAfterRunReview = (task_id: TaskId, trace_id: TraceId): void => {
  refresh(runAtom(trace_id))
  refresh(runFeedbackAtom(trace_id))
  refreshRunLists()
  refresh(qualityAtom(task_id))
}
