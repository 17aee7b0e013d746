/**
 * Named filters of lists. Kept in the browser, apart for each API key: they can hold names of customers, which the service then need not store,
 * export and erase. To share one, send its link.
 */
import { Option, Schema } from "effect"
import { Atom } from "effect/reactivity"
import { registry } from "./atoms.ts"
import { sessionAtom } from "./session.ts"

/** Views of one list. */
export const MAX_VIEWS = 20
export const MAX_VIEW_NAME = 60

/** A named query of a list's address. */
const SavedView = Schema.Struct({
  name: Schema.String.check(Schema.isMaxLength(MAX_VIEW_NAME), Schema.isPattern(/\S/u)),
  /** Starting with `?`. */
  query: Schema.String.check(Schema.isMaxLength(2_000), Schema.isPattern(/^\?/u))
})
export type SavedView = typeof SavedView.Type

const SavedViews = Schema.fromJsonString(Schema.Array(SavedView).check(Schema.isMaxLength(MAX_VIEWS)))
const decode = Schema.decodeUnknownOption(SavedViews)

/** Without access to the storage, views last until the page is reloaded. */
const attempt = <A>(use: () => A): A | undefined => {
  try {
    return use()
  } catch {
    return undefined
  }
}

const storageKey = (list: string): string => {
  const session = registry.get(sessionAtom)
  return `countersign.views.${session._tag === "SignedIn" ? session.session.key.id : ""}.${list}`
}

/** The stored views of a list; undefined without access to the storage. */
const readViews = (list: string): ReadonlyArray<SavedView> | undefined => {
  const stored = attempt(() => localStorage.getItem(storageKey(list)))
  return stored === undefined ? undefined : Option.getOrElse(decode(stored), () => [])
}

/** The views of a list, by its name, in the order in which they were saved. */
export const savedViewsAtom = Atom.family((list: string) =>
  Atom.keepAlive(Atom.make<ReadonlyArray<SavedView>>(readViews(list) ?? []))
)

/** Changes the views as they are stored: another tab may have changed them. */
const changeViews = (
  list: string,
  change: (views: ReadonlyArray<SavedView>) => ReadonlyArray<SavedView>
): void => {
  const views = change(readViews(list) ?? registry.get(savedViewsAtom(list)))
  attempt(() => localStorage.setItem(storageKey(list), JSON.stringify(views)))
  registry.set(savedViewsAtom(list), views)
}

/** Saves a view, in place of one with the same name or query. The oldest one gives way. */
export const saveView = (list: string, view: SavedView): void =>
  changeViews(list, (views) =>
    [...views.filter(({ name, query }) => name !== view.name && query !== view.query), view].slice(-MAX_VIEWS)
  )

/** Removes a view. */
export const removeView = (list: string, name: string): void =>
  changeViews(list, (views) => views.filter((view) => view.name !== name))
