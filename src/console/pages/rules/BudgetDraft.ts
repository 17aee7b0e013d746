/** Budgets of a rule while they are edited. */
import { Result, Schema } from "effect"
import { BudgetScope, RuleBudget } from "../../../domain/approvals/RuleBudget.ts"

/** A budget as its form fields have it. */
export const BudgetDraft = Schema.Struct({
  key: Schema.Number,
  per: BudgetScope,
  window_seconds: Schema.Number,
  /** Empty: no limit. */
  count: Schema.String,
  /** The pointer and the limit of the sum; both empty: no limit. */
  pointer: Schema.String,
  at_most: Schema.String,
  /** JSON Pointers, one per line. */
  by: Schema.String
})
export type BudgetDraft = typeof BudgetDraft.Type

/** A new budget: a number of steps a day, for each session. */
export const newBudgetDraft = (key: number): BudgetDraft => ({
  key,
  per: "session",
  window_seconds: 86_400,
  count: "",
  pointer: "",
  at_most: "",
  by: ""
})

export const toBudgetDraft = (
  { by, count, per, sum, window_seconds }: RuleBudget,
  key: number
): BudgetDraft => ({
  key,
  per,
  window_seconds,
  count: count === null ? "" : String(count),
  pointer: sum?.pointer ?? "",
  at_most: sum === null ? "" : String(sum.at_most),
  by: by.join("\n")
})

const decode = Schema.decodeUnknownResult(RuleBudget)

/** The budget, or the fault to show. */
export const fromBudgetDraft = (draft: BudgetDraft): Result.Result<RuleBudget, string> => {
  const { at_most, by, count, per, pointer, window_seconds } = draft
  if (count.trim() === "" && at_most.trim() === "")
    return Result.fail("Set a number of steps, a sum, or both.")
  if (pointer !== "" && at_most.trim() === "") return Result.fail("Set the largest sum.")
  const budget = {
    per,
    window_seconds,
    count: count.trim() === "" ? null : Number(count),
    sum: at_most.trim() === "" ? null : { pointer, at_most: Number(at_most) },
    by: by.split("\n").flatMap((line) => (line.trim() === "" ? [] : [line.trim()]))
  }
  return Result.mapError(decode(budget), ({ message }) => message)
}
