import { Schema } from "effect"

const limit = <S extends Schema.Constraint>(schema: S, description: string) => ({
  stored: Schema.NullOr(schema).annotateKey({ description: `${description} Null: no limit.` }),
  given: Schema.optionalKey(schema).annotateKey({ description: `${description} Default: no limit.` })
})

const maxCalls = limit(
  Schema.Int,
  "Calls to models, the judge's included: at least those of one example. No example is started that needs more, but retries and repairs of an answer may exceed it."
)

const maxTokens = limit(
  Schema.Int,
  "Input and output tokens together: at least the instructions and the answer schema of one example, estimated at four bytes a token. The examples in progress, at most four, may exceed it. The comparison ends if a provider does not report the tokens of an answer."
)

const maxCost = limit(
  Schema.Finite,
  "Cost by the providers' `price`, in its currency: needs a provider with a price. The examples in progress, at most four, may exceed it. The comparison ends if a provider with a price does not report the tokens of an answer."
)

const maxFailures = limit(
  Schema.Int,
  "Answers of either side that fail, at least 1: with as many, the comparison ends."
)

export const Budget = Schema.Struct({
  max_calls: maxCalls.stored,
  max_tokens: maxTokens.stored,
  max_cost: maxCost.stored,
  max_failures: maxFailures.stored
}).annotate({
  identifier: "Budget",
  description: "Limits of a comparison's spending. A comparison that would exceed one ends as `failed`."
})
export type Budget = typeof Budget.Type

/** Bounds are checked with the task, as `INVALID_COMPARISON`. */
export const NewBudget = Schema.Struct({
  max_calls: maxCalls.given,
  max_tokens: maxTokens.given,
  max_cost: maxCost.given,
  max_failures: maxFailures.given
}).annotate({ identifier: "NewBudget", description: "Limits of the comparison's spending." })
export type NewBudget = typeof NewBudget.Type

/** The budget to store: absent limits are null. */
export const withBudgetDefaults = (given: NewBudget): Budget => ({
  max_calls: given.max_calls ?? null,
  max_tokens: given.max_tokens ?? null,
  max_cost: given.max_cost ?? null,
  max_failures: given.max_failures ?? null
})

export const Spent = Schema.Struct({
  calls: Schema.Int.annotateKey({ description: "Calls to models, failed and repeated ones included." }),
  input_tokens: Schema.Int.annotateKey({
    description:
      "Input tokens that the providers counted. A call that may have been answered without a report, such as one that timed out, counts its prompt, estimated at four bytes a token."
  }),
  output_tokens: Schema.Int.annotateKey({ description: "Output tokens that the providers counted." }),
  cost: Schema.NullOr(Schema.Finite).annotateKey({
    description: "Cost by the providers' `price`, in its currency. Null if nothing with a price was called."
  })
}).annotate({
  identifier: "Spent",
  description:
    "The spending of a comparison on both sides and the judge, also on answers that a restart or a cancellation discarded."
})
export type Spent = typeof Spent.Type

/** Nothing spent. */
export const nothingSpent: Spent = { calls: 0, input_tokens: 0, output_tokens: 0, cost: null }

/** The sum of two spendings. */
export const addSpent = (left: Spent, right: Spent): Spent => ({
  calls: left.calls + right.calls,
  input_tokens: left.input_tokens + right.input_tokens,
  output_tokens: left.output_tokens + right.output_tokens,
  cost: left.cost === null ? right.cost : left.cost + (right.cost ?? 0)
})
