/** Length of a part in which matches begin: a search takes a few milliseconds, also in an adversarial text. */
const PART = 8 * 1024

/** Lengths that an expression inspects before the start of a match, and from its start to its end. */
export interface Extent {
  readonly before: number
  readonly reach: number
}

/** The first match of a global expression at or after an index. */
export const execFrom = (expression: RegExp, text: string, from: number): RegExpExecArray | null => {
  // Not kept in the expression, which other searches use while this one is interrupted.
  expression.lastIndex = from
  return expression.exec(text)
}

/**
 * Finds the first match of a global expression at or after an index, part by part: yields between two parts, because a
 * search that finds nothing cannot be interrupted. A match that is longer than `reach` may be missed in a long text.
 */
export function* execInParts(
  expression: RegExp,
  text: string,
  from: number,
  { before, reach }: Extent
): Generator<void, RegExpExecArray | null> {
  for (let start = from; ; start += PART) {
    if (text.length - start <= PART + reach) return execFrom(expression, text, start)
    const offset = Math.max(0, start - before)
    const match = execFrom(expression, text.slice(offset, start + PART + reach), start - offset)
    if (match !== null && offset + match.index < start + PART) {
      match.index += offset
      return match
    }
    yield
  }
}
