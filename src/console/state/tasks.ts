/** Tasks and what hangs on them, as several pages show it. */
import { Atom } from "effect/reactivity"
import type { ComparisonId, DatasetId, ReleaseId, TaskId } from "../../domain/Ids.ts"
import { pagesOf } from "./pages.ts"
import { service } from "./service.ts"

const from = <Cursor>(cursor: Cursor | undefined): { readonly cursor?: Cursor } =>
  cursor === undefined ? {} : { cursor }

/** All tasks, newest first. */
export const tasksAtom = pagesOf(
  (cursor: TaskId | undefined) => service.tasks.list({ query: from(cursor) }),
  "tasks"
)

/** One task. */
export const taskAtom = Atom.family((task_id: TaskId) =>
  Atom.make(service.tasks.get({ params: { task_id } }))
)

/** The versions of a task's dataset, newest first. */
export const datasetsAtom = Atom.family((task_id: TaskId) =>
  pagesOf(
    (cursor: DatasetId | undefined) => service.datasets.list({ params: { task_id }, query: from(cursor) }),
    "datasets"
  )
)

/** A task's comparisons, newest first. */
export const comparisonsAtom = Atom.family((task_id: TaskId) =>
  pagesOf(
    (cursor: ComparisonId | undefined) =>
      service.comparisons.list({ params: { task_id }, query: from(cursor) }),
    "comparisons"
  )
)

/** What a task's runs were answered by, newest first. */
export const releasesAtom = Atom.family((task_id: TaskId) =>
  pagesOf(
    (cursor: ReleaseId | undefined) => service.releases.list({ params: { task_id }, query: from(cursor) }),
    "releases"
  )
)
