import type { ApprovalOverview, OverviewPeriod } from "../../../api/console/Overview.ts"
import { Link, withQuery } from "../../app/router.tsx"
import { approvalOverviewAtom } from "../../state/overview.ts"
import { useRefreshing } from "../../state/useRefreshing.ts"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { Chart } from "../../ui/charts/Chart.tsx"
import { Table } from "../../ui/Table.tsx"
import { formatSeconds, RelativeTime } from "../../ui/Time.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { Figure } from "./Figure.tsx"
import { axisSeconds, countText, dayLabel, daysQuery, periodQuery } from "./figures.ts"
import { OVERVIEW_REFRESH_MS } from "./refreshInterval.ts"

const PENDING = "/approvals?show=all"

/** The list of closed approvals with filters. */
const closedList = (filter: Readonly<Record<string, string | undefined>>): string =>
  withQuery("/approvals", { tab: "closed", ...filter })

/** How many approvals wait, and how approvals of the last days were decided. */
export const ApprovalSection = ({ period }: { readonly period: OverviewPeriod }) => {
  const atom = approvalOverviewAtom(period)
  useRefreshing(atom, true, OVERVIEW_REFRESH_MS)
  return (
    <section className="stack" aria-label="Approvals">
      <h2>Approvals</h2>
      <AsyncContent atom={atom}>{(overview) => <Approvals overview={overview} />}</AsyncContent>
    </section>
  )
}

const timeText = (seconds: number | null): string => (seconds === null ? "none" : formatSeconds(seconds))

const Approvals = ({ overview }: { readonly overview: ApprovalOverview }) => {
  const { days, pending, people, tools, total } = overview
  const decided = total.approved + total.rejected
  const period = periodQuery(days)
  const toDay = (day: string) => closedList(daysQuery(day, day))
  return (
    <>
      <div className="overview-figures">
        <Figure label="Pending now" to={PENDING}>
          {countText(pending.count)}
          {pending.more ? "+" : ""}
        </Figure>
        <Figure label="Oldest request" to={PENDING}>
          {pending.oldest_requested_at === null ? (
            "none"
          ) : (
            <RelativeTime time={pending.oldest_requested_at} />
          )}
        </Figure>
        <Figure label="Decided by people" to={closedList({ ...period, outcome: "decided" })}>
          {countText(decided)}
        </Figure>
        <Figure label="Time to decision, p50" to={closedList({ ...period, outcome: "decided" })}>
          {timeText(total.p50_seconds)}
        </Figure>
        <Figure label="Time to decision, p95" to={closedList({ ...period, outcome: "decided" })}>
          {timeText(total.p95_seconds)}
        </Figure>
        <Figure label="Timed out" to={closedList({ ...period, outcome: "timeout" })}>
          {countText(total.timed_out)}
        </Figure>
      </div>
      <div className="card padded plots">
        <Chart
          caption="Decisions per day"
          firstColumn="Day (UTC)"
          kind="bars"
          summary={`${countText(total.escalated)} escalated to admins`}
          series={[
            { name: "approved", tone: "good" },
            { name: "rejected", tone: "bad" },
            { name: "timed out", tone: "wait" },
            { name: "session closed", tone: "fourth" }
          ]}
          points={days.map(({ approved, day, rejected, session_closed, timed_out }) => ({
            key: day,
            label: dayLabel(day),
            values: [approved, rejected, timed_out, session_closed],
            to: toDay(day)
          }))}
        />
        <Chart
          caption="Time to decision"
          firstColumn="Day (UTC)"
          kind="lines"
          summary="by people, within 5 %"
          format={formatSeconds}
          formatAxis={axisSeconds}
          series={[
            { name: "p50", tone: "first" },
            { name: "p95", tone: "second" }
          ]}
          points={days.map(({ day, p50_seconds, p95_seconds }) => ({
            key: day,
            label: dayLabel(day),
            values: [p50_seconds, p95_seconds],
            to: toDay(day)
          }))}
        />
      </div>
      {tools.length === 0 ? null : (
        <div className="overview-tables">
          <Table
            columns={[
              "Tool",
              ...["Approved", "Rejected", "Timed out"].map((name) => ({ name, number: true }))
            ]}
          >
            {tools.map(({ approved, rejected, timed_out, tool }) => (
              <tr key={tool}>
                <td className="clip">
                  <Link to={closedList({ ...period, tool })}>
                    <UntrustedText text={tool} />
                  </Link>
                </td>
                <td className="number" data-label="Approved">
                  <Link to={closedList({ ...period, tool, outcome: "approved" })}>{countText(approved)}</Link>
                </td>
                <td className="number" data-label="Rejected">
                  <Link to={closedList({ ...period, tool, outcome: "rejected" })}>{countText(rejected)}</Link>
                </td>
                <td className="number" data-label="Timed out">
                  <Link to={closedList({ ...period, tool, outcome: "timeout" })}>{countText(timed_out)}</Link>
                </td>
              </tr>
            ))}
          </Table>
          <Table
            columns={["Decided by", ...["Approved", "Rejected"].map((name) => ({ name, number: true }))]}
          >
            {people.map(({ approved, key_id, name, rejected }) => (
              <tr key={key_id}>
                <td className="clip">
                  <Link to={closedList({ ...period, by: key_id })}>
                    {name === null ? <span className="id">{key_id}</span> : <UntrustedText text={name} />}
                  </Link>
                </td>
                <td className="number" data-label="Approved">
                  <Link to={closedList({ ...period, by: key_id, outcome: "approved" })}>
                    {countText(approved)}
                  </Link>
                </td>
                <td className="number" data-label="Rejected">
                  <Link to={closedList({ ...period, by: key_id, outcome: "rejected" })}>
                    {countText(rejected)}
                  </Link>
                </td>
              </tr>
            ))}
          </Table>
        </div>
      )}
    </>
  )
}
