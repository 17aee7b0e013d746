import type { ChartTone } from "./ChartData.ts"
import { sparkGeometry } from "./chartGeometry.ts"

const SIZE = { width: 96, height: 24 }

/** A small line without axes, for a cell of a table. `label`: its meaning, as text for screen readers. */
export const Sparkline = ({
  label,
  tone = "first",
  values
}: {
  /** Such as `Deliveries per hour, 12 in the last hour`. */
  readonly label: string
  readonly values: ReadonlyArray<number | null>
  readonly tone?: ChartTone
}) => {
  const geometry = sparkGeometry(values, SIZE)
  return (
    <svg
      className={`sparkline chart-line tone-${tone}`}
      viewBox={`0 0 ${SIZE.width} ${SIZE.height}`}
      role="img"
      aria-label={label}
    >
      {geometry === undefined ? null : (
        <>
          <path d={geometry.path} />
          <circle cx={geometry.last.x} cy={geometry.last.y} r={2} />
        </>
      )}
    </svg>
  )
}
