import { DateTime, Effect, Schema } from "effect"
import { Atom } from "effect/reactivity"
import { useEffect } from "react"
import type { Comparison as ComparisonModel, SideSummary } from "../../../domain/tasks/Comparison.ts"
import { ComparisonId } from "../../../domain/Ids.ts"
import { Link, navigate } from "../../app/router.tsx"
import { TaskPageTitle } from "../../app/TaskPageTitle.tsx"
import type { PageProps } from "../../app/routes.ts"
import { refresh } from "../../state/atoms.ts"
import { apiClient } from "../../state/apiClient.ts"
import { useCan } from "../../state/session.ts"
import { releasesAtom, taskAtom, useTaskName } from "../../state/tasks.ts"
import { Badge } from "../../ui/Badge.tsx"
import { ConfirmButton } from "../../ui/ConfirmButton.tsx"
import { CopyRecord } from "../../ui/CopyRecord.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { AbsoluteTime } from "../../ui/Time.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { AgreementSummary } from "./AgreementSummary.tsx"
import { ComparedSides, useComparedReleases } from "./ComparedSides.tsx"
import { ComparisonResults } from "./ComparisonResults.tsx"
import { ComparisonSettings } from "./ComparisonSettings.tsx"
import { formatPercent } from "./Comparisons.tsx"
import { PromoteCandidate } from "./PromoteCandidate.tsx"

const comparisonAtom = Atom.family((id: ComparisonId) =>
  Atom.make(
    Effect.map(
      apiClient.comparisons.get({ params: { id }, query: { limit: 1 } }),
      ({ comparison }) => comparison
    )
  )
)

/** The polling interval of a running comparison, in milliseconds. */
const REFRESH_INTERVAL_MS = 1_000

const isComparisonId = Schema.is(ComparisonId)

/** One comparison: progress, agreement of both sides, cost and latency, and the result of every example. */
export default function Comparison({ params }: PageProps) {
  const id = params["id"]
  return isComparisonId(id) ? <LoadedComparison id={id} /> : <EmptyState title="Comparison not found" />
}

const LoadedComparison = ({ id }: { readonly id: ComparisonId }) => {
  return (
    <AsyncContent atom={comparisonAtom(id)}>
      {(comparison) => <ComparisonView comparison={comparison} />}
    </AsyncContent>
  )
}

const StatusBadge = ({ status }: Pick<ComparisonModel, "status">) => {
  switch (status) {
    case "running":
      return <Badge tone="wait">Running</Badge>
    case "completed":
      return <Badge tone="good">Completed</Badge>
    case "failed":
      return <Badge tone="bad">Failed</Badge>
    case "cancelled":
      return <Badge tone="quiet">Cancelled</Badge>
  }
}

const ComparisonView = ({ comparison }: { readonly comparison: ComparisonModel }) => {
  const can = useCan()
  const { id, status, summary, task_id } = comparison
  const releases = useComparedReleases(comparison)
  const taskName = useTaskName(task_id)
  const running = status === "running"
  useEffect(() => {
    if (!running) return undefined
    const timer = setInterval(() => refresh(comparisonAtom(id)), REFRESH_INTERVAL_MS)
    return () => clearInterval(timer)
  }, [id, running])
  return (
    <div className="stack">
      <TaskPageTitle
        record={`Comparison ${DateTime.formatIso(comparison.created_at).slice(0, 10)}`}
        task_id={task_id}
      />
      <p>
        <Link to={`/tasks/${task_id}/comparisons`}>← Task comparisons</Link>
      </p>
      <PageHeader
        title={
          <>
            Comparison
            {taskName === undefined ? null : (
              <>
                {" "}
                for <UntrustedText text={taskName} />
              </>
            )}
          </>
        }
        aside={
          releases.live?.comparison_id === id ? (
            <p>
              <Badge tone="good">Live</Badge> This candidate is live since{" "}
              <AbsoluteTime time={releases.live.created_at} />
            </p>
          ) : status === "completed" && can("tasks.write") ? (
            <PromoteCandidate
              comparison={comparison}
              releases={releases}
              onDone={(role) => {
                refresh(taskAtom(task_id))
                refresh(releasesAtom(task_id))
                showToast(role === "canary" ? "Canary started" : "Candidate promoted")
                navigate(`/tasks/${task_id}/releases`)
              }}
            />
          ) : null
        }
      >
        <StatusBadge status={status} /> · by <UntrustedText text={comparison.created_by.name} /> ·{" "}
        <AbsoluteTime time={comparison.created_at} />
        <br />
        <CopyRecord id={id} of="comparison" path={`/v1/comparisons/${id}`} />
      </PageHeader>
      {comparison.failure === null ? null : <p role="alert">{comparison.failure}</p>}
      {running ? (
        <div className="card padded stack">
          <label>
            <span className="legend">
              {comparison.compared.toLocaleString("en")} of {comparison.example_count.toLocaleString("en")}{" "}
              examples
            </span>
            <progress max={comparison.example_count} value={comparison.compared} />
          </label>
          {can("tasks.write") ? (
            <div>
              <ConfirmButton
                label="Cancel comparison"
                title="Cancel this comparison?"
                act={() => apiClient.comparisons.cancel({ params: { id } })}
                onDone={() => {
                  refresh(comparisonAtom(id))
                  showToast("Comparison cancelled")
                }}
              >
                <p>Calls in progress are aborted. The results so far are kept.</p>
              </ConfirmButton>
            </div>
          ) : null}
        </div>
      ) : null}
      <div className="two-columns">
        <section className="card padded stack" aria-label="Agreement">
          <AgreementSummary summary={summary} />
        </section>
        <section className="card padded stack" aria-label="Cost and latency">
          <h2>Cost and latency</h2>
          <div className="table-scroll">
            <table className="table">
              <thead>
                <tr>
                  <th scope="col">
                    <span className="visually-hidden">Metric</span>
                  </th>
                  <th scope="col" className="number">
                    Candidate
                  </th>
                  <th scope="col" className="number">
                    {releases.isCurrent === false ? "Live then" : "Live"}
                  </th>
                </tr>
              </thead>
              <tbody>
                {metrics.map(([label, format]) => (
                  <tr key={label}>
                    <th scope="row">{label}</th>
                    <td className="number">{format(summary.candidate)}</td>
                    <td className="number">{format(summary.live)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </section>
      </div>
      <ComparedSides comparison={comparison} releases={releases} />
      <ComparisonSettings comparison={comparison} />
      <ComparisonResults comparison={comparison} />
    </div>
  )
}

/** Latencies are known within 5 %, so more than two digits would pretend. */
const milliseconds = (value: number | undefined): string =>
  value === undefined ? "–" : `${Number(value.toPrecision(2)).toLocaleString("en")} ms`

const metrics: ReadonlyArray<readonly [string, (side: SideSummary) => string]> = [
  ["Score", ({ score }) => formatPercent(score)],
  ["Failed", ({ failed }) => failed.toLocaleString("en")],
  ["Median latency", ({ latency_ms }) => milliseconds(latency_ms?.p50)],
  ["p95 latency", ({ latency_ms }) => milliseconds(latency_ms?.p95)],
  ["Input tokens", ({ input_tokens }) => input_tokens.toLocaleString("en")],
  ["Output tokens", ({ output_tokens }) => output_tokens.toLocaleString("en")],
  [
    "Cost",
    ({ cost }) => (cost === null ? "no price" : cost.toLocaleString("en", { maximumFractionDigits: 4 }))
  ]
]
