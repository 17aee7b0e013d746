import { type KeyboardEvent, type PointerEvent, type ReactNode, useId, useState } from "react"
import { Link, navigate } from "../../app/router.tsx"
import {
  type ChartData,
  type ChartPoint,
  type ChartSeries,
  chartData,
  pointText,
  valueText
} from "./ChartData.ts"
import { barGeometry, type ChartFrame, lineGeometry, nearestPoint } from "./chartGeometry.ts"
import { useElementWidth } from "../useElementWidth.ts"

const HEIGHT = 168

/** How values are drawn: bars stacked on each other, or one line per series. */
export type ChartKind = "bars" | "lines"

/**
 * A chart over time or over releases, with a table of the same values. The pointer or the arrow keys select a point, whose values replace
 * the summary; a click or Enter opens the list behind it.
 */
export const Chart = ({
  caption,
  firstColumn,
  format,
  formatAxis,
  kind,
  marks,
  points,
  series,
  summary
}: Pick<ChartData, "series" | "points"> &
  Partial<Pick<ChartData, "marks" | "format" | "formatAxis">> & {
    readonly caption: string
    readonly kind: ChartKind
    /** The header of the table's first column, such as `Day`. */
    readonly firstColumn: string
    /** One line beside the caption, while no point is selected. */
    readonly summary: ReactNode
  }) => {
  const id = useId()
  const [selected, setSelected] = useState<number>()
  const { measure, width } = useElementWidth()
  const data = chartData({
    series,
    points,
    ...(marks === undefined ? {} : { marks }),
    ...(format === undefined ? {} : { format }),
    ...(formatAxis === undefined ? {} : { formatAxis })
  })
  const size = { width, height: HEIGHT }
  const bars = kind === "bars" ? barGeometry(data, size) : undefined
  const lines = kind === "lines" ? lineGeometry(data, size) : undefined
  const frame = bars ?? lines
  if (frame === undefined || points.length === 0) return null
  const last = points.length - 1
  const current = selected === undefined ? undefined : points[selected]

  const onKeyDown = (event: KeyboardEvent) => {
    const next = nextPoint(event.key, selected, last)
    if (next !== undefined) {
      event.preventDefault()
      setSelected(next)
    } else if (event.key === "Escape" && selected !== undefined) {
      event.stopPropagation()
      setSelected(undefined)
    } else if (event.key === "Enter" && current?.to !== undefined) {
      navigate(current.to)
    }
  }
  const onPointerMove = ({ clientX, currentTarget }: PointerEvent) => {
    const box = currentTarget.getBoundingClientRect()
    setSelected(nearestPoint(frame.places, ((clientX - box.left) / box.width) * width))
  }

  return (
    <figure className="chart" aria-labelledby={id}>
      <figcaption>
        <span id={id}>{caption}</span>
        <span className="chart-readout quiet">
          {current === undefined || selected === undefined ? (
            summary
          ) : (
            <>
              <strong>{current.label}</strong> {pointText(data, selected)}
            </>
          )}
        </span>
      </figcaption>
      <div
        ref={measure}
        className={current?.to === undefined ? "chart-area" : "chart-area linked"}
        role="slider"
        tabIndex={0}
        aria-readonly="true"
        aria-labelledby={id}
        aria-orientation="horizontal"
        aria-valuemin={1}
        aria-valuemax={points.length}
        aria-valuenow={(selected ?? last) + 1}
        aria-valuetext={`${points[selected ?? last]?.label ?? ""}: ${pointText(data, selected ?? last)}`}
        onKeyDown={onKeyDown}
        onBlur={() => setSelected(undefined)}
        onPointerMove={onPointerMove}
        onPointerDown={onPointerMove}
        onPointerLeave={() => setSelected(undefined)}
        onClick={({ nativeEvent }) => {
          // A tap selects: there is no pointer that could show the values before.
          if (isTouch(nativeEvent) || current?.to === undefined) return
          navigate(current.to)
        }}
      >
        <svg viewBox={`0 0 ${width} ${HEIGHT}`} aria-hidden="true">
          <Grid data={data} frame={frame} />
          {selected === undefined ? null : <Selection frame={frame} at={selected} />}
          {bars?.segments.map(({ height, key, point, series: position, width: barWidth, x, y }) => (
            <rect
              key={key}
              className={`chart-fill ${toneClass(series[position])}${
                selected === undefined || selected === point ? "" : " faded"
              }`}
              x={x}
              y={y}
              width={barWidth}
              height={height}
            />
          ))}
          {lines?.lines.map(({ dots, path, series: position }) => (
            <g key={position} className={`chart-line ${toneClass(series[position])}`}>
              <path d={path} />
              {dots.map(({ point, x, y }) => (
                <circle key={point} cx={x} cy={y} r={point === selected ? 4.5 : 2.5} />
              ))}
            </g>
          ))}
        </svg>
      </div>
      {series.length < 2 ? null : (
        <ul className="chart-legend">
          {series.map((one) => (
            <li key={one.name}>
              <svg className="chart-key" viewBox="0 0 10 10" aria-hidden="true">
                <rect className={`chart-fill ${toneClass(one)}`} width="10" height="10" rx="2" />
              </svg>
              {one.name}
            </li>
          ))}
        </ul>
      )}
      <ChartTable caption={caption} data={data} firstColumn={firstColumn} />
    </figure>
  )
}

