/** A range of a text: `start` inclusive, `end` exclusive, in UTF-16 code units. */
export interface TextRange {
  readonly start: number
  readonly end: number
}

/** Returns the ranges in order, with touching and overlapping ranges merged. */
export const mergeRanges = (spans: ReadonlyArray<TextRange>): ReadonlyArray<TextRange> => {
  if (spans.length < 2) return spans
  const result: Array<TextRange> = []
  for (const span of spans.toSorted((left, right) => left.start - right.start)) {
    const last = result.at(-1)
    if (last !== undefined && span.start <= last.end) {
      if (span.end > last.end) result[result.length - 1] = { start: last.start, end: span.end }
    } else result.push(span)
  }
  return result
}

/** Replaces each range. The ranges must be in order and disjoint. */
export const replaceRanges = (text: string, spans: ReadonlyArray<TextRange>, replacement: string): string => {
  let result = ""
  let from = 0
  for (const { end, start } of spans) {
    result += text.slice(from, start) + replacement
    from = end
  }
  return result + text.slice(from)
}
