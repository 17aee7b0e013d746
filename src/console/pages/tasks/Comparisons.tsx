import type { Comparison } from "../../../domain/tasks/Comparison.ts"
import type { Task } from "../../../domain/tasks/Task.ts"
import { Link, navigate } from "../../app/router.tsx"
import { refresh } from "../../state/atoms.ts"
import { apiClient } from "../../state/apiClient.ts"
import { useCan } from "../../state/session.ts"
import { comparisonsAtom } from "../../state/tasks.ts"
import { Badge } from "../../ui/Badge.tsx"
import { Button } from "../../ui/Button.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { Table } from "../../ui/Table.tsx"
import { PagedList } from "../../ui/PagedList.tsx"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { RelativeTime } from "../../ui/Time.tsx"
import { useAction } from "../../ui/useAction.ts"

/** What was tried against what is live, newest first, and the way to try the working copy. */
export const Comparisons = ({ task }: { readonly task: Task }) => {
  const can = useCan()
  const compare = useAction(() => apiClient.comparisons.create({ params: { task_id: task.id }, payload: {} }))
  const run = async () => {
    const taken = await compare.run()
    if (taken === undefined) return
    refresh(comparisonsAtom(task.id))
    navigate(`/comparisons/${taken.comparison.id}`)
  }
  return (
    <div className="stack">
      {can("tasks.write") && task.dataset_id !== null ? (
        <div className="change-head">
          <p className="quiet">
            The working copy, on the newest version of the dataset, against what is live.
          </p>
          <Button kind="primary" pending={compare.pending} onClick={() => void run()}>
            Compare now
          </Button>
        </div>
      ) : null}
      <FailureNotice failure={compare.failure} />
      <PagedList atom={comparisonsAtom(task.id)}>
        {(comparisons) =>
          comparisons.length === 0 ? (
            <EmptyState title="Nothing was compared yet">
              {task.dataset_id === null
                ? "A comparison answers the examples of a dataset, and there is none yet."
                : "A comparison has a candidate and what is live answer the same examples."}
            </EmptyState>
          ) : (
            <Table
              columns={[
                "Comparison",
                "State",
                { name: "Candidate", number: true },
                { name: "Live", number: true }
              ]}
            >
              {comparisons.map((comparison) => (
                <Row key={comparison.id} comparison={comparison} />
              ))}
            </Table>
          )
        }
      </PagedList>
    </div>
  )
}

const Row = ({ comparison }: { readonly comparison: Comparison }) => (
  <tr>
    <td>
      <Link to={`/comparisons/${comparison.id}`}>
        <RelativeTime time={comparison.created_at} />
      </Link>
      <div className="id quiet">{comparison.id}</div>
    </td>
    <td>
      {comparison.status === "completed" ? (
        <Badge tone="good">completed</Badge>
      ) : (
        <Badge tone="wait">
          {comparison.compared} of {comparison.example_count}
        </Badge>
      )}
    </td>
    <td className="number" data-label="candidate">
      {formatPercent(comparison.summary.candidate.agreement)}
    </td>
    <td className="number" data-label="live">
      {formatPercent(comparison.summary.live.agreement)}
    </td>
  </tr>
)

/** A share of the whole as a percentage. */
export const formatPercent = (value: number | null): string =>
  value === null ? "–" : `${(Math.round(value * 1_000) / 10).toLocaleString("en")} %`
