/** The geometry of charts, in pixels of the drawing. Scales, stacks and paths are d3's. */
import { scaleBand, scaleLinear, scalePoint } from "d3-scale"
import { line, stack } from "d3-shape"
import type { ChartData } from "./ChartData.ts"

/** The size of a drawing, and the space that its axes take. */
export interface ChartSize {
  readonly width: number
  readonly height: number
}

const TOP = 10
const BOTTOM = 20
const LEFT = 4
/** Space for the labels of the vertical axis. */
const RIGHT = 52

/** Grid lines; d3 takes a round step near it. */
const GRID_LINES = 3

/** Space for a label of the horizontal axis: half more than the longest, because the outer ones are beside their points, not under them. */
const LABEL_WIDTH = 145

/** The part of a bar's place that stays empty. */
const BAR_PADDING = 0.2

/** A grid line with its label. */
export interface GridLine {
  readonly y: number
  readonly value: number
}

/** The place of a point on the horizontal axis. */
export interface PointPlace {
  /** The middle. */
  readonly x: number
  readonly hasLabel: boolean
}

/** What bars and lines have in common. */
export interface ChartFrame {
  readonly left: number
  readonly right: number
  readonly top: number
  readonly bottom: number
  readonly grid: ReadonlyArray<GridLine>
  readonly places: ReadonlyArray<PointPlace>
}

/** A segment of a stacked bar. */
export interface BarSegment {
  readonly key: string
  readonly series: number
  readonly point: number
  readonly x: number
  readonly y: number
  readonly width: number
  readonly height: number
}

/** A line of a chart: its path, interrupted where there is no value, and its dots. */
export interface ChartLine {
  readonly series: number
  readonly path: string
  readonly dots: ReadonlyArray<{ readonly point: number; readonly x: number; readonly y: number }>
}

const highest = (values: Iterable<number | null>): number => {
  let most = 0
  for (const value of values) if (value !== null && value > most) most = value
  return most
}

/** The vertical scale from 0 to a round number above the highest value; to 1 if all values are 0. */
const verticalScale = (most: number, height: number) =>
  scaleLinear()
    .domain([0, most === 0 ? 1 : most])
    .range([height - BOTTOM, TOP])
    .nice(GRID_LINES)

type VerticalScale = ReturnType<typeof verticalScale>

const frameOf = (
  { points }: ChartData,
  { height, width }: ChartSize,
  scale: VerticalScale,
  middle: (key: string) => number
): ChartFrame => {
  // There is no half approval.
  const hasCounts = points.every(({ values }) => values.every((value) => Number.isInteger(value ?? 0)))
  const every = Math.max(1, Math.ceil(points.length / Math.max(1, Math.floor(width / LABEL_WIDTH))))
  return {
    left: LEFT,
    right: width - RIGHT,
    top: TOP,
    bottom: height - BOTTOM,
    grid: scale
      .ticks(GRID_LINES)
      .filter((value) => !hasCounts || Number.isInteger(value))
      .map((value) => ({ value, y: scale(value) })),
    // Counted from the end, so that the newest point has a label.
    places: points.map(({ key }, index) => ({
      x: middle(key),
      hasLabel: (points.length - 1 - index) % every === 0
    }))
  }
}

/** The geometry of stacked bars. */
export const barGeometry = (
  data: ChartData,
  size: ChartSize
): ChartFrame & { readonly segments: ReadonlyArray<BarSegment> } => {
  const { points, series } = data
  const scale = verticalScale(
    highest(points.map(({ values }) => values.reduce<number>((sum, value) => sum + (value ?? 0), 0))),
    size.height
  )
  const band = scaleBand()
    .domain(points.map(({ key }) => key))
    .range([LEFT, size.width - RIGHT])
    .paddingInner(BAR_PADDING)
  const width = Math.max(1, band.bandwidth())
  const layers = stack<(typeof points)[number], number>()
    .keys(series.map((_, index) => index))
    .value(({ values }, index) => values[index] ?? 0)(points)
  const segments = layers.flatMap((layer) =>
    layer.flatMap(([from, to], point): ReadonlyArray<BarSegment> => {
      const key = points[point]?.key ?? ""
      if (to <= from) return []
      const y = scale(to)
      return [
        {
          key: `${layer.key} ${key}`,
          series: layer.key,
          point,
          x: band(key) ?? LEFT,
          y,
          width,
          // A value that is much smaller than the highest one stays visible.
          height: Math.max(1, scale(from) - y)
        }
      ]
    })
  )
  return {
    ...frameOf(data, size, scale, (key) => (band(key) ?? LEFT) + band.bandwidth() / 2),
    segments
  }
}

/** The geometry of lines. */
export const lineGeometry = (
  data: ChartData,
  size: ChartSize
): ChartFrame & { readonly lines: ReadonlyArray<ChartLine> } => {
  const { points, series } = data
  const scale = verticalScale(highest(points.flatMap(({ values }) => values)), size.height)
  const place = scalePoint()
    .domain(points.map(({ key }) => key))
    .range([LEFT, size.width - RIGHT])
    .padding(0.5)
  const x = (key: string) => place(key) ?? LEFT
  const lines = series.map((_, index): ChartLine => {
    const path = line<(typeof points)[number]>()
      .defined(({ values }) => typeof values[index] === "number")
      .x(({ key }) => x(key))
      .y(({ values }) => scale(values[index] ?? 0))
    return {
      series: index,
      path: path(points) ?? "",
      dots: points.flatMap(({ key, values }, point) => {
        const value = values[index]
        return typeof value === "number" ? [{ point, x: x(key), y: scale(value) }] : []
      })
    }
  })
  return { ...frameOf(data, size, scale, x), lines }
}

/** The path of a sparkline in a drawing of this size, and its last point; undefined without values. */
export const sparkGeometry = (
  values: ReadonlyArray<number | null>,
  { height, width }: ChartSize
): { readonly path: string; readonly last: { readonly x: number; readonly y: number } } | undefined => {
  const most = highest(values)
  const scaleX = scaleLinear()
    .domain([0, Math.max(1, values.length - 1)])
    .range([2, width - 2])
  const scaleY = scaleLinear()
    .domain([0, most === 0 ? 1 : most])
    .range([height - 2, 2])
  const path = line<number | null>()
    .defined((value) => value !== null)
    .x((_, index) => scaleX(index))
    .y((value) => scaleY(value ?? 0))
  const at = values.findLastIndex((value) => value !== null)
  return at === -1
    ? undefined
    : { path: path(values) ?? "", last: { x: scaleX(at), y: scaleY(values[at] ?? 0) } }
}

/** The index of the point that is nearest to a horizontal position. */
export const nearestPoint = (places: ReadonlyArray<PointPlace>, x: number): number | undefined => {
  let nearest: number | undefined
  let distance = Infinity
  for (const [index, place] of places.entries()) {
    const away = Math.abs(place.x - x)
    if (away < distance) {
      nearest = index
      distance = away
    }
  }
  return nearest
}
