/** Atoms of logged runs, and of feedback on the answers of releases. */
import { Record } from "effect"
import { Atom } from "effect/reactivity"
import type { RunFilter } from "../../api/Runs.ts"
import type { RunId, TaskId, TraceId } from "../../domain/Ids.ts"
import { apiClient } from "./apiClient.ts"
import { refresh } from "./atoms.ts"
import { pagedAtom } from "./pagedAtom.ts"

/** The filters that the console offers. */
export const runFilters = {
  all: ["All runs", {}],
  review: ["Awaiting review", { awaits_review: true }],
  failed: ["Failed", { status: "failed" }],
  incorrect: ["With negative feedback", { score: -1 }],
  correct: ["With positive feedback", { score: 1 }],
  unrated: ["Without feedback", { has_feedback: false }],
  logged: ["Logged by clients", { source: "logged" }]
} as const satisfies Readonly<Record<string, readonly [label: string, RunFilter]>>
export type RunFilterName = keyof typeof runFilters

/** A list of a task's runs. `text`: empty for all. */
export interface RunList {
  readonly task_id: TaskId
  readonly filter: RunFilterName
  readonly text: string
}

/** The runs of a list, newest first. */
export const runsAtom = Atom.family(({ filter, task_id, text }: RunList) =>
  pagedAtom(
    (cursor: RunId | undefined) =>
      apiClient.runs.list({
        params: { task_id },
        query: {
          ...runFilters[filter][1],
          ...(text === "" ? {} : { text }),
          ...(cursor === undefined ? {} : { cursor })
        }
      }),
    "runs"
  )
)

/** One run. */
export const runAtom = Atom.family((trace_id: TraceId) =>
  Atom.make(apiClient.runs.get({ params: { trace_id } }))
)

/** The newest feedback on a run. */
export const runFeedbackAtom = Atom.family((inference_log_id: TraceId) =>
  Atom.make(apiClient.feedback.list({ query: { inference_log_id, limit: 20 } }))
)

/** Feedback by release and day, of the last 30 days. */
export const qualityAtom = Atom.family((task_id: TaskId) =>
  Atom.make(apiClient.feedback.quality({ params: { task_id }, query: {} }))
)

/** Refreshes the lists that a deleted run was in. */
export const refreshAfterRunDeletion = (task_id: TaskId): void => {
  for (const filter of Record.keys(runFilters)) refresh(runsAtom({ task_id, filter, text: "" }))
  refresh(qualityAtom(task_id))
}

/** Refreshes the data that a review of a run changes. */
export const refreshAfterRunReview = (task_id: TaskId, trace_id: TraceId): void => {
  refresh(runAtom(trace_id))
  refresh(runFeedbackAtom(trace_id))
  refresh(runsAtom({ task_id, filter: "review", text: "" }))
  refresh(qualityAtom(task_id))
}
