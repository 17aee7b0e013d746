/** A piece of a text: `start` inclusive, `end` exclusive, in UTF-16 code units. */
export interface TextRange {
  readonly start: number
  readonly end: number
}

/** The pieces in order, those that touch or overlap made one. */
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

/** The text with each piece replaced. The pieces are in order and apart. */
export const replaceRanges = (text: string, spans: ReadonlyArray<TextRange>, replacement: string): string => {
  let result = ""
  let from = 0
  for (const { end, start } of spans) {
    result += text.slice(from, start) + replacement
    from = end
  }
  return result + text.slice(from)
}
