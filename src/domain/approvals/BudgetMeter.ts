import type { BigDecimal, Schema } from "effect"
import type { RuleId } from "../Ids.ts"
import type { RuleBudget } from "./RuleBudget.ts"
import { amountOf, type BudgetUse, type ExceededBudget, findExceeded, usedOf, ZERO } from "./budgetUse.ts"
import { pointerSegments, resolvePointer, UNREACHABLE } from "./CompiledRules/resolvePointer.ts"

/** A budget of a rule, prepared for many steps. */
export interface CompiledBudget {
  readonly budget: RuleBudget
  /** The part of the counter's name that is the same for all steps. */
  readonly name: string
  readonly sum: ReadonlyArray<string> | undefined
  readonly by: ReadonlyArray<ReadonlyArray<string>>
}

/**
 * Prepares a budget. A counter is named by its rule and by everything that decides which steps are added, and which of them still count, but
 * not by the limits: a rule that is stored with another limit goes on counting.
 */
export const compileBudget = (budget: RuleBudget): CompiledBudget => {
  const { by, per, sum, window_seconds } = budget
  return {
    budget,
    name: JSON.stringify([per, window_seconds, sum?.pointer ?? null, ...by]),
    sum: sum === null ? undefined : pointerSegments(sum.pointer),
    by: by.map(pointerSegments)
  }
}

/** The use of one budget by a step. */
export interface BudgetSpend {
  readonly budget: RuleBudget
  /** The name of the counter, unique in its organization. It can be long: it contains values of the arguments. */
  readonly counter: string
  /** Its number; zero for a budget without `sum`. */
  readonly amount: BigDecimal.BigDecimal
}

/** Why a step does not fit a budget. */
export type BudgetMisfit =
  | {
      readonly why: "exceeded"
      readonly budget: RuleBudget
      readonly exceeded: ExceededBudget
      readonly amount: BigDecimal.BigDecimal
    }
  | {
      readonly why: "value"
      readonly pointer: string
      readonly fault: "missing" | "mistyped" | "negative" | "not_scalar"
    }
  | { readonly why: "too_many_counters" }
  /** The step was saved before, and another rule decided it. */
  | { readonly why: "not_counted" }

/** Either all budgets fit, with the use of each, or the first that does not fit. */
export type BudgetJudgement =
  | { readonly spends: ReadonlyArray<BudgetSpend>; readonly misfit?: undefined }
  | { readonly misfit: BudgetMisfit }

/** Judges whether a step fits the budgets of a rule that would allow it. */
export interface BudgetMeter {
  readonly judge: (
    rule_id: RuleId,
    budgets: ReadonlyArray<CompiledBudget>,
    stepArguments: Schema.Json | undefined
  ) => BudgetJudgement
}

/** Every step fits: for rules without a history. */
export const fitsBudgets: BudgetMeter = { judge: () => ({ spends: [] }) }

/**
 * For a saved step, which is not counted again. It fits the budgets of the rule that decided it: there it is counted already. No other rule
 * with budgets allows it, so that a rule below which rejects it now is reached.
 */
export const savedBudgets = ({ rule_id }: { readonly rule_id: RuleId | null }): BudgetMeter => ({
  judge: (id) => (id === rule_id ? { spends: [] } : { misfit: { why: "not_counted" } })
})

/** The use of a counter. `unknown`: it must be read first. `limit_reached`: it would be a new one, and the organization has too many. */
export type CounterUse = BudgetUse | "unknown" | "limit_reached"

/** The facts about a step that decide which counters it uses. */
export interface MeteredStep {
  readonly session_id: string
  readonly key_id: string
  /** When it is decided, in epoch milliseconds. */
  readonly now: number
}

/** A meter of one step over the counters of its organization. */
export interface StepMeter extends BudgetMeter {
  /** The counters that were unknown. The judgement, which took them to fit, must be repeated when they are read. */
  readonly unknown: ReadonlySet<string>
}

/** Makes the meter of one step. `list` names the list of rules whose counters these are. */
export const makeStepMeter = (
  list: "live" | "shadow",
  { key_id, now, session_id }: MeteredStep,
  useOf: (counter: string) => CounterUse
): StepMeter => {
  const unknown = new Set<string>()
  const owners = { session: session_id, key: key_id, organization: null }
  return {
    unknown,
    judge: (rule_id, budgets, stepArguments) => {
      const spends: Array<BudgetSpend> = []
      for (const { budget, by, name, sum } of budgets) {
        const values: Array<string> = []
        for (const [index, segments] of by.entries()) {
          const value = scalarText(resolvePointer(stepArguments, segments))
          const pointer = budget.by[index] ?? ""
          if (typeof value !== "string") return { misfit: { why: "value", pointer, fault: value.fault } }
          values.push(value)
        }
        let amount = ZERO
        if (sum !== undefined && budget.sum !== null) {
          const value = resolvePointer(stepArguments, sum)
          const parsed = amountOf(value)
          if (parsed === undefined)
            return { misfit: { why: "value", pointer: budget.sum.pointer, fault: faultOf(value) } }
          amount = parsed
        }
        const counter = `${list} ${rule_id} ${name} ${JSON.stringify([owners[budget.per], ...values])}`
        const use = useOf(counter)
        if (use === "limit_reached") return { misfit: { why: "too_many_counters" } }
        if (use === "unknown") unknown.add(counter)
        else {
          const exceeded = findExceeded(budget, usedOf(budget, use, now), amount)
          if (exceeded !== undefined) return { misfit: { why: "exceeded", budget, exceeded, amount } }
        }
        spends.push({ budget, counter, amount })
      }
      return { spends }
    }
  }
}

type Value = ReturnType<typeof resolvePointer>

/** A value as the text that distinguishes steps: a tool may read `"100"` as 100, so both are the same. */
const scalarText = (value: Value): string | { readonly fault: "missing" | "not_scalar" } => {
  switch (typeof value) {
    case "string":
      return value
    case "number":
    case "boolean":
      return String(value)
    case "undefined":
      return { fault: "missing" }
    default:
      return { fault: value === UNREACHABLE ? "missing" : "not_scalar" }
  }
}

const faultOf = (value: Value): "missing" | "mistyped" | "negative" => {
  if (value === undefined || value === UNREACHABLE) return "missing"
  return typeof value === "number" ? "negative" : "mistyped"
}
