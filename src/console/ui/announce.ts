/** Texts for screen readers alone, for changes that others see at the place of the change. */
import { Atom } from "effect/reactivity"
import { registry } from "../state/atoms.ts"

/** The current announcement; `Toasts` renders it. */
export const announcementAtom = Atom.keepAlive(Atom.make(""))

/** The pause that makes the same text a change again, in milliseconds. */
const PAUSE_MS = 50

/** Announces a text, after the one that is being read. */
export const announce = (text: string): void => {
  registry.set(announcementAtom, "")
  setTimeout(() => registry.set(announcementAtom, text), PAUSE_MS)
}
