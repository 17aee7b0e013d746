/** The colours of a chart; each is a token in `styles/tokens.css`. */
export type ChartTone = "first" | "second" | "third" | "fourth" | "good" | "bad" | "wait"

/** The meaning of one colour of a chart. */
export interface ChartSeries {
  readonly name: string
  readonly tone: ChartTone
}

/** One place on the horizontal axis. */
export interface ChartPoint {
  readonly key: string
  /** Names the point on the axis, in the readout and in the table. */
  readonly label: string
  /** One value per series; null: there is none. */
  readonly values: ReadonlyArray<number | null>
  /** A page of the console that lists the counted records. */
  readonly to?: string | undefined
}

/** A named place on the horizontal axis, such as a release. */
export interface ChartMark {
  /** Index of the point. */
  readonly at: number
  readonly label: string
}

/** Formats a value of a chart for its axis, readout and table. */
export type FormatValue = (value: number) => string

const formatCount: FormatValue = (value) => value.toLocaleString("en", { maximumFractionDigits: 2 })

/** The data of a chart. */
export interface ChartData {
  readonly series: ReadonlyArray<ChartSeries>
  readonly points: ReadonlyArray<ChartPoint>
  readonly marks: ReadonlyArray<ChartMark>
  readonly format: FormatValue
  /** Formats the values of the grid lines, in some eight characters. */
  readonly formatAxis: FormatValue
}

/** Chart data with defaults: counts without marks. */
export const chartData = ({
  format = formatCount,
  formatAxis = format,
  marks = [],
  points,
  series
}: Pick<ChartData, "series" | "points"> &
  Partial<Pick<ChartData, "marks" | "format" | "formatAxis">>): ChartData => ({
  series,
  points,
  marks,
  format,
  formatAxis
})

/** The text of a value; `none` if there is none. */
export const valueText = (value: number | null | undefined, format: FormatValue): string =>
  value === null || value === undefined ? "none" : format(value)

/** The values of a point as a sentence: `3 approved, 1 rejected`. */
export const pointText = ({ format, marks, points, series }: ChartData, index: number): string => {
  const point = points[index]
  if (point === undefined) return ""
  const values = series.map(({ name }, position) => `${valueText(point.values[position], format)} ${name}`)
  return [...values, ...marks.filter(({ at }) => at === index).map(({ label }) => label)].join(", ")
}
