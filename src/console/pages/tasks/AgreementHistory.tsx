import { DateTime } from "effect"
import { Atom } from "effect/reactivity"
import type { ReleaseAgreement } from "../../../api/console/AgreementHistory.ts"
import type { TaskId } from "../../../domain/Ids.ts"
import { consoleClient } from "../../state/consoleClient.ts"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { Chart } from "../../ui/charts/Chart.tsx"
import { formatPercent } from "./Comparisons.tsx"

/** The agreement of a task's releases. */
export const agreementAtom = Atom.family((task_id: TaskId) =>
  Atom.make(consoleClient.agreement.history({ params: { id: task_id } }))
)

/** How the agreement of a task's releases developed: a chart with its table. Nothing while fewer than two releases were compared. */
export const AgreementHistory = ({ task_id }: { readonly task_id: TaskId }) => {
  const atom = agreementAtom(task_id)
  return <AsyncContent atom={atom}>{({ releases }) => <History releases={releases} />}</AsyncContent>
}

let timeFormat: Intl.DateTimeFormat | undefined

/** The time of a release, short enough for an axis. */
const timeText = ({ created_at }: ReleaseAgreement): string =>
  (timeFormat ??= new Intl.DateTimeFormat(undefined, {
    month: "short",
    day: "numeric",
    hour: "2-digit",
    minute: "2-digit"
  })).format(DateTime.toEpochMillis(created_at))

const History = ({ releases }: { readonly releases: ReadonlyArray<ReleaseAgreement> }) => {
  const compared = releases.filter(({ comparison }) => (comparison?.agreement ?? null) !== null)
  if (compared.length === 0) return null
  const newest = compared.at(-1)?.comparison?.agreement ?? null
  return (
    <section className="card padded stack" aria-label="Agreement over releases">
      <Chart
        caption="Agreement over releases"
        firstColumn="Release"
        kind="lines"
        format={(value) => formatPercent(value)}
        series={[
          { name: "this release", tone: "first" },
          { name: "the one before, in the same comparison", tone: "fourth" }
        ]}
        points={releases.map((release) => ({
          key: release.release_id,
          label: `${timeText(release)}${release.is_rollback ? " (rollback)" : ""}`,
          values: [release.comparison?.agreement ?? null, release.comparison?.live_agreement ?? null],
          to: release.comparison === null ? undefined : `/comparisons/${release.comparison.id}`
        }))}
        summary={`newest ${formatPercent(newest)}`}
      />
      <p className="quiet small">
        Share of the examples that each release answered right in the comparison by which it was released.
        Datasets grow, so examples differ between releases; compare the two lines of one release.
      </p>
    </section>
  )
}
