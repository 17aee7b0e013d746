/** The approval rules of an organization: a list that is replaced whole, if its revision is still the one that was read. */
import { isAnswer, isRefusal, type Model } from "../Model.ts"

export type RulesCall =
  | { readonly kind: "replace"; readonly revision: number; readonly mark: string }
  | { readonly kind: "get" }

/** The revision, and the mark of the list, by which its writer recognizes it. */
export interface RulesState {
  readonly revision: number
  readonly mark: string
}

/** The answer of a read or a replacement. */
export const rulesAnswer = ({ mark, revision }: RulesState): string => `revision ${revision}: ${mark}`

export const rulesModel = (initial: RulesState): Model<RulesState, RulesCall> => ({
  initial,
  apply: (state, operation) => {
    const { call } = operation
    if (call.kind === "get") return isAnswer(operation, rulesAnswer(state)) ? state : undefined
    if (call.revision !== state.revision) {
      return isAnswer(operation, `RULES_CHANGED: ${state.revision}`) ? state : undefined
    }
    const next = { revision: state.revision + 1, mark: call.mark }
    return isAnswer(operation, rulesAnswer(next)) ? next : undefined
  },
  key: rulesAnswer,
  isRead: ({ answer, call }) => call.kind === "get" || isRefusal(answer),
  describe: (call) => (call.kind === "get" ? "get" : `replace revision ${call.revision} by ${call.mark}`)
})
