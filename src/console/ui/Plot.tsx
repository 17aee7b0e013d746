import { type ReactNode, useId } from "react"

/** One bar of a bar chart over time. */
export interface PlotColumn {
  readonly key: string
  /** Shown in the tooltip and in the table for screen readers. */
  readonly label: string
  readonly value: number | null
  /** The part of `value` that counts failures, drawn at the top of the bar. */
  readonly bad?: number
  readonly text: string
}

const WIDTH = 480
const HEIGHT = 96

/** A bar chart over time, with the same data as a table for screen readers. */
export const Plot = ({
  axisLabels,
  caption,
  columns,
  legend,
  maxLabel,
  summary
}: {
  readonly caption: string
  readonly columns: ReadonlyArray<PlotColumn>
  /** The labels at both ends of the time axis. */ readonly axisLabels: readonly [string, string]
  /** A one-line summary of the bars. */ readonly summary: ReactNode
  /** The value at the full height of the chart. */ readonly maxLabel: string
  /** The legend of bars with two parts: successes and failures. */ readonly legend?: readonly [
    string,
    string
  ]
}) => {
  const id = useId()
  const highest = Math.max(1e-9, ...columns.map(({ value }) => value ?? 0))
  const step = WIDTH / Math.max(1, columns.length)
  return (
    <figure className="plot" aria-labelledby={id}>
      <figcaption id={id}>
        <span>{caption}</span>
        <span className="quiet">{summary}</span>
      </figcaption>
      <div className="plot-area">
        <span className="plot-high quiet" aria-hidden="true">
          {maxLabel}
        </span>
        <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
          <line x1="0" x2={WIDTH} y1="4" y2="4" className="plot-height" />
          <line x1="0" x2={WIDTH} y1={HEIGHT - 0.5} y2={HEIGHT - 0.5} className="plot-axis" />
          {columns.map(({ bad = 0, key, label, text, value }, index) => {
            if (value === null || value === 0) return null
            const height = Math.max(2, (value / highest) * (HEIGHT - 4))
            const badHeight = bad === 0 ? 0 : Math.max(2, (bad / highest) * (HEIGHT - 4))
            const width = Math.max(1, step - 2)
            return (
              <g key={key}>
                <title>{`${label}: ${text}`}</title>
                <rect
                  x={index * step + 1}
                  y={HEIGHT - height}
                  width={width}
                  height={height}
                  className="plot-good"
                />
                {badHeight === 0 ? null : (
                  <rect
                    x={index * step + 1}
                    y={HEIGHT - height}
                    width={width}
                    height={badHeight}
                    className="plot-bad"
                  />
                )}
              </g>
            )
          })}
        </svg>
      </div>
      <div className="plot-foot quiet" aria-hidden="true">
        <span>{axisLabels[0]}</span>
        {legend === undefined ? null : (
          <span className="plot-parts">
            <span className="plot-part good">{legend[0]}</span>
            <span className="plot-part bad">{legend[1]}</span>
          </span>
        )}
        <span>{axisLabels[1]}</span>
      </div>
      <table className="visually-hidden">
        <caption>{caption}</caption>
        <tbody>
          {columns
            .filter(({ value }) => value !== null && value > 0)
            .map(({ key, label, text }) => (
              <tr key={key}>
                <th scope="row">{label}</th>
                <td>{text}</td>
              </tr>
            ))}
        </tbody>
      </table>
    </figure>
  )
}
