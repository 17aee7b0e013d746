import type { Model } from "./Model.ts"
import { isLost, type Operation } from "./Operation.ts"

/** The operations of an object as transitions between numbered states, which a checker can search without the model. */
export interface Table {
  /** States are numbered from 0, which is the initial one. */
  readonly states: number
  readonly operations: ReadonlyArray<{
    readonly description: string
    readonly answer: string | null
    readonly invoked_at: number
    /** Null if the answer was lost. */
    readonly answered_at: number | null
    /** The state after the operation, for each state in which it is possible. */
    readonly transitions: ReadonlyArray<readonly [from: number, to: number]>
  }>
}

/**
 * Applies every operation to every state that can be reached, in any order. Undefined if there are more states than
 * `maxStates`.
 */
export const tabulate = <State, Call>(
  model: Model<State, Call>,
  operations: ReadonlyArray<Operation<Call>>,
  maxStates: number
): Table | undefined => {
  const numbers = new Map([[model.key(model.initial), 0]])
  const states = [model.initial]
  const transitions = operations.map((): Array<readonly [number, number]> => [])
  for (let from = 0; from < states.length; from++) {
    for (const [index, operation] of operations.entries()) {
      const state = states[from]
      const next = state === undefined ? undefined : model.apply(state, operation)
      if (next === undefined) continue
      const key = model.key(next)
      let to = numbers.get(key)
      if (to === undefined) {
        if (states.length >= maxStates) return undefined
        to = states.length
        states.push(next)
        numbers.set(key, to)
      }
      transitions[index]?.push([from, to])
    }
  }
  return {
    states: states.length,
    operations: operations.map((operation, index) => ({
      description: model.describe(operation.call),
      answer: operation.answer ?? null,
      invoked_at: operation.invokedAt,
      answered_at: isLost(operation) ? null : operation.answeredAt,
      transitions: transitions[index] ?? []
    }))
  }
}
