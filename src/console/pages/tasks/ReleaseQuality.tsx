import type {
  DailyFeedback,
  FeedbackQuality,
  ReleaseFeedback
} from "../../../domain/tasks/FeedbackQuality.ts"
import type { TaskId } from "../../../domain/Ids.ts"
import { qualityAtom } from "../../state/runs.ts"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { Chart } from "../../ui/charts/Chart.tsx"
import type { ChartPoint } from "../../ui/charts/ChartData.ts"
import { Table } from "../../ui/Table.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { ReleaseLink } from "./ReleaseLink.tsx"

/** Feedback on the task's answers in the last 30 days: a chart by day, and totals by release. */
export const ReleaseQuality = ({ task_id }: { readonly task_id: TaskId }) => {
  return (
    <section className="card padded stack" aria-label="Feedback by release">
      <AsyncContent atom={qualityAtom(task_id)}>
        {(quality) => <Quality quality={quality} task_id={task_id} />}
      </AsyncContent>
    </section>
  )
}

const total = ({ negative, neutral, positive }: Pick<DailyFeedback, "positive" | "neutral" | "negative">) =>
  positive + neutral + negative

const Quality = ({
  quality: { days, releases },
  task_id
}: {
  readonly quality: FeedbackQuality
  readonly task_id: TaskId
}) => {
  const all = days.reduce((sum, day) => sum + total(day), 0)
  return (
    <>
      <h2>Feedback by release</h2>
      {all === 0 ? (
        <p className="quiet">No feedback in the last 30 days.</p>
      ) : (
        <>
          <Chart
            caption="Feedback per day"
            firstColumn="Day"
            kind="bars"
            summary={`${all.toLocaleString("en")} in the last 30 days`}
            series={[
              { name: "correct or neutral", tone: "first" },
              { name: "incorrect", tone: "bad" }
            ]}
            points={pointsOf(days)}
          />
          <Table columns={["Release", "Correct", "Neutral", "Incorrect", "Share correct", "Mean", "Labels"]}>
            {releases.map((release) => (
              <tr key={release.release_id ?? "logged"}>
                <td>
                  {release.release_id === null ? (
                    "Logged by clients"
                  ) : (
                    <ReleaseLink id={release.release_id} task={task_id} />
                  )}
                </td>
                <td data-label="Correct">{release.positive.toLocaleString("en")}</td>
                <td data-label="Neutral">{release.neutral.toLocaleString("en")}</td>
                <td data-label="Incorrect">{release.negative.toLocaleString("en")}</td>
                <td data-label="Share correct">{shareText(release)}</td>
                <td data-label="Mean">{release.score_mean?.toFixed(2) ?? "unknown"}</td>
                <td data-label="Labels">
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
const pointsOf = (days: FeedbackQuality["days"]): ReadonlyArray<ChartPoint> => {
  const byDay = new Map<string, { good: number; bad: number }>()
  for (const day of days.toReversed()) {
    const sum = byDay.get(day.day) ?? { good: 0, bad: 0 }
    sum.good += day.positive + day.neutral
    sum.bad += day.negative
    byDay.set(day.day, sum)
  }
  return Array.from(byDay, ([day, { bad, good }]) => ({ key: day, label: day, values: [good, bad] }))
}
