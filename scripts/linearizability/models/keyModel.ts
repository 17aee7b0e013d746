/**
 * What an `Idempotency-Key` promises: however often and wherever a creation is sent under the key, it takes effect once,
 * and every answer is the first one. Another body under the same key is refused.
 */
import { isAnswer, isRefusal, type Model } from "../Model.ts"

export type KeyCall =
  | { readonly kind: "create"; readonly body: string }
  | { readonly kind: "list the created" }

/** What was created under the key: its id, and the body that created it. */
export interface Created {
  readonly id: string
  readonly body: string
}

/** `effects`: what exists at the end of all that was ever requested under the key. One thing, unless the key failed. */
export const keyModel = (effects: ReadonlyArray<Created>): Model<Created | null, KeyCall> => ({
  initial: null,
  apply: (state, operation) => {
    const { answer, call } = operation
    if (call.kind === "list the created") return isAnswer(operation, listCreated(state)) ? state : undefined
    if (state !== null) {
      const expected = state.body === call.body ? state.id : "IDEMPOTENCY_KEY_REUSED"
      return isAnswer(operation, expected) ? state : undefined
    }
    const created = effects.find(
      ({ body, id }) => body === call.body && (answer === undefined || answer === id)
    )
    return created
  },
  key: (state) => JSON.stringify(state),
  isRead: ({ answer, call }) => call.kind === "list the created" || isRefusal(answer),
  describe: (call) => (call.kind === "create" ? `create ${call.body}` : call.kind)
})

const listCreated = (state: Created | null): string => (state === null ? "nothing" : state.id)

/** The answer of the final list. */
export const createdAnswer = (effects: ReadonlyArray<Created>): string =>
  effects.length === 0
    ? "nothing"
    : effects
        .map(({ id }) => id)
        .toSorted()
        .join(" ")
