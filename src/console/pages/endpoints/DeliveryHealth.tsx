import { DateTime, Effect } from "effect"
import { Atom } from "effect/reactivity"
import type { HealthBucket } from "../../../api/Console.ts"
import { consoleClient } from "../../state/consoleClient.ts"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { Chart } from "../../ui/charts/Chart.tsx"
import type { ChartPoint } from "../../ui/charts/ChartData.ts"

export const healthAtom = Atom.family((id: string) =>
  Atom.make(Effect.map(consoleClient.health.get({ params: { id } }), ({ buckets }) => buckets))
)

const hour = new Intl.DateTimeFormat(undefined, { weekday: "short", hour: "2-digit", minute: "2-digit" })

/** Charts of a destination's last 48 hours: attempts and failures per hour, and attempt durations. */
export const DeliveryHealth = ({ id }: { readonly id: string }) => {
  return (
    <section className="card padded" aria-label="Delivery health">
      <AsyncContent atom={healthAtom(id)}>{(buckets) => <HealthPlots buckets={buckets} />}</AsyncContent>
    </section>
  )
}

const HealthPlots = ({ buckets }: { readonly buckets: ReadonlyArray<HealthBucket> }) => {
  const total = buckets.reduce((sum, { delivered, failed }) => sum + delivered + failed, 0)
  const good = buckets.reduce((sum, { delivered }) => sum + delivered, 0)
  return (
    <div className="plots">
      <Chart
        caption="Attempts per hour"
        firstColumn="Hour"
        kind="bars"
        summary={
          total === 0
            ? "none in the last 48 hours"
            : `${percent(good, total)} of ${total.toLocaleString("en")} succeeded`
        }
        series={[
          { name: "succeeded", tone: "first" },
          { name: "failed", tone: "bad" }
        ]}
        points={pointsOf(buckets, ({ delivered, failed }) => [delivered, failed])}
      />
      <Chart
        caption="Attempt duration"
        firstColumn="Hour"
        kind="lines"
        summary="median and 95th percentile"
        format={milliseconds}
        series={[
          { name: "median", tone: "first" },
          { name: "p95", tone: "second" }
        ]}
        points={pointsOf(buckets, ({ median_ms, slow_ms }) => [median_ms, slow_ms])}
      />
    </div>
  )
}

const pointsOf = (
  buckets: ReadonlyArray<HealthBucket>,
  values: (bucket: HealthBucket) => ChartPoint["values"]
): ReadonlyArray<ChartPoint> =>
  buckets.map((bucket) => ({
    key: String(DateTime.toEpochMillis(bucket.at)),
    label: labelOf(bucket),
    values: values(bucket)
  }))

const labelOf = ({ at }: HealthBucket): string => hour.format(DateTime.toEpochMillis(at))

const percent = (part: number, whole: number): string =>
  `${(Math.floor((part / whole) * 1_000) / 10).toLocaleString("en")} %`

const milliseconds = (value: number): string =>
  value < 1_000 ? `${value} ms` : `${(value / 1_000).toLocaleString("en", { maximumFractionDigits: 1 })} s`
