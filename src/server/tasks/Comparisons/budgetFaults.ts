import type { FieldError } from "../../../api/Problem.ts"
import type { NewBudget } from "../../../domain/tasks/Budget.ts"
import type { Judge } from "../../../domain/tasks/Judge.ts"
import { BYTES_PER_TOKEN, costOf, type Provider } from "../../../domain/tasks/Provider.ts"
import type { JsonSchema } from "../../../domain/tasks/Task.ts"

interface Side {
  readonly provider: Provider
  readonly instructions: string
}

/** Whether answers of a provider are calls to a model, which cost tokens. */
const callsModel = ({ provider }: Side): boolean => provider.kind !== "examples"

/** The calls that an example needs: one by each side with a model, and the judge's of each side. */
export const callsOf = (sides: ReadonlyArray<Side>, judge: Judge | null): number =>
  sides.filter(callsModel).length + (judge === null ? 0 : sides.length)

/** The sides of an example, each as often as it answers. */
export const repeated = <Side>(sides: ReadonlyArray<Side>, repeats: number): ReadonlyArray<Side> =>
  Array.from({ length: repeats }, () => sides).flat()

/** Returns the limits of a budget that are below the spending of one example. `at` is the budget's pointer in the request. */
export const budgetFaults = (
  { max_calls, max_cost, max_failures, max_tokens }: NewBudget,
  sides: ReadonlyArray<Side>,
  judge: Judge | null,
  answer_schema: JsonSchema,
  at: string
): ReadonlyArray<FieldError> => {
  const models = sides.filter(callsModel)
  const calls = Math.max(1, callsOf(sides, judge))
  const promptTokens = models.map(({ instructions, provider }) => ({
    provider,
    tokens: Math.ceil(
      (Buffer.byteLength(instructions) + Buffer.byteLength(JSON.stringify(answer_schema))) / BYTES_PER_TOKEN
    )
  }))
  const tokens = Math.max(
    1,
    promptTokens.reduce((sum, prompt) => sum + prompt.tokens, 0)
  )
  const costs = [...promptTokens, ...(judge === null ? [] : [{ provider: judge.provider, tokens: 0 }])]
    .map((prompt) => costOf(prompt.provider, { input_tokens: prompt.tokens, output_tokens: 0 }))
    .filter((cost) => cost !== null)
  const cost = costs.reduce((sum, part) => sum + part, 0)
  const fault = (member: keyof NewBudget, detail: string): ReadonlyArray<FieldError> => [
    { pointer: `${at}/${member}`, detail }
  ]
  return [
    ...(max_calls !== undefined && max_calls < calls
      ? fault("max_calls", `must be at least ${calls}, the calls of one example`)
      : []),
    ...(max_tokens !== undefined && max_tokens < tokens
      ? fault(
          "max_tokens",
          `must be at least ${tokens}: instructions and answer schema of one example take about that many`
        )
      : []),
    ...(max_failures !== undefined && max_failures < 1 ? fault("max_failures", "must be at least 1") : []),
    ...(max_cost === undefined
      ? []
      : costs.length === 0
        ? fault("max_cost", "needs a provider with a price, and none has one")
        : max_cost <= 0 || max_cost < cost
          ? fault(
              "max_cost",
              `must be above 0, and at least ${cost}: instructions and answer schema of one example cost about that`
            )
          : [])
  ]
}
