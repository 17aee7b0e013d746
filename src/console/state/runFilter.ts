import { Schema } from "effect"
import { Atom } from "effect/reactivity"
import type { RunRowFilter } from "../../api/console/RunRows.ts"
import { ReleaseId, type RunId, TaskId } from "../../domain/Ids.ts"
import { RunSource, RunStatus } from "../../domain/tasks/Run.ts"
import { refresh } from "./atoms.ts"
import { consoleClient } from "./consoleClient.ts"
import { pagedAtom } from "./pagedAtom.ts"
import { defineQuery, QueryDay, type QueryState, QueryText, startOfDay } from "./queryState.ts"

/** Choices of feedback, and of review, with their labels. */
export const feedbackChoices = {
  with: ["with feedback", { has_feedback: true }],
  without: ["without feedback", { has_feedback: false }],
  incorrect: ["incorrect", { score: -1 }],
  neutral: ["neutral", { score: 0 }],
  correct: ["correct", { score: 1 }],
  review: ["awaiting review", { awaits_review: true }]
} as const satisfies Readonly<Record<string, readonly [label: string, RunRowFilter]>>

const fields = {
  task: TaskId,
  status: RunStatus,
  source: RunSource,
  feedback: Schema.Literals(["with", "without", "incorrect", "neutral", "correct", "review"]),
  release: ReleaseId,
  /** The least duration, in milliseconds. */
  slow: Schema.FiniteFromString.pipe(
    Schema.decodeTo(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 86_400_000 })))
  ),
  from: QueryDay,
  to: QueryDay,
  q: QueryText
}
export type RunQueryFields = typeof fields

/** The filters of the list in its address. */
export const runQuery = defineQuery(fields)

/** No filter. */
export const unfiltered: { readonly [Name in keyof RunQueryFields]: undefined } = {
  task: undefined,
  status: undefined,
  source: undefined,
  feedback: undefined,
  release: undefined,
  slow: undefined,
  from: undefined,
  to: undefined,
  q: undefined
}

/** Whether a list shows less than everything. */
export const isFiltered = (query: QueryState<RunQueryFields>): boolean =>
  Object.values(query).some((value) => value !== undefined)

/** The filter of a query, as the service takes it. The page has no filter for metadata. */
export const toFilter = ({
  feedback,
  from,
  q,
  release,
  slow,
  source,
  status,
  task,
  to
}: QueryState<RunQueryFields>): Omit<RunRowFilter, "metadata"> => ({
  ...(task === undefined ? {} : { task_id: task }),
  ...(status === undefined ? {} : { status }),
  ...(source === undefined ? {} : { source }),
  ...(feedback === undefined ? {} : feedbackChoices[feedback][1]),
  ...(release === undefined ? {} : { release_id: release }),
  ...(slow === undefined ? {} : { min_duration_ms: slow }),
  ...(from === undefined ? {} : { created_after: startOfDay(from) }),
  ...(to === undefined ? {} : { created_before: startOfDay(to, 1) }),
  ...(q === undefined ? {} : { text: q })
})

/** Lists that may be shown again, the last one last. */
const shown = new Set<string>()
const MAX_SHOWN = 20

/** The runs of a filtered list, by its query. */
export const runRowsAtom = (search: string) => {
  shown.delete(search)
  shown.add(search)
  for (const oldest of shown) {
    if (shown.size <= MAX_SHOWN) break
    shown.delete(oldest)
  }
  return rowsAtom(search)
}

/** Reads the lists again that a change of runs may have changed, once they are shown. */
export const refreshRunLists = (): void => {
  for (const search of shown) refresh(rowsAtom(search))
}

const rowsAtom = Atom.family((search: string) =>
  pagedAtom(
    (cursor: RunId | undefined) =>
      consoleClient.run_rows.list({
        query: { ...toFilter(runQuery.read(search)), ...(cursor === undefined ? {} : { cursor }) }
      }),
    "runs"
  )
)
