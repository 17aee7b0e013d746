import type { ReactNode } from "react"
import { MAX_WAITING_COUNT, TASK_ROW_DAYS, type TaskRow } from "../../../api/console/TaskRows.ts"
import { Link, withQuery } from "../../app/router.tsx"
import { serverNow, useCan } from "../../state/session.ts"
import { refreshTaskLists, taskRowsAtom } from "../../state/tasks.ts"
import { ExportButton } from "../../ui/ExportButton.tsx"
import { FirstRecord } from "../../ui/FirstRecord.tsx"
import { Table } from "../../ui/Table.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { PagedList } from "../../ui/PagedList.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { RelativeTime } from "../../ui/Time.tsx"

/** The tasks of the organization. */
export default function Tasks() {
  const can = useCan()
  return (
    <>
      <PageHeader
        title="Tasks"
        aside={
          <>
            <ExportButton path="/tasks" />
            {can("tasks.write") ? (
              <Link className="button primary" to="/tasks/new">
                New task
              </Link>
            ) : null}
          </>
        }
      >
        Tasks with their datasets, the runs of the last 30 days, and what waits for a person.
      </PageHeader>
      <PagedList atom={taskRowsAtom} itemId={(task) => task.id}>
        {(tasks) =>
          tasks.length === 0 ? (
            <div className="card">
              <FirstRecord
                of={({ firstTask }, origin) => firstTask(origin)}
                look={() => refreshTaskLists()}
              />
            </div>
          ) : (
            <Table
              columns={[
                "Task",
                "Dataset",
                { name: "Runs, 30 days", number: true },
                { name: "Agreement", number: true },
                "To do",
                "Created"
              ]}
            >
              {tasks.map((task) => (
                <TaskLine key={task.id} task={task} />
              ))}
            </Table>
          )
        }
      </PagedList>
    </>
  )
}

const TaskLine = ({ task }: { readonly task: TaskRow }) => {
  const can = useCan()
  const { created_at, created_by, dataset, id, model, name, runs } = task
  return (
    <tr>
      <td>
        <Link to={`/tasks/${id}`}>
          <UntrustedText text={name} />
        </Link>
        <div className="quiet small">
          {model === null ? "Nearest example" : <UntrustedText text={model} />}
        </div>
      </td>
      <td>
        {dataset === null ? (
          <span className="quiet">none</span>
        ) : (
          <>
            {can("datasets.read") ? (
              <Link to={`/datasets/${dataset.id}`}>Version {dataset.version}</Link>
            ) : (
              `Version ${dataset.version}`
            )}
            <div className="quiet small">{counted(dataset.example_count, "example", "examples")}</div>
          </>
        )}
      </td>
      <td className="number" data-label="Runs, 30 days">
        {can("runs.read") ? (
          <Link to={withQuery(`/tasks/${id}/runs`, { from: firstDay() })}>{runs.toLocaleString("en")}</Link>
        ) : (
          runs.toLocaleString("en")
        )}
      </td>
      <td className="number" data-label="Agreement">
        {agreement(task)}
      </td>
      <td>
        <ToDo task={task} />
      </td>
      <td>
        <RelativeTime time={created_at} />
        <div className="quiet small">
          by <UntrustedText text={created_by.name} />
        </div>
      </td>
    </tr>
  )
}

/** The first day that is counted, in UTC. */
const firstDay = (): string =>
  `${new Date(serverNow() - (TASK_ROW_DAYS - 1) * 86_400_000).toISOString().slice(0, 10)}Z`

/** The work that waits for a person, as links to it. */
const ToDo = ({ task }: { readonly task: TaskRow }) => {
  const waiting: ReadonlyArray<readonly [count: number | null, one: string, many: string, to: string]> = [
    [task.pending_corrections, "correction to review", "corrections to review", `/feedback/task/${task.id}`],
    [task.staged_corrections, "correction to promote", "corrections to promote", `/promotion/${task.id}`],
    [task.runs_to_review, "run to review", "runs to review", `/tasks/${task.id}/runs?feedback=review`]
  ]
  const shown = waiting.flatMap(([count, one, many, to]): ReadonlyArray<ReactNode> =>
    count === null || count === 0
      ? []
      : [
          <li key={to}>
            <Link to={to}>{counted(count, one, many)}</Link>
          </li>
        ]
  )
  return shown.length === 0 ? <span className="quiet">nothing</span> : <ul className="task-to-do">{shown}</ul>
}

const counted = (count: number, one: string, many: string): string =>
  `${count.toLocaleString("en")}${count === MAX_WAITING_COUNT && many !== "examples" ? "+" : ""} ${count === 1 ? one : many}`

/** The share of positive feedback, or a dash without any. */
const agreement = ({ feedback }: TaskRow): string => {
  if (feedback === null) return "–"
  const all = feedback.positive + feedback.neutral + feedback.negative
  return all === 0
    ? "–"
    : `${((100 * feedback.positive) / all).toLocaleString("en", { maximumFractionDigits: 1 })} %`
}
