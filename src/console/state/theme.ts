/** The console's colours: light, dark, or the operating system's. Kept in the browser. */
import { Schema } from "effect"
import { Atom } from "effect/reactivity"
import { registry } from "./atoms.ts"
import { readPreference, writePreference } from "./browserPreference.ts"

export const Theme = Schema.Literals(["system", "light", "dark"])
export type Theme = typeof Theme.Type

const NAME = "theme"
const isTheme = Schema.is(Theme)

/** `styles/tokens.css` has the colours of each. */
const show = (theme: Theme): void => {
  if (typeof document !== "undefined") document.documentElement.dataset["theme"] = theme
}

const stored = readPreference(NAME)
const initial: Theme = isTheme(stored) ? stored : "system"
show(initial)

export const themeAtom = Atom.keepAlive(Atom.make<Theme>(initial))

export const setTheme = (theme: Theme): void => {
  writePreference(NAME, theme)
  show(theme)
  registry.set(themeAtom, theme)
}