const toneClass = (series: ChartSeries | undefined): string => `tone-${series?.tone ?? "first"}`

const isTouch = (event: Event): boolean => event instanceof PointerEvent && event.pointerType === "touch"

/** The point that a key selects; undefined for keys that select none. */
const nextPoint = (key: string, selected: number | undefined, last: number): number | undefined => {
  switch (key) {
    case "ArrowRight":
    case "ArrowUp":
      return selected === undefined ? last : Math.min(last, selected + 1)
    case "ArrowLeft":
    case "ArrowDown":
      return selected === undefined ? last : Math.max(0, selected - 1)
    case "Home":
      return 0
    case "End":
      return last
    default:
      return undefined
  }
}

const Grid = ({ data, frame }: { readonly data: ChartData; readonly frame: ChartFrame }) => (
  <>
    {frame.grid.map(({ value, y }) => (
      <g key={value}>
        <line
          className={value === 0 ? "chart-axis" : "chart-grid"}
          x1={frame.left}
          x2={frame.right}
          y1={y}
          y2={y}
        />
        <text className="chart-text" x={frame.right + 6} y={y + 4}>
          {data.formatAxis(value)}
        </text>
      </g>
    ))}
    {frame.places.map(({ hasLabel, x }, index) =>
      hasLabel ? (
        <text
          key={data.points[index]?.key}
          className="chart-text"
          x={Math.max(frame.left, Math.min(frame.right, x))}
          y={frame.bottom + 15}
          textAnchor={anchorOf(x, frame)}
        >
          {data.points[index]?.label}
        </text>
      ) : null
    )}
    {data.marks.map(({ at, label }) => {
      const x = frame.places[at]?.x
      return x === undefined ? null : (
        <g key={`${at} ${label}`} className="chart-mark">
          <line x1={x} x2={x} y1={frame.top} y2={frame.bottom} />
          <path d={`M${x - 4},${frame.top - 6}h8l-4,6z`} />
        </g>
      )
    })}
  </>
)

/** Half of a label: nearer to an end of the axis, the label begins or ends there. */
const HALF_LABEL = 36

const anchorOf = (x: number, { left, right }: ChartFrame): "start" | "middle" | "end" => {
  if (x < left + HALF_LABEL) return "start"
  return x > right - HALF_LABEL ? "end" : "middle"
}

const Selection = ({ at, frame }: { readonly at: number; readonly frame: ChartFrame }) => {
  const x = frame.places[at]?.x
  return x === undefined ? null : (
    <line className="chart-selection" x1={x} x2={x} y1={frame.top} y2={frame.bottom} />
  )
}

/** The values of a chart as a table, closed until it is opened. */
const ChartTable = ({
  caption,
  data,
  firstColumn
}: {
  readonly caption: string
  readonly data: ChartData
  readonly firstColumn: string
}) => {
  const hasMarks = data.marks.length > 0
  return (
    <details className="chart-table">
      <summary>
        Table<span className="visually-hidden">: {caption}</span>
      </summary>
      <div className="table-scroll">
        <table className="table">
          <thead>
            <tr>
              <th scope="col">{firstColumn}</th>
              {data.series.map(({ name }) => (
                <th key={name} scope="col" className="number">
                  {name}
                </th>
              ))}
              {hasMarks ? <th scope="col">Event</th> : null}
            </tr>
          </thead>
          <tbody>
            {data.points.map((point, index) => (
              <tr key={point.key}>
                <th scope="row">
                  <PointLabel point={point} />
                </th>
                {data.series.map(({ name }, position) => (
                  <td key={name} className="number">
                    {valueText(point.values[position], data.format)}
                  </td>
                ))}
                {hasMarks ? (
                  <td>
                    {data.marks
                      .filter(({ at }) => at === index)
                      .map(({ label }) => label)
                      .join(", ")}
                  </td>
                ) : null}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  )
}

const PointLabel = ({ point }: { readonly point: ChartPoint }) =>
  point.to === undefined ? point.label : <Link to={point.to}>{point.label}</Link>
