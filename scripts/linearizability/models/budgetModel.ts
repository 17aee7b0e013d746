/**
 * A budget of a rule, for steps with one value by which it is divided: a count and a sum within a window that is longer than the run. A step
 * is allowed and counted if it fits, or else rejected by the next rule. A repeated step has its first answer and is counted once.
 */
import { isAnswer, type Model } from "../Model.ts"

export interface BudgetCall {
  readonly step: string
  /** In hundredths. */
  readonly amount: number
}

export interface BudgetLimits {
  readonly count: number
  /** In hundredths. */
  readonly sum: number
}

/** The answers to the steps, by their ids. */
type BudgetState = ReadonlyMap<string, { readonly answer: "allow" | "reject"; readonly amount: number }>

export const budgetModel = ({ count, sum }: BudgetLimits): Model<BudgetState, BudgetCall> => ({
  initial: new Map(),
  apply: (state, operation) => {
    const { amount, step } = operation.call
    const known = state.get(step)
    if (known !== undefined) return isAnswer(operation, known.answer) ? state : undefined
    const allowed = [...state.values()].filter(({ answer }) => answer === "allow")
    const used = allowed.reduce((total, one) => total + one.amount, 0)
    const answer = allowed.length < count && used + amount <= sum ? "allow" : "reject"
    return isAnswer(operation, answer) ? new Map([...state, [step, { answer, amount }]]) : undefined
  },
  key: (state) => JSON.stringify([...state].toSorted(([one], [other]) => (one < other ? -1 : 1))),
  isRead: () => false,
  describe: ({ amount, step }) => `${step} for ${amount / 100}`
})
