/**
 * Removes trailing characters of a set. Not a regular expression: `/[.,:]+$/` starts again at each sign of a run that does not reach the
 * end, in quadratic time.
 */
export const trimTrailing = (text: string, signs: string): string => {
  let end = text.length
  while (end > 0 && signs.includes(text.charAt(end - 1))) end--
  return text.slice(0, end)
}
