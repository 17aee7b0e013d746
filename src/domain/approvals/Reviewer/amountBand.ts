import { BigDecimal, type Schema } from "effect"
import { amountOf } from "../budgetUse.ts"
import { pointerSegments, resolvePointer } from "../CompiledRules/resolvePointer.ts"
import type { ReviewerAmount, ReviewerBand } from "../Reviewer.ts"

/** The number of the band of a step's amount; -1: the arguments have no amount where it is looked for. Without bands it is 0. */
export const amountBand = (amount: ReviewerAmount | null, args: Schema.Json | undefined): number => {
  if (amount === null) return 0
  const value = amountOf(resolvePointer(args, pointerSegments(amount.pointer)))
  if (value === undefined) return -1
  const number = BigDecimal.toNumberUnsafe(value)
  const band = amount.bounds.findIndex((bound) => number <= bound)
  return band < 0 ? amount.bounds.length : band
}

/** The band with a number; null without bands, or without an amount. */
export const bandAt = (amount: ReviewerAmount | null, band: number): ReviewerBand | null =>
  amount === null || band < 0
    ? null
    : { above: amount.bounds[band - 1] ?? null, up_to: amount.bounds[band] ?? null }
