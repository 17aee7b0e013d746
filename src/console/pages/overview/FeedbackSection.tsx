import type { FeedbackOverview, OverviewPeriod } from "../../../api/console/Overview.ts"
import { Link, withQuery } from "../../app/router.tsx"
import { feedbackOverviewAtom } from "../../state/overview.ts"
import { useCan } from "../../state/session.ts"
import { useRefreshing } from "../../state/useRefreshing.ts"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { Chart } from "../../ui/charts/Chart.tsx"
import type { ChartMark } from "../../ui/charts/ChartData.ts"
import { Table } from "../../ui/Table.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { Figure } from "./Figure.tsx"
import { countText, dayLabel, daysQuery, percentage, percentText, periodQuery } from "./figures.ts"
import { OVERVIEW_REFRESH_MS } from "./refreshInterval.ts"

/** The feedback of all statuses with filters. */
const feedbackList = (filter: Readonly<Record<string, string | undefined>>): string =>
  withQuery("/feedback", { status: "all", ...filter })

/** How much feedback answers got, and how much of it agrees with them. */
export const FeedbackSection = ({ period }: { readonly period: OverviewPeriod }) => {
  const atom = feedbackOverviewAtom(period)
  useRefreshing(atom, true, OVERVIEW_REFRESH_MS)
  return (
    <section className="stack" aria-label="Answers">
      <h2>Answers</h2>
      <AsyncContent atom={atom}>{(overview) => <Answers overview={overview} />}</AsyncContent>
    </section>
  )
}

type Counts = FeedbackOverview["total"]

const feedbackOf = ({ negative, neutral, positive }: Counts): number => positive + neutral + negative

const agreementOf = (counts: Counts): number | null => percentage(counts.positive, feedbackOf(counts))

const rateOf = (counts: Counts): number | null => percentage(feedbackOf(counts), counts.runs)

/** Shares of each day. A chart each, because one is at most 100 % and the other can be several times that. */
const shares = [
  { caption: "Agreement", tone: "first", of: agreementOf },
  { caption: "Feedback per run", tone: "second", of: rateOf }
] as const

/** The days on which there were new releases. */
const marksOf = ({ days, released }: FeedbackOverview): ReadonlyArray<ChartMark> => {
  const counts = new Map<number, number>()
  for (const { day } of released) {
    const at = days.findIndex((one) => one.day === day)
    if (at !== -1) counts.set(at, (counts.get(at) ?? 0) + 1)
  }
  return Array.from(counts, ([at, count]) => ({
    at,
    label: count === 1 ? "new release" : `${count} new releases`
  }))
}

const Answers = ({ overview }: { readonly overview: FeedbackOverview }) => {
  const { days, releases, total } = overview
  const marks = marksOf(overview)
  const period = periodQuery(days)
  const can = useCan()
  return (
    <>
      <div className="overview-figures">
        <Figure label="Runs" to={can("runs.read") ? withQuery("/runs", periodQuery(days, "to")) : "/tasks"}>
          {countText(total.runs)}
        </Figure>
        <Figure label="Feedback" to={feedbackList(period)}>
          {countText(feedbackOf(total))}
        </Figure>
        <Figure label="Feedback per run" to={feedbackList(period)}>
          {percentText(rateOf(total))}
        </Figure>
        <Figure label="Agreement" to={feedbackList(period)}>
          {percentText(agreementOf(total))}
        </Figure>
      </div>
      <div className="card padded plots">
        <Chart
          caption="Feedback per day"
          firstColumn="Day (UTC)"
          kind="bars"
          summary=""
          marks={marks}
          series={[
            { name: "correct", tone: "good" },
            { name: "neutral", tone: "fourth" },
            { name: "incorrect", tone: "bad" }
          ]}
          points={days.map(({ day, negative, neutral, positive }) => ({
            key: day,
            label: dayLabel(day),
            values: [positive, neutral, negative],
            to: feedbackList(daysQuery(day, day))
          }))}
        />
        {shares.map(({ caption, of, tone }) => (
          <Chart
            key={caption}
            caption={caption}
            firstColumn="Day (UTC)"
            kind="lines"
            summary={marks.length === 0 ? "" : "triangles: new releases"}
            format={percentText}
            marks={marks}
            series={[{ name: caption.toLowerCase(), tone }]}
            points={days.map((day) => ({
              key: day.day,
              label: dayLabel(day.day),
              values: [of(day)],
              to: feedbackList(daysQuery(day.day, day.day))
            }))}
          />
        ))}
      </div>
      {releases.length === 0 ? null : (
        <Table
          columns={[
            "Release",
            ...["Runs", "Feedback", "Feedback per run", "Agreement"].map((name) => ({ name, number: true }))
          ]}
        >
          {releases.map((release) => (
            <tr key={release.release_id}>
              <td className="clip">
                <Link to={`/tasks/${release.task_id}/releases`}>
                  <UntrustedText text={release.task_name} />
                </Link>{" "}
                <span className="quiet small">
                  release {release.number}, of{" "}
                  {dayLabel(new Date(release.created_at.epochMilliseconds).toISOString().slice(0, 10))}
                  {release.live ? ", live" : ""}
                </span>
              </td>
              <td className="number" data-label="Runs">
                {can("runs.read") ? (
                  <Link
                    to={withQuery("/runs", {
                      ...periodQuery(days, "to"),
                      task: release.task_id,
                      release: release.release_id
                    })}
                  >
                    {countText(release.runs)}
                  </Link>
                ) : (
                  countText(release.runs)
                )}
              </td>
              <td className="number" data-label="Feedback">
                {countText(feedbackOf(release))}
              </td>
              <td className="number" data-label="Feedback per run">
                {percentText(rateOf(release))}
              </td>
              <td className="number" data-label="Agreement">
                {percentText(agreementOf(release))}
              </td>
            </tr>
          ))}
        </Table>
      )}
    </>
  )
}
