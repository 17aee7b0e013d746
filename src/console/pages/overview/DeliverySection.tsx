import type { DeliveryOverview, OverviewPeriod } from "../../../api/console/Overview.ts"
import { Link, withQuery } from "../../app/router.tsx"
import { deliveryOverviewAtom } from "../../state/overview.ts"
import { useRefreshing } from "../../state/useRefreshing.ts"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { Chart } from "../../ui/charts/Chart.tsx"
import { Table } from "../../ui/Table.tsx"
import { AbsoluteTime, RelativeTime } from "../../ui/Time.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { Figure } from "./Figure.tsx"
import { countText, dayLabel, daysQuery, percentage, percentText, periodQuery } from "./figures.ts"
import { OVERVIEW_REFRESH_MS } from "./refreshInterval.ts"

const ENDPOINTS = "/endpoints"

/** The log of deliveries with filters. */
const deliveryLog = (filter: Readonly<Record<string, string | undefined>>): string =>
  withQuery("/deliveries", filter)

/** How webhooks were delivered, and which endpoints fail. */
export const DeliverySection = ({ period }: { readonly period: OverviewPeriod }) => {
  const atom = deliveryOverviewAtom(period)
  useRefreshing(atom, true, OVERVIEW_REFRESH_MS)
  return (
    <section className="stack" aria-label="Webhook deliveries">
      <h2>Webhook deliveries</h2>
      <AsyncContent atom={atom}>{(overview) => <Deliveries overview={overview} />}</AsyncContent>
    </section>
  )
}

const Deliveries = ({ overview: { days, failing, total } }: { readonly overview: DeliveryOverview }) => {
  const period = periodQuery(days, "to")
  const failingNow = failing.filter(
    ({ active, consecutive_failures }) => active && consecutive_failures > 0
  ).length
  return (
    <>
      <div className="overview-figures">
        <Figure label="Delivered" to={deliveryLog({ ...period, status: "delivered" })}>
          {countText(total.delivered)}
        </Figure>
        <Figure label="Failed" to={deliveryLog({ ...period, status: "failed" })}>
          {countText(total.failed)}
        </Figure>
        <Figure label="Waiting" to={deliveryLog({ status: "pending" })}>
          {countText(total.waiting)}
        </Figure>
        <Figure label="Oldest waiting" to={deliveryLog({ status: "pending" })}>
          {total.oldest_waiting_at === null ? "none" : <RelativeTime time={total.oldest_waiting_at} />}
        </Figure>
        <Figure label="Success rate" to={deliveryLog(period)}>
          {percentText(percentage(total.delivered, total.delivered + total.failed + total.waiting))}
        </Figure>
        <Figure label="Endpoints that fail now" to={ENDPOINTS} isBad={failingNow > 0}>
          {countText(failingNow)}
        </Figure>
      </div>
      <div className="card padded">
        <Chart
          caption="Deliveries per day"
          firstColumn="Day (UTC)"
          kind="bars"
          summary="by the day of the event"
          series={[
            { name: "delivered", tone: "first" },
            { name: "failed", tone: "bad" }
          ]}
          points={days.map(({ day, delivered, failed }) => ({
            key: day,
            label: dayLabel(day),
            values: [delivered, failed],
            to: deliveryLog(daysQuery(day, day, "to"))
          }))}
        />
      </div>
      {failing.length === 0 ? null : (
        <Table
          columns={[
            "Endpoint",
            "State",
            ...["Delivered", "Failed", "Waiting"].map((name) => ({ name, number: true }))
          ]}
        >
          {failing.map(
            ({
              active,
              consecutive_failures,
              cooldown_until,
              delivered,
              description,
              failed,
              id,
              url_hint,
              waiting
            }) => (
              <tr key={id}>
                <td className="clip">
                  <Link to={`/endpoints/${id}`}>
                    <UntrustedText text={description ?? url_hint} />
                  </Link>
                  {description === null ? null : (
                    <>
                      {" "}
                      <span className="quiet small">
                        <UntrustedText text={url_hint} />
                      </span>
                    </>
                  )}
                </td>
                <td className={active && consecutive_failures > 0 ? "failing" : undefined}>
                  {stateText(active, consecutive_failures)}
                  {cooldown_until === null ? null : (
                    <>
                      , paused until <AbsoluteTime time={cooldown_until} />
                    </>
                  )}
                </td>
                <td className="number" data-label="Delivered">
                  <Link to={deliveryLog({ ...period, status: "delivered", endpoint: id })}>
                    {countText(delivered)}
                  </Link>
                </td>
                <td className="number" data-label="Failed">
                  <Link to={deliveryLog({ ...period, status: "failed", endpoint: id })}>
                    {countText(failed)}
                  </Link>
                </td>
                <td className="number" data-label="Waiting">
                  <Link to={deliveryLog({ status: "pending", endpoint: id })}>{countText(waiting)}</Link>
                </td>
              </tr>
            )
          )}
        </Table>
      )}
    </>
  )
}

const stateText = (active: boolean, consecutive_failures: number): string => {
  if (!active) return "Disabled"
  return consecutive_failures === 0
    ? "Active"
    : `Last ${consecutive_failures === 1 ? "attempt" : `${countText(consecutive_failures)} attempts`} failed`
}
