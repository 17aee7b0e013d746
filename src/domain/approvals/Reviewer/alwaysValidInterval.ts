import type { Interval } from "../../tasks/wilsonInterval.ts"

/** The chance that the interval misses the true share at any time, however often one looks. */
const ERROR = 0.05

/** Halvings of a bisection: beyond the precision of a number. */
const HALVINGS = 60

/** The logarithm of the number of ways to choose `count` of `of`. */
const logChoices = (count: number, of: number): number => {
  let sum = 0
  for (let i = 1; i <= Math.min(count, of - count); i++) sum += Math.log((of + 1 - i) / i)
  return sum
}

/** `times * log(share)`, which is 0 without trials. */
const weighted = (times: number, share: number): number => (times === 0 ? 0 : times * Math.log(share))

/**
 * The confidence sequence of a proportion, `count` of `of`: with a chance of 95 % it contains the true share after every trial, and not only
 * after a number of trials that was chosen before. An ordinary 95 % interval that is looked at after each trial sooner or later lies above a
 * share that was never reached. A share `p` belongs to it while `(of + 1) * P(count; of, p)` is at least the error (Robbins, "Statistical
 * Methods Related to the Law of the Iterated Logarithm", Annals of Mathematical Statistics 41, 1970; Lai, "On Confidence Sequences", Annals
 * of Statistics 4, 1976). Without trials it is 0 to 1.
 */
export const alwaysValidInterval = (count: number, of: number): Interval => {
  if (of === 0) return { low: 0, high: 1 }
  const least = Math.log(ERROR) - Math.log(of + 1) - logChoices(count, of)
  const contains = (share: number) => weighted(count, share) + weighted(of - count, 1 - share) >= least
  /** The end of the interval between a share outside of it and the observed one, which is inside. */
  const end = (outside: number) => {
    let out = outside
    let inside = count / of
    for (let i = 0; i < HALVINGS; i++) {
      const middle = (out + inside) / 2
      if (contains(middle)) inside = middle
      else out = middle
    }
    // Outwards, so that the interval errs on the safe side.
    return out
  }
  return { low: count === 0 ? 0 : end(0), high: count === of ? 1 : end(1) }
}
