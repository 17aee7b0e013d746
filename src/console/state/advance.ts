/** Whether the page opens the next approval after a decision, a choice that is kept in the browser. */
import { Atom } from "effect/reactivity"
import { registry } from "./atoms.ts"
import { readPreference, writePreference } from "./browserPreference.ts"

const NAME = "advance"

export const advanceAtom = Atom.keepAlive(Atom.make(readPreference(NAME) === "yes"))

export const setAdvance = (advances: boolean): void => {
  writePreference(NAME, advances ? "yes" : "no")
  registry.set(advanceAtom, advances)
}
