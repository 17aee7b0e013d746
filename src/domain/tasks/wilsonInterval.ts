/** Quantile of the standard normal distribution for a two-sided 95 % interval. */
const Z = 1.959963984540054

/** A 95 % confidence interval. */
export interface Interval {
  readonly low: number
  readonly high: number
}

/**
 * The score interval of a proportion, `count` of `of` (Wilson, "Probable Inference, the Law of Succession, and
 * Statistical Inference", 1927; as in Newcombe, "Two-sided confidence intervals for the single proportion", Statistics
 * in Medicine 17, 1998, method 3). Unlike the usual Wald interval it is accurate for few trials and for proportions
 * near 0 and 1. Without trials it is 0 to 1.
 */
export const wilsonInterval = (count: number, of: number): Interval => {
  if (of === 0) return { low: 0, high: 1 }
  const share = count / of
  const square = Z * Z
  const middle = 2 * count + square
  const spread = Z * Math.sqrt(square + 4 * count * (1 - share))
  const scale = 2 * (of + square)
  // Exact at 0 and 1, where rounding would leave a remainder.
  return {
    low: count === 0 ? 0 : (middle - spread) / scale,
    high: count === of ? 1 : (middle + spread) / scale
  }
}

/** Paired binary results of the same trials: both succeed, only the first, only the second, neither. */
interface PairedCounts {
  readonly both: number
  readonly first: number
  readonly second: number
  readonly neither: number
}

/**
 * The difference of two paired proportions, first minus second, with its confidence interval: the two score intervals combined by their
 * correlation, with the continuity correction of the paper. Source: Newcombe, "Improved confidence intervals for the difference between
 * binomial proportions based on paired data", Statistics in Medicine 17, 1998, method 10.
 */
export const pairedDifference = ({
  both,
  first,
  neither,
  second
}: PairedCounts): Interval & { readonly value: number } => {
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
  const margin = (up: number, down: number) =>
    Math.sqrt(Math.max(0, up * up - 2 * phi * up * down + down * down))
  return {
    value: p1 - p2,
    low: p1 - p2 - margin(p1 - one.low, two.high - p2),
    high: p1 - p2 + margin(one.high - p1, p2 - two.low)
  }
}

/** A number of successes of independent trials. */
export interface Trials {
  readonly count: number
  readonly of: number
}

/**
 * The difference of the shares of two independent samples, first minus second, with its confidence interval (Newcombe, "Interval estimation
 * for the difference between independent proportions", Statistics in Medicine 17, 1998, method 10): the two score intervals combined.
 */
export const independentDifference = (
  first: Trials,
  second: Trials
): Interval & { readonly value: number } => {
  if (first.of === 0 || second.of === 0) return { value: 0, low: -1, high: 1 }
  const p1 = first.count / first.of
  const p2 = second.count / second.of
  const one = wilsonInterval(first.count, first.of)
  const two = wilsonInterval(second.count, second.of)
  return {
    value: p1 - p2,
    low: p1 - p2 - Math.hypot(p1 - one.low, two.high - p2),
    high: p1 - p2 + Math.hypot(one.high - p1, p2 - two.low)
  }
}

/** Probability that an interval misses the difference. */
const ALPHA = 0.05

/** The standard deviation of the differences for which `alwaysValidDifference` is narrowest: about ten points. */
const EXPECTED_DIFFERENCE = 0.1

/**
 * Bounds of the difference of two independent shares, first minus second, that hold at all looks together with 95 %: a reader who looks after
 * every answer and stops at the first bound above 0 is wrong one time in twenty at most. The interval for one look would be wrong far more
 * often. Source: the mixture sequential probability ratio test with a normal mixture (Robbins, 1970; Johari, Pekelis, Walsh, "Always Valid
 * Inference", 2015), with the variance of shares that have one success and one failure more, so that it is never 0.
 */
