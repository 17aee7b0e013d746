/** Length of a searched part of a long text, in UTF-16 code units. */
const WINDOW = 64 * 1024

/** Length that two parts have in common: longer than any secret except known values of an extreme length. */
const OVERLAP = 16 * 1024

/** A part of a text: `start` inclusive, `end` exclusive. */
export interface TextWindow {
  readonly start: number
  readonly end: number
}

/**
 * Splits a text into overlapping parts that are searched one by one, so that the caller can yield in between. A part
 * begins at the start of a word or of a run of Base64, or within a long run at a multiple of four characters, so that
 * the run decodes.
 */
export const textWindows = (text: string): ReadonlyArray<TextWindow> => {
  if (text.length <= WINDOW) return [{ start: 0, end: text.length }]
  const windows: Array<TextWindow> = []
  for (let start = 0; ;) {
    const end = Math.min(start + WINDOW, text.length)
    windows.push({ start, end })
    if (end === text.length) return windows
    start = windowStart(text, start, end - OVERLAP)
  }
}

/** The start of the next part, at or before `at`. */
const windowStart = (text: string, previous: number, at: number): number => {
  let runStart = at
  while (runStart > previous && isRunCode(text.charCodeAt(runStart - 1))) runStart--
  // A run from before the middle of the part would be searched again and again.
  return runStart > previous + WINDOW / 2 ? runStart : at - ((at - runStart) % 4)
}

/** Letters, digits and signs of Base64 and of tokens. */
const isRunCode = (code: number): boolean =>
  (code >= 0x30 && code <= 0x39) ||
  (code >= 0x41 && code <= 0x5a) ||
  (code >= 0x61 && code <= 0x7a) ||
  code === 0x2b || // +
  code === 0x2d || // -
  code === 0x2f || // /
  code === 0x5f // _
