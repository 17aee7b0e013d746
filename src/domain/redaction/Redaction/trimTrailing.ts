/**
 * A text without the signs at its end that are among these. Not by an expression: `/[.,:]+$/` begins anew at each sign of a run that does
 * not reach the end, so that its time grows with the square of the run.
 */
export const trimTrailing = (text: string, signs: string): string => {
  let end = text.length
  while (end > 0 && signs.includes(text.charAt(end - 1))) end--
  return text.slice(0, end)
}
