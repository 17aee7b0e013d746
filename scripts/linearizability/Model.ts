import type { Operation } from "./Operation.ts"

/**
 * What an object does if its operations run one at a time. States are immutable. A model may use what was observed of
 * the object at the end, such as its log, to leave out states that it cannot have had.
 */
export interface Model<State, Call> {
  readonly initial: State
  /**
   * The state after an operation that takes effect in `state`; undefined if it cannot, because it would have another
   * answer. A lost answer is possible whenever the operation is.
   */
  readonly apply: (state: State, operation: Operation<Call>) => State | undefined
  /** Equal for equal states only. */
  readonly key: (state: State) => string
  /** Whether an operation with this answer changes no state, whatever the state. */
  readonly isRead: (operation: Operation<Call>) => boolean
  /** The call in a few words. */
  readonly describe: (call: Call) => string
}

/** Whether a model's answer is the recorded one, or the recorded one was lost. */
export const isAnswer = (operation: { readonly answer: string | undefined }, answer: string): boolean =>
  operation.answer === undefined || operation.answer === answer

/** Whether an answer is the code of a problem, perhaps with details: a refused call changes nothing. */
export const isRefusal = (answer: string | undefined): boolean =>
  answer !== undefined && /^[A-Z]+(_[A-Z]+)+/.test(answer)
