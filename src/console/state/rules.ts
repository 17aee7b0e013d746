/** The approval rules, shared by their page and by the pages of reviewer models. */
import { Atom } from "effect/reactivity"
import { apiClient } from "./apiClient.ts"

/** The saved rules. */
export const rulesAtom = Atom.make(apiClient.approvalRules.get())
