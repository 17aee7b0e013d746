/** Whether single keys are shortcuts: speech input and some keyboards press them by accident (WCAG 2.2, 2.1.4). Kept in the browser. */
import { Atom } from "effect/reactivity"
import { registry } from "./atoms.ts"
import { readPreference, writePreference } from "./browserPreference.ts"

const NAME = "letter-shortcuts"

/** The style sheet hides the hints beside buttons. */
const show = (on: boolean): void => {
  if (typeof document !== "undefined") document.documentElement.dataset["letters"] = on ? "on" : "off"
}

const initial = readPreference(NAME) !== "off"
show(initial)

export const letterShortcutsAtom = Atom.keepAlive(Atom.make(initial))

/** Switches single-key shortcuts on or off. */
export const setLetterShortcuts = (on: boolean): void => {
  writePreference(NAME, on ? "on" : "off")
  show(on)
  registry.set(letterShortcutsAtom, on)
}
