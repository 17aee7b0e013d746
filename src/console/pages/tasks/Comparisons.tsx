import { Option } from "effect"
import { AsyncResult } from "effect/reactivity"
import { useState } from "react"
import type { Comparison } from "../../../domain/tasks/Comparison.ts"
import type { Task } from "../../../domain/tasks/Task.ts"
import { Link, navigate } from "../../app/router.tsx"
import { refresh, useAtomValue } from "../../state/atoms.ts"
import { apiClient } from "../../state/apiClient.ts"
import { useCan } from "../../state/session.ts"
import { comparisonsAtom, releasesAtom } from "../../state/tasks.ts"
import { Badge } from "../../ui/Badge.tsx"
import { Button } from "../../ui/Button.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { Table } from "../../ui/Table.tsx"
import { PagedList } from "../../ui/PagedList.tsx"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { RelativeTime } from "../../ui/Time.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { useAction } from "../../ui/useAction.ts"
import { DatasetLink } from "./DatasetLink.tsx"
import { defaultDraft, toNewComparison } from "./ComparisonDraft.ts"
import { ComparisonOptions } from "./ComparisonOptions.tsx"

/** A task's comparisons, newest first, and the button that starts one. */
export const Comparisons = ({ task }: { readonly task: Task }) => {
  const can = useCan()
  const [draft, setDraft] = useState(defaultDraft)
  const releases = Option.getOrUndefined(AsyncResult.value(useAtomValue(releasesAtom(task.id))))
  /** The comparison whose candidate is live. */
  const liveComparison = releases?.items
    .flatMap(({ items }) => items)
    .find(({ id }) => id === task.live_release_id)?.comparison_id
  const compare = useAction(() =>
    apiClient.comparisons.create({ params: { id: task.id }, payload: toNewComparison(draft) })
  )
  const run = async () => {
    const created = await compare.run()
    if (created === undefined) return
    refresh(comparisonsAtom(task.id))
    navigate(`/comparisons/${created.comparison.id}`)
  }
  return (
    <div className="stack">
      {can("tasks.write") && task.dataset_id !== null ? (
        <form
          className="stack"
          onSubmit={(event) => {
            event.preventDefault()
            if (!compare.pending) void run()
          }}
        >
          <div className="change-head">
            <p className="quiet">
              Compares the working copy with the live release on the newest dataset version.
            </p>
            <Button type="submit" kind="primary" pending={compare.pending}>
              Run comparison
            </Button>
          </div>
          <details className="card padded">
            <summary>Options: hold-out, fields, budget, judge</summary>
            <ComparisonOptions
              draft={draft}
              answer_schema={task.answer_schema}
              failure={compare.failure}
              onChange={setDraft}
            />
          </details>
        </form>
      ) : null}
      <FailureNotice failure={compare.failure} />
      <PagedList atom={comparisonsAtom(task.id)}>
        {(comparisons) =>
          comparisons.length === 0 ? (
            <EmptyState title="No comparisons yet">
              {task.dataset_id === null
                ? "A comparison needs a dataset. Add examples first."
                : "A comparison runs the candidate and the live release on the same examples."}
            </EmptyState>
          ) : (
            <Table
              columns={[
                "Comparison",
                "Status",
                { name: "Candidate", number: true },
                { name: "Live", number: true }
              ]}
            >
              {comparisons.map((comparison) => (
                <Row key={comparison.id} comparison={comparison} isLive={comparison.id === liveComparison} />
              ))}
            </Table>
          )
        }
      </PagedList>
    </div>
  )
}

const Row = ({ comparison, isLive }: { readonly comparison: Comparison; readonly isLive: boolean }) => (
  <tr>
    <td>
      <Link to={`/comparisons/${comparison.id}`}>
        <RelativeTime time={comparison.created_at} />
      </Link>
      <div className="quiet small">
        <UntrustedText text={comparison.candidate.provider.model} />, examples of{" "}
        <DatasetLink task={comparison.task_id} id={comparison.dataset_id} />
        {isLive ? (
          <>
            {" "}
            <Badge tone="good">Live</Badge>
          </>
        ) : null}
      </div>
      <div className="id quiet">{comparison.id}</div>
    </td>
    <td>
      {comparison.status === "completed" ? (
        <Badge tone="good">Completed</Badge>
      ) : comparison.status === "failed" ? (
        <Badge tone="bad">Failed</Badge>
      ) : comparison.status === "cancelled" ? (
        <Badge tone="quiet">Cancelled</Badge>
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

/** Formats a share between 0 and 1 as a percentage. */
export const formatPercent = (value: number | null): string =>
  value === null ? "–" : `${(Math.round(value * 1_000) / 10).toLocaleString("en")} %`
