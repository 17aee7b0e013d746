import { type ReactNode, useId } from "react"

/** A row of columns over time: each with its height, its label and, where it has two parts, the part at its top. */
export interface PlotColumn {
  readonly key: string
  /** Said on pointing at it and in the table for those who do not see it. */
  readonly label: string
  readonly value: number | null
  /** Of the value, the part that is bad. */
  readonly bad?: number
  readonly text: string
}

const WIDTH = 480
const HEIGHT = 96

/** Columns over time, with the same as a table for who cannot see them. */
export const Plot = ({
  caption,
  columns,
  foot,
  high,
  parts,
  top
}: {
  readonly caption: string
  readonly columns: ReadonlyArray<PlotColumn>
  /** What stands at the two ends of the axis. */
  readonly foot: readonly [string, string]
  /** What the columns come to, in words. */
  readonly top: ReactNode
  /** What the full height is. */
  readonly high: string
  /** What the two parts of a column are: the whole of it, and the bad at its top. */
  readonly parts?: readonly [string, string]
}) => {
  const id = useId()
  const highest = Math.max(1e-9, ...columns.map(({ value }) => value ?? 0))
  const step = WIDTH / Math.max(1, columns.length)
  return (
    <figure className="plot" aria-labelledby={id}>
      <figcaption id={id}>
        <span>{caption}</span>
        <span className="quiet">{top}</span>
      </figcaption>
      <div className="plot-area">
        <span className="plot-high quiet" aria-hidden="true">
          {high}
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
        <span>{foot[0]}</span>
        {parts === undefined ? null : (
          <span className="plot-parts">
            <span className="plot-part good">{parts[0]}</span>
            <span className="plot-part bad">{parts[1]}</span>
          </span>
        )}
        <span>{foot[1]}</span>
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
