/** Atoms of tasks, dataset versions, comparisons and releases, shared by several pages. */
import { AsyncResult, Atom } from "effect/reactivity"
import type { ComparisonId, DatasetId, ReleaseId, TaskId } from "../../domain/Ids.ts"
import { pagedAtom } from "./pagedAtom.ts"
import { apiClient } from "./apiClient.ts"
import { refresh, useAtomValue } from "./atoms.ts"
import { consoleClient } from "./consoleClient.ts"
import { useCan } from "./session.ts"

const cursorQuery = <Cursor>(cursor: Cursor | undefined): { readonly cursor?: Cursor } =>
  cursor === undefined ? {} : { cursor }

/** All tasks, newest first. */
export const tasksAtom = pagedAtom(
  (cursor: TaskId | undefined) => apiClient.tasks.list({ query: cursorQuery(cursor) }),
  "tasks"
)

/** The list of tasks with their figures, newest first. */
export const taskRowsAtom = pagedAtom(
  (cursor: TaskId | undefined) => consoleClient.task_rows.list({ query: cursorQuery(cursor) }),
  "tasks"
)

/** Reads the lists of tasks again. */
export const refreshTaskLists = (): void => {
  refresh(tasksAtom)
  refresh(taskRowsAtom)
}

/** One task. */
export const taskAtom = Atom.family((task_id: TaskId) =>
  Atom.make(apiClient.tasks.get({ params: { id: task_id } }))
)

const taskNameAtom = Atom.family((task_id: TaskId) =>
  Atom.make((get) => AsyncResult.getOrElse(get(taskAtom(task_id)), () => undefined)?.name)
)
const noNameAtom = Atom.make(undefined)

/** The name of a task; undefined until it is loaded, and for a session that may not read it. */
export const useTaskName = (task_id: TaskId): string | undefined =>
  useAtomValue(useCan()("tasks.read") ? taskNameAtom(task_id) : noNameAtom)

/** The versions of a task's dataset, newest first. */
export const datasetsAtom = Atom.family((task_id: TaskId) =>
  pagedAtom(
    (cursor: DatasetId | undefined) =>
      apiClient.datasets.list({ params: { id: task_id }, query: cursorQuery(cursor) }),
    "datasets"
  )
)

/** A task's comparisons, newest first. */
export const comparisonsAtom = Atom.family((task_id: TaskId) =>
  pagedAtom(
    (cursor: ComparisonId | undefined) =>
      apiClient.comparisons.list({ params: { id: task_id }, query: cursorQuery(cursor) }),
    "comparisons"
  )
)

/** A task's releases, newest first. */
export const releasesAtom = Atom.family((task_id: TaskId) =>
  pagedAtom(
    (cursor: ReleaseId | undefined) =>
      apiClient.releases.list({ params: { id: task_id }, query: cursorQuery(cursor) }),
    "releases"
  )
)

/** The changes of a release since the one that was live before. */
export const releaseChangesAtom = Atom.family((id: ReleaseId) =>
  Atom.make(apiClient.releases.getChanges({ params: { id } }))
)

/** A task's canary, if it has one. */
export const canaryAtom = Atom.family((task_id: TaskId) =>
  Atom.make(apiClient.canaries.get({ params: { id: task_id } }))
)
