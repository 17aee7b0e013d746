/** How long an answer took: `812 ms`, `4.2 s`. Empty if unknown. */
export const durationText = (millis: number | null): string => {
  if (millis === null) return ""
  if (millis < 1_000) return `${Math.round(millis)} ms`
  return `${(millis / 1_000).toLocaleString("en", { maximumFractionDigits: 1 })} s`
}
