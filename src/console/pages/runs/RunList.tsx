import { DateTime } from "effect"
import type { RunRow } from "../../../api/console/RunRows.ts"
import type { Task } from "../../../domain/tasks/Task.ts"
import { Link } from "../../app/router.tsx"
import { refresh, useAtomValue } from "../../state/atoms.ts"
import { Badge } from "../../ui/Badge.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { ExportButton } from "../../ui/ExportButton.tsx"
import { PagedList } from "../../ui/PagedList.tsx"
import { SavedViews } from "../../ui/SavedViews.tsx"
import { summarizeJsonStart } from "../../ui/summarizeJson.ts"
import { RelativeTime } from "../../ui/Time.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { useQueryState } from "../../ui/useQueryState.ts"
import { scoreText } from "../feedback/scoreText.ts"
import { FirstOfTask } from "../tasks/FirstOfTask.tsx"
import { durationText } from "./durationText.ts"
import { RunFilters } from "./RunFilters.tsx"
import { isFiltered, runQuery, runRowsAtom, toFilter } from "../../state/runFilter.ts"

/** The runs of all tasks, or of one, newest first, with filters in the address. The list keeps itself current. */
export const RunList = ({ task }: { readonly task?: Task }) => {
  const [query, setQuery] = useQueryState(runQuery)
  const shown = task === undefined ? query : { ...query, task: task.id }
  const search = runQuery.write("", shown)
  const atom = runRowsAtom(search)
  return (
    <div className="run-list">
      <div className="run-list-head">
        <RunFilters query={query} setQuery={setQuery} task={task?.id} />
        <ExportButton path="/runs" filter={exportFilter(shown)} />
      </div>
      <SavedViews list={task === undefined ? "runs" : "task-runs"} />
      {/* A search for a text reads the content of many runs, so it is not repeated every few seconds. */}
      <PagedList atom={atom} {...(shown.q === undefined ? { itemId: traceId } : {})}>
        {(runs) =>
          runs.length === 0 ? (
            <NoRuns search={search} task={task} />
          ) : (
            <>
              <RunHeads showsTask={task === undefined} />
              <ul className="card run-rows" aria-label="Runs">
                {runs.map((run) => (
                  <Row key={run.trace_id} run={run} showsTask={task === undefined} />
                ))}
              </ul>
            </>
          )
        }
      </PagedList>
    </div>
  )
}

const traceId = ({ trace_id }: RunRow): string => trace_id

/** The filter as the query of an export. */
const exportFilter = (
  query: ReturnType<typeof runQuery.read>
): Readonly<Record<string, string | undefined>> =>
  Object.fromEntries(
    Object.entries(toFilter(query)).map(([name, value]) => [
      name,
      typeof value === "object" ? DateTime.formatIso(value) : String(value)
    ])
  )

const NoRuns = ({ search, task }: { readonly search: string; readonly task: Task | undefined }) => {
  const result = useAtomValue(runRowsAtom(search))
  const query = runQuery.read(search)
  const hasMore = result._tag === "Success" && result.value.items.at(-1)?.more === true
  if (hasMore) {
    return (
      <EmptyState title="No match among the newest runs">
        A search reads a limited number of runs at a time. Load more to search older ones.
      </EmptyState>
    )
  }
  if (query.feedback === "review" && task !== undefined && task.review_share === 0) {
    return (
      <EmptyState title="No runs to review">
        No runs are sampled: the task&apos;s share of runs for review is 0.
      </EmptyState>
    )
  }
  if (isFiltered(task === undefined ? query : { ...query, task: undefined })) {
    return <EmptyState title="No runs match these filters" />
  }
  return (
    <div className="card">
      <FirstOfTask
        title="No runs yet"
        wanted={task?.id}
        of={({ firstRun }, origin, of) => firstRun(origin, of)}
        look={() => refresh(runRowsAtom(search))}
      />
    </div>
  )
}

/** The names of the columns, on screens that are wide enough for all of them. Screen readers get the texts of a row in their order. */
const RunHeads = ({ showsTask }: { readonly showsTask: boolean }) => (
  <div className="run-row run-heads" data-task={showsTask ? "" : undefined} aria-hidden="true">
    {showsTask ? <span>Task</span> : null}
    <span className="run-row-text">
      <span>Input</span>
      <span>Answer</span>
    </span>
    <span>Feedback</span>
    <span>Answered by</span>
    <span className="run-row-duration">Duration</span>
    <span className="run-row-time">Time</span>
  </div>
)

/** One run in a line: its input and answer, the provider, the duration, and how it was judged. */
const Row = ({ run, showsTask }: { readonly run: RunRow; readonly showsTask: boolean }) => (
  <li>
    <Link to={`/runs/${run.trace_id}`} className="run-row" data-task={showsTask ? "" : undefined}>
      {showsTask ? (
        <span className="run-row-task">
          <UntrustedText text={run.task_name} />
        </span>
      ) : null}
      <span className="run-row-text">
        <span>
          <Start text={run.input_start} />
        </span>{" "}
        <span>
          <span className="quiet">→</span>{" "}
          {run.status === "failed" ? (
            <>
              <Badge tone="bad">Failed</Badge> <UntrustedText text={run.failure_start ?? ""} />
            </>
          ) : (
            <strong>
              <Start text={run.answer_start} />
            </strong>
          )}
        </span>
      </span>
      <span className="run-row-more">
        {run.feedback === null ? null : (
          <span className={run.feedback.score === -1 ? "run-row-bad" : undefined}>
            {scoreText(run.feedback.score)}
            {run.feedback.has_correction ? ", corrected" : ""}
          </span>
        )}
        {run.awaits_review ? <Badge tone="wait">Review</Badge> : null}
      </span>
      <span className="run-row-by quiet">
        <UntrustedText text={run.model ?? "the client"} />
        {run.source === "logged" || run.release_role === "live"
          ? ""
          : run.release_role === "canary"
            ? " · canary"
            : " · earlier release"}
      </span>
      <span className="run-row-duration quiet">{durationText(run.duration_ms)}</span>
      <span className="run-row-time quiet">
        <RelativeTime time={run.created_at} />
      </span>
    </Link>
  </li>
)

const Start = ({ text }: { readonly text: string | null }) =>
  text === null ? <span className="quiet">large</span> : <UntrustedText text={summarizeJsonStart(text)} />