export const alwaysValidDifference = (first: Trials, second: Trials): Interval => {
  if (first.of === 0 || second.of === 0) return { low: -1, high: 1 }
  const varianceOf = ({ count, of }: Trials) => {
    const share = (count + 1) / (of + 2)
    return (share * (1 - share)) / of
  }
  const variance = varianceOf(first) + varianceOf(second)
  const mixture = EXPECTED_DIFFERENCE ** 2
  const margin = Math.sqrt(
    ((variance * (variance + mixture)) / mixture) *
      (Math.log((variance + mixture) / variance) + 2 * Math.log(1 / ALPHA))
  )
  const difference = first.count / first.of - second.count / second.of
  return { low: Math.max(-1, difference - margin), high: Math.min(1, difference + margin) }
}

/** Agreeing answers to examples that were each answered several times: their number per example, summed, and its squares. */
interface RepeatedTrials {
  readonly examples: number
  readonly repeats: number
  readonly sum: number
  readonly squares: number
}

/** The variance between the examples of the share of agreeing answers. It includes the variance within repeats of one example. */
const varianceBetween = ({ examples, repeats, squares, sum }: RepeatedTrials): number =>
  squares / (repeats * repeats * examples) - (sum / (repeats * examples)) ** 2

/**
 * The score interval of a share over examples that were each answered several times. Answers to one example resemble each other, so they
 * count as fewer: as the number of independent answers that would have the observed variance between the examples, at least one per example
 * (Korn and Graubard, "Confidence intervals for proportions with small expected number of positive counts estimated from survey
 * data", Survey Methodology 24, 1998, in Wilson's interval).
 */
export const repeatedInterval = (trials: RepeatedTrials): Interval => {
  const { examples, repeats, sum } = trials
  const share = examples === 0 ? 0 : sum / (repeats * examples)
  // Every answer agrees, or none: it is known of as many inputs as there are examples.
  if (share === 0 || share === 1) return wilsonInterval(share * examples, examples)
  const variance = Math.max(varianceBetween(trials), (share * (1 - share)) / repeats)
  const independent = (share * (1 - share) * examples) / variance
  return wilsonInterval(share * independent, independent)
}

/**
 * The difference of the shares of two sides that answered the same examples several times, first minus second, with its interval: the
 * intervals of both sides, combined by the correlation of their shares, as in `pairedDifference` (Zou and Donner, "Construction of confidence limits about
 * effect measures", Statistics in Medicine 27, 2008). `products`: sum over the examples of the agreeing answers of one times the other.
 */
export const repeatedDifference = ({
  examples,
  first,
  products,
  repeats,
  second
}: {
  readonly examples: number
  readonly repeats: number
  readonly first: Pick<RepeatedTrials, "squares" | "sum">
  readonly second: Pick<RepeatedTrials, "squares" | "sum">
  readonly products: number
}): Interval & { readonly value: number } => {
  if (examples === 0) return { value: 0, low: -1, high: 1 }
  const sideOf = (side: Pick<RepeatedTrials, "squares" | "sum">) => {
    const trials = { examples, repeats, squares: side.squares, sum: side.sum }
    const share = side.sum / (repeats * examples)
    return { share, variance: varianceBetween(trials), ...repeatedInterval(trials) }
  }
  const [one, two] = [sideOf(first), sideOf(second)]
  const scale = Math.sqrt(Math.max(0, one.variance * two.variance))
  const covariance = products / (repeats * repeats * examples) - one.share * two.share
  const correlation = scale === 0 ? 0 : Math.max(-1, Math.min(1, covariance / scale))
  const margin = (up: number, down: number) =>
    Math.sqrt(Math.max(0, up * up - 2 * correlation * up * down + down * down))
  const value = one.share - two.share
  return {
    value,
    low: value - margin(one.share - one.low, two.high - two.share),
    high: value + margin(one.high - one.share, two.share - two.low)
  }
}
