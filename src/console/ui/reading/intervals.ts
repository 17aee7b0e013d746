/** Disjoint intervals in ascending order, such as the lines of a text that were on the screen, in pixels. */
export type Intervals = ReadonlyArray<readonly [from: number, to: number]>

/** The most pixels between two intervals that count as one: positions are rounded. */
const TOLERANCE = 1

/** Adds an interval, and joins it with those that it meets. */
export const addInterval = (intervals: Intervals, from: number, to: number): Intervals => {
  if (to <= from) return intervals
  const before = intervals.filter(([, end]) => end < from - TOLERANCE)
  const after = intervals.filter(([start]) => start > to + TOLERANCE)
  const joined = intervals.slice(before.length, intervals.length - after.length)
  return [
    ...before,
    [Math.min(from, joined[0]?.[0] ?? from), Math.max(to, joined.at(-1)?.[1] ?? to)],
    ...after
  ]
}

/** The intervals before a position. */
export const before = (intervals: Intervals, end: number): Intervals =>
  intervals.flatMap(([from, to]) => (from < end ? [[from, Math.min(to, end)] as const] : []))

/** The first position from 0 to `end` that no interval covers; undefined if they cover everything. */
export const firstUncovered = (intervals: Intervals, end: number): number | undefined => {
  const [first] = intervals
  const from = first === undefined || first[0] > TOLERANCE ? 0 : first[1]
  return from >= end - TOLERANCE ? undefined : from
}
