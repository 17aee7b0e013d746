/** The quantile of the normal distribution for 95 of 100. */
const Z = 1.959963984540054

/** Where a share lies, with 95 % confidence. */
export interface Interval {
  readonly low: number
  readonly high: number
}

/**
 * The score interval of a share of `count` in `of` (Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", 1927;
 * the form in Newcombe, "Two-sided confidence intervals for the single proportion", Statistics in Medicine 17, 1998, method 3). It
 * holds for few trials and for shares near 0 and 1, where the usual one fails. Of no trials it is 0 to 1.
 */
export const wilsonInterval = (count: number, of: number): Interval => {
  if (of === 0) return { low: 0, high: 1 }
  const share = count / of
  const square = Z * Z
  const middle = 2 * count + square
  const spread = Z * Math.sqrt(square + 4 * count * (1 - share))
  const scale = 2 * (of + square)
  // The ends are exact where rounding would leave a trace.
  return {
    low: count === 0 ? 0 : (middle - spread) / scale,
    high: count === of ? 1 : (middle + spread) / scale
  }
}

/** How two judges of the same trials agree: both say yes, only the first, only the second, neither. */
interface Paired {
  readonly both: number
  readonly first: number
  readonly second: number
  readonly neither: number
}

/**
 * The difference between two shares of the same trials, first less second (Newcombe, "Improved confidence intervals for the difference
 * between binomial proportions based on paired data", Statistics in Medicine 17, 1998, method 10): the two score intervals put
 * together by their correlation, with the correction for continuity that the paper gives it.
 */
export const pairedDifference = ({
  both,
  first,
  neither,
  second
}: Paired): Interval & { readonly value: number } => {
  const of = both + first + second + neither
  if (of === 0) return { value: 0, low: -1, high: 1 }
  const p1 = (both + first) / of
  const p2 = (both + second) / of
  const one = wilsonInterval(both + first, of)
  const two = wilsonInterval(both + second, of)
  const margins = (both + first) * (second + neither) * (both + second) * (first + neither)
  const product = both * neither - first * second
  const corrected = product > of / 2 ? product - of / 2 : product >= 0 ? 0 : product
  const phi = margins === 0 ? 0 : corrected / Math.sqrt(margins)
  const reach = (up: number, down: number) =>
    Math.sqrt(Math.max(0, up * up - 2 * phi * up * down + down * down))
  return {
    value: p1 - p2,
    low: p1 - p2 - reach(p1 - one.low, two.high - p2),
    high: p1 - p2 + reach(one.high - p1, p2 - two.low)
  }
}
