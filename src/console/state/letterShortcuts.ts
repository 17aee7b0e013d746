/** Whether single keys are shortcuts: speech input and some keyboards press them by accident (WCAG 2.2, 2.1.4). Kept in the browser. */
import { Atom } from "effect/reactivity"
import { registry } from "./atoms.ts"

const STORAGE_KEY = "countersign.letter-shortcuts"

/** Without access to the storage, the choice lasts until the page is reloaded. */
const attempt = <A>(use: () => A): A | undefined => {
  try {
    return use()
  } catch {
    return undefined
  }
}

/** The style sheet hides the hints beside buttons. */
const show = (on: boolean): void => {
  if (typeof document !== "undefined") document.documentElement.dataset["letters"] = on ? "on" : "off"
}

const initial = attempt(() => localStorage.getItem(STORAGE_KEY)) !== "off"
show(initial)

export const letterShortcutsAtom = Atom.keepAlive(Atom.make(initial))

/** Switches single-key shortcuts on or off. */
export const setLetterShortcuts = (on: boolean): void => {
  attempt(() => localStorage.setItem(STORAGE_KEY, on ? "on" : "off"))
  show(on)
  registry.set(letterShortcutsAtom, on)
}
