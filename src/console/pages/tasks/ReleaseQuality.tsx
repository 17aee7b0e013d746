import type {
  DailyFeedback,
  FeedbackQuality,
  ReleaseFeedback
} from "../../../domain/tasks/FeedbackQuality.ts"
import type { TaskId } from "../../../domain/Ids.ts"
import { useAtomValue } from "../../state/atoms.ts"
import { qualityAtom } from "../../state/runs.ts"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { type PlotColumn, Plot } from "../../ui/Plot.tsx"
import { Table } from "../../ui/Table.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"

/** Feedback on the task's answers in the last 30 days: a chart by day, and totals by release. */
export const ReleaseQuality = ({ task_id }: { readonly task_id: TaskId }) => {
  const result = useAtomValue(qualityAtom(task_id))
  return (
    <section className="card padded stack" aria-label="Feedback by release">
      <AsyncContent result={result} atom={qualityAtom(task_id)}>
        {(quality) => <Quality quality={quality} />}
      </AsyncContent>
    </section>
  )
}

const total = ({ negative, neutral, positive }: Pick<DailyFeedback, "positive" | "neutral" | "negative">) =>
  positive + neutral + negative

const Quality = ({ quality: { days, releases } }: { readonly quality: FeedbackQuality }) => {
  const columns = columnsOf(days)
  const all = days.reduce((sum, day) => sum + total(day), 0)
  const most = Math.max(0, ...columns.map(({ value }) => value ?? 0))
  return (
    <>
      <h2>Feedback by release</h2>
      {all === 0 ? (
        <p className="quiet">No feedback in the last 30 days.</p>
      ) : (
        <>
          <Plot
            caption="Feedback per day"
            summary={`${all.toLocaleString("en")} in the last 30 days`}
            axisLabels={[columns[0]?.label ?? "", "today"]}
            maxLabel={most.toLocaleString("en")}
            legend={["correct or neutral", "incorrect"]}
            columns={columns}
          />
          <Table columns={["Release", "Correct", "Neutral", "Incorrect", "Share correct", "Mean", "Labels"]}>
            {releases.map((release) => (
              <tr key={release.release_id ?? "logged"}>
                <td>
                  {release.release_id === null ? (
                    "Logged by clients"
                  ) : (
                    <span className="id">{release.release_id}</span>
                  )}
                </td>
                <td>{release.positive.toLocaleString("en")}</td>
                <td>{release.neutral.toLocaleString("en")}</td>
                <td>{release.negative.toLocaleString("en")}</td>
                <td>{shareText(release)}</td>
                <td>{release.score_mean?.toFixed(2) ?? "unknown"}</td>
                <td>
                  <UntrustedText text={labelsText(release)} />
                </td>
              </tr>
            ))}
          </Table>
        </>
      )}
    </>
  )
}

const percent = (share: number): string => `${Math.round(share * 100)} %`

const shareText = ({ positive_share }: ReleaseFeedback): string =>
  positive_share === null
    ? "unknown"
    : `${percent(positive_share.value)} (${percent(positive_share.low)} to ${percent(positive_share.high)})`

/** Labels in a row of the table; the API has all of them. */
const MAX_LABELS = 5

const labelsText = ({ labels }: ReleaseFeedback): string =>
  [
    ...labels.slice(0, MAX_LABELS).map(({ count, label }) => `${label} (${count.toLocaleString("en")})`),
    ...(labels.length > MAX_LABELS ? [`${labels.length - MAX_LABELS} more`] : [])
  ].join(", ")

/** One bar per day with feedback, oldest first, over all releases. */
const columnsOf = (days: FeedbackQuality["days"]): ReadonlyArray<PlotColumn> => {
  const byDay = new Map<string, { all: number; bad: number }>()
  for (const day of days.toReversed()) {
    const sum = byDay.get(day.day) ?? { all: 0, bad: 0 }
    sum.all += total(day)
    sum.bad += day.negative
    byDay.set(day.day, sum)
  }
  return Array.from(byDay, ([day, { all, bad }]) => ({
    key: day,
    label: day,
    value: all,
    bad,
    text: `${all - bad} correct or neutral, ${bad} incorrect`
  }))
}
