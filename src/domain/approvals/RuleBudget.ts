import { BigDecimal, Schema } from "effect"
import { documentedEnum } from "../documentedEnum.ts"
import { ArgumentPointer } from "./RuleCondition.ts"

/** Most budgets of one rule, and most values by which one is divided. */
export const MAX_BUDGETS = 5
export const MAX_BUDGET_KEYS = 3

/** Longest window: 30 days, in seconds. */
const MAX_WINDOW = 30 * 24 * 3600

const MAX_COUNT = 1_000_000_000

export const BudgetScope = documentedEnum({
  session: "Each agent session has the budget.",
  key: "Each API key that submits steps has the budget, over all its sessions.",
  organization: "The organization has the budget once."
})
export type BudgetScope = typeof BudgetScope.Type

export const RuleBudgetSum = Schema.Struct({
  pointer: ArgumentPointer.annotateKey({
    description:
      "JSON Pointer to the number in the step's arguments. A step whose value is missing, negative or not a number does not fit."
  }),
  at_most: Schema.Finite.check(
    Schema.isBetween(
      { minimum: 0, maximum: Number.MAX_VALUE, exclusiveMinimum: true },
      { expected: "a number greater than 0" }
    )
  ).annotateKey({
    description: "The largest sum of these numbers within the window. Added as decimals, without rounding."
  })
}).annotate({ identifier: "RuleBudgetSum", description: "A limit on the sum of a number in the arguments." })
export type RuleBudgetSum = typeof RuleBudgetSum.Type

export const RuleBudget = Schema.Struct({
  per: BudgetScope.annotateKey({ description: "Which steps share the budget." }),
  window_seconds: Schema.Int.check(
    Schema.isBetween(
      { minimum: 1, maximum: MAX_WINDOW },
      { expected: `a whole number of seconds from 1 to ${MAX_WINDOW} (30 days)` }
    )
  ).annotateKey({
    description:
      "Length of the window in seconds, 1 to 2,592,000 (30 days). It slides: a step counts for this long after it was allowed."
  }),
  count: Schema.NullOr(
    Schema.Int.check(
      Schema.isBetween(
        { minimum: 1, maximum: MAX_COUNT },
        { expected: "a whole number from 1 to 1000000000" }
      )
    )
  ).annotateKey({
    description:
      "The most steps that the rule allows within the window. Null, the default: any number. `count` or `sum` is required."
  }),
  sum: Schema.NullOr(RuleBudgetSum).annotateKey({
    description: "A limit on the sum of a number in the arguments. Null, the default: none."
  }),
  by: Schema.Array(ArgumentPointer)
    .check(Schema.isMaxLength(MAX_BUDGET_KEYS))
    .annotateKey({
      description: `JSON Pointers to values of the arguments, at most ${MAX_BUDGET_KEYS}: steps with different values have budgets of their own. \`100\` and \`"100"\` are the same value. A step without one of the values, or where it is an object, an array or null, does not fit. Default: none.`
    })
}).annotate({
  identifier: "RuleBudget",
  description:
    "How much a rule allows within a sliding window. The rule matches only steps that still fit all its budgets; a step that it allows is counted in each of them."
})
export type RuleBudget = typeof RuleBudget.Type

/** The members of a budget that may be left out, with the values that they then have. */
export const defaultBudget: Pick<RuleBudget, "count" | "sum" | "by"> = { count: null, sum: null, by: [] }

const units = [
  { seconds: 86_400, name: "day" },
  { seconds: 3_600, name: "hour" },
  { seconds: 60, name: "minute" }
]

/** A window in words: `1 day`, `90 seconds`. */
export const describeWindow = (seconds: number): string => {
  const { name, seconds: unit } = units.find((one) => seconds % one.seconds === 0) ?? {
    name: "second",
    seconds: 1
  }
  const amount = seconds / unit
  return `${amount} ${name}${amount === 1 ? "" : "s"}`
}

/** The scope of a budget in words: `per session and /account`. */
export const describeScope = ({ by, per }: Pick<RuleBudget, "by" | "per">): string =>
  `per ${[per, ...by.map((pointer) => pointer || "value")].join(" and ")}`

/** A budget in words: `at most 3 steps and 500 of /amount per session in 1 hour`. */
export const describeBudget = (budget: RuleBudget): string => {
  const { count, sum, window_seconds } = budget
  const limits = [
    ...(count === null ? [] : [`${count} ${count === 1 ? "step" : "steps"}`]),
    ...(sum === null ? [] : [`${formatAmount(sum.at_most)} of ${sum.pointer || "the value"}`])
  ]
  return `at most ${limits.join(" and ")} ${describeScope(budget)} in ${describeWindow(window_seconds)}`
}

const formatAmount = (amount: number): string => BigDecimal.format(BigDecimal.fromNumberUnsafe(amount))
