/**
 * The place on a page: how far it is scrolled, and how many pages of its list are loaded. Kept for each entry of the browser's history, so that
 * Back, Forward and a reload return to it.
 */
import { Option, Schema } from "effect"

/** The place of one entry. */
const Place = Schema.Struct({ top: Schema.Finite, pages: Schema.Int })
type Place = typeof Place.Type

const STORAGE_KEY = "countersign.places"

/** Entries whose places are kept, and pages of a list that are loaded again. */
const MAX_PLACES = 50
const MAX_PAGES = 20

/** How long a page may take to be as long as it was, in milliseconds. */
const RESTORE_MS = 5_000

const Entry = Schema.Struct({ entry: Schema.String })
const isEntry = Schema.is(Entry)
const decodePlaces = Schema.decodeUnknownOption(
  Schema.fromJsonString(Schema.Array(Schema.Tuple([Schema.String, Place])))
)

/** Without access to the storage, places last until the page is reloaded. */
const attempt = <A>(use: () => A): A | undefined => {
  try {
    return use()
  } catch {
    return undefined
  }
}

const places = new Map<string, Place>(
  typeof sessionStorage === "undefined"
    ? []
    : Option.getOrElse(decodePlaces(attempt(() => sessionStorage.getItem(STORAGE_KEY))), () => [])
)

let entries = 0

/** The state of a new entry of the history. */
export const newEntry = (): typeof Entry.Type => ({ entry: `${performance.timeOrigin} ${entries++}` })

/** The current entry. One that the browser made, such as by a typed address, gets a name. */
const currentEntry = (): string => {
  const state: unknown = history.state
  if (isEntry(state)) return state.entry
  const made = newEntry()
  history.replaceState(made, "")
  return made.entry
}

const currentPlace = (): Place => places.get(currentEntry()) ?? { top: 0, pages: 1 }

const remember = (change: Partial<Place>): void => {
  const entry = currentEntry()
  const place = { ...currentPlace(), ...change }
  places.delete(entry)
  places.set(entry, place)
  for (const oldest of places.keys()) {
    if (places.size <= MAX_PLACES) break
    places.delete(oldest)
  }
}

/** The pages of the list that were loaded at this place. */
export const loadedPages = (): number => Math.min(currentPlace().pages, MAX_PAGES)

/** Remembers how many pages of the list are loaded. */
export const rememberPages = (pages: number): void => remember({ pages })

const scroller = (): HTMLElement | null => document.querySelector("#content")

let isRestoring = false

/** Scrolls to the start of a new page. */
export const scrollToStart = (): void => {
  isRestoring = false
  scroller()?.scrollTo(0, 0)
}

/** Scrolls to where the current entry was, once the page is long enough, unless its user scrolls first. */
const restore = (): void => {
  const { top } = currentPlace()
  const until = performance.now() + RESTORE_MS
  isRestoring = true
  const tryAgain = () => {
    if (!isRestoring) return
    const element = scroller()
    if (element !== null) {
      element.scrollTop = top
      if (Math.abs(element.scrollTop - top) < 2 || performance.now() > until) {
        isRestoring = false
        return
      }
    } else if (performance.now() > until) isRestoring = false
    requestAnimationFrame(tryAgain)
  }
  requestAnimationFrame(tryAgain)
}

/** Follows the place of every entry, from the start of the console on. */
export const followPlaces = (): void => {
  history.scrollRestoration = "manual"
  const stop = () => {
    isRestoring = false
  }
  for (const type of ["wheel", "touchmove", "keydown", "pointerdown"]) {
    addEventListener(type, stop, { capture: true, passive: true })
  }
  addEventListener(
    "scroll",
    ({ target }) => {
      // While a page is still shorter than it was, the browser moves it up.
      if (!isRestoring && target instanceof HTMLElement && target.id === "content") {
        remember({ top: target.scrollTop })
      }
    },
    { capture: true, passive: true }
  )
  addEventListener("popstate", restore)
  addEventListener("pagehide", () =>
    attempt(() => sessionStorage.setItem(STORAGE_KEY, JSON.stringify([...places])))
  )
  restore()
}
