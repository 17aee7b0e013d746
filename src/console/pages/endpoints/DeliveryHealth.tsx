import { DateTime, Effect } from "effect"
import { Atom } from "effect/reactivity"
import type { HealthBucket } from "../../../api/Console.ts"
import { useAtomValue } from "../../state/atoms.ts"
import { consoleClient } from "../../state/consoleClient.ts"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { type PlotColumn, Plot } from "../../ui/Plot.tsx"

export const healthAtom = Atom.family((id: string) =>
  Atom.make(Effect.map(consoleClient.health.get({ params: { id } }), ({ buckets }) => buckets))
)

const hour = new Intl.DateTimeFormat(undefined, { weekday: "short", hour: "2-digit", minute: "2-digit" })

/** Charts of a destination's last 48 hours: attempts and failures per hour, and attempt durations. */
export const DeliveryHealth = ({ id }: { readonly id: string }) => {
  const result = useAtomValue(healthAtom(id))
  return (
    <section className="card padded" aria-label="Delivery health">
      <AsyncContent result={result} atom={healthAtom(id)}>
        {(buckets) => <HealthPlots buckets={buckets} />}
      </AsyncContent>
    </section>
  )
}

const HealthPlots = ({ buckets }: { readonly buckets: ReadonlyArray<HealthBucket> }) => {
  const total = buckets.reduce((sum, { delivered, failed }) => sum + delivered + failed, 0)
  const good = buckets.reduce((sum, { delivered }) => sum + delivered, 0)
  const most = Math.max(0, ...buckets.map(({ delivered, failed }) => delivered + failed))
  const slowest = Math.max(0, ...buckets.map(({ slow_ms }) => slow_ms ?? 0))
  const axisLabels = [labelOf(buckets[0]), "now"] as const
  return (
    <div className="plots">
      <Plot
        caption="Attempts per hour"
        summary={
          total === 0
            ? "none in the last 48 hours"
            : `${percent(good, total)} of ${total.toLocaleString("en")} succeeded`
        }
        axisLabels={axisLabels}
        maxLabel={most === 0 ? "" : most.toLocaleString("en")}
        legend={["succeeded", "failed"]}
        columns={buckets.map((bucket): PlotColumn => ({
          key: labelOf(bucket),
          label: labelOf(bucket),
          value: bucket.delivered + bucket.failed,
          bad: bucket.failed,
          text: `${bucket.delivered} succeeded, ${bucket.failed} failed`
        }))}
      />
      <Plot
        caption="Attempt duration (95th percentile)"
        summary=""
        maxLabel={slowest === 0 ? "" : milliseconds(slowest)}
        axisLabels={axisLabels}
        columns={buckets.map((bucket): PlotColumn => ({
          key: labelOf(bucket),
          label: labelOf(bucket),
          value: bucket.slow_ms,
          text: `${milliseconds(bucket.slow_ms ?? 0)}, median ${milliseconds(bucket.median_ms ?? 0)}`
        }))}
      />
    </div>
  )
}

const labelOf = (bucket: HealthBucket | undefined): string =>
  bucket === undefined ? "" : hour.format(DateTime.toEpochMillis(bucket.at))

const percent = (part: number, whole: number): string =>
  `${(Math.floor((part / whole) * 1_000) / 10).toLocaleString("en")} %`

const milliseconds = (value: number): string =>
  value < 1_000 ? `${value} ms` : `${(value / 1_000).toLocaleString("en", { maximumFractionDigits: 1 })} s`
