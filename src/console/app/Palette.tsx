import { Effect, Exit, Fiber } from "effect"
import { type KeyboardEvent, useEffect, useId, useRef, useState } from "react"
import type { ConsoleSession } from "../../api/Console.ts"
import type { SearchResults } from "../../api/console/Search.ts"
import { detailText, find, searchKinds } from "../state/search.ts"
import { Dialog } from "../ui/Dialog.tsx"
import { UntrustedText } from "../ui/UntrustedText.tsx"
import { paletteActions } from "./paletteActions.ts"
import { navigate, withQuery } from "./router.tsx"
import { canOpen, navPath, routes } from "./routes.ts"

/** How long after the last key the service is asked, in milliseconds. */
const TYPING_MS = 150

/** The longest text to search for. */
const MAX_LENGTH = 200

/** One line of the palette. */
interface Item {
  readonly key: string
  readonly group: string
  readonly label: string
  readonly detail: string
  readonly to: string
}

/** The answer to one text. */
interface Found {
  readonly text: string
  readonly results: SearchResults | undefined
}

/** A dialog that leads to any page, action or record: by the name of a page, by an id, or by words. */
export default function Palette({
  onClose,
  onHelp,
  session
}: {
  readonly session: ConsoleSession
  readonly onClose: () => void
  readonly onHelp: () => void
}) {
  const [text, setText] = useState("")
  const [active, setActive] = useState(0)
  const { found, isSearching } = useFound(text.trim())
  const id = useId()
  const list = useRef<HTMLDivElement>(null)
  const items = [...pagesAndActions(session, text.trim()), ...foundItems(found), ...allResults(text.trim())]
  const current = Math.min(active, items.length - 1)
  const choose = ({ to }: Item) => {
    onClose()
    if (to === HELP) onHelp()
    else navigate(to)
  }
  const onKeyDown = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0
    if (step !== 0 && items.length > 0) {
      event.preventDefault()
      setActive((current + step + items.length) % items.length)
      requestAnimationFrame(() =>
        list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" })
      )
    }
    const item = items[current]
    if (event.key === "Enter" && item !== undefined && !event.nativeEvent.isComposing) {
      event.preventDefault()
      choose(item)
    }
  }
  return (
    <Dialog
      open
      title={<span className="visually-hidden">Search</span>}
      className="palette"
      onClose={onClose}
    >
      <input
        type="search"
        role="combobox"
        aria-label="Search, or go to a page"
        aria-expanded={items.length > 0}
        aria-controls={id}
        aria-autocomplete="list"
        aria-activedescendant={items.length === 0 ? undefined : `${id}-${current}`}
        placeholder="Search by ID or words, or go to a page"
        autoComplete="off"
        spellCheck={false}
        maxLength={MAX_LENGTH}
        // oxlint-disable-next-line jsx-a11y/no-autofocus -- the dialog was opened to type into it
        autoFocus
        value={text}
        onChange={({ target }) => {
          setText(target.value)
          setActive(0)
        }}
        onKeyDown={onKeyDown}
      />
      <p role="status" className={items.length === 0 ? "quiet" : "visually-hidden"}>
        {isSearching ? "Searching…" : items.length === 0 ? "No matches" : `${items.length} results`}
      </p>
      <div ref={list} id={id} role="listbox" aria-label="Results" className="palette-list">
        {items.map((item, index) => (
          // oxlint-disable-next-line jsx-a11y/click-events-have-key-events, jsx-a11y/interactive-supports-focus -- the field has the focus and handles the keys
          <div
            key={item.key}
            id={`${id}-${index}`}
            role="option"
            aria-selected={index === current}
            className="palette-item"
            onMouseMove={() => setActive(index)}
            onClick={() => choose(item)}
          >
            <span className="palette-kind">{item.group}</span>
            <span className="palette-label">
              <UntrustedText text={item.label} />
            </span>
            {item.detail === "" ? null : (
              <span className="palette-detail">
                <UntrustedText text={item.detail} />
              </span>
            )}
          </div>
        ))}
      </div>
    </Dialog>
  )
}

/** Stands for the list of shortcuts, which has no page. */
const HELP = "?"

/** The pages and actions of the key whose name has all words of the text. */
const pagesAndActions = (session: ConsoleSession, text: string): ReadonlyArray<Item> => {
  const words = text.toLowerCase().split(/\s+/u)
  const pages = routes.flatMap((route): ReadonlyArray<Item> =>
    route.nav === undefined || !canOpen(route, session.scopes)
      ? []
      : [{ key: route.path, group: "Page", label: route.title, detail: "", to: navPath(route) }]
  )
  const actions = paletteActions(session.scopes).map(({ label, to }): Item => ({
    key: `action ${label}`,
    group: "Action",
    label,
    detail: "",
    to
  }))
  const help: Item = { key: HELP, group: "Action", label: "Keyboard shortcuts", detail: "", to: HELP }
  return [...pages, ...actions, help].filter(({ label }) =>
    words.every((word) => label.toLowerCase().includes(word))
  )
}

const foundItems = (found: SearchResults | undefined): ReadonlyArray<Item> =>
  (found?.groups ?? []).flatMap(({ kind, results }) =>
    results.map(({ detail, id, page, title }): Item => ({
      key: id,
      group: searchKinds[kind][0],
      label: title,
      detail: detail === "" ? id : detailText(detail),
      to: page
    }))
  )

/** The line that leads to the page with all results. */
const allResults = (text: string): ReadonlyArray<Item> =>
  text === ""
    ? []
    : [
        {
          key: "all",
          group: "Search",
          label: `All results for “${text}”`,
          detail: "",
          to: withQuery("/search", { text })
        }
      ]

/** The results of a text, once its user stops typing. The results of the text before stay until then. */
const useFound = (
  text: string
): { readonly found: SearchResults | undefined; readonly isSearching: boolean } => {
  const [found, setFound] = useState<Found>({ text: "", results: undefined })
  useEffect(() => {
    if (text === "") return undefined
    const fiber = Effect.runFork(Effect.delay(find(text), TYPING_MS))
    fiber.addObserver((exit) => {
      if (Exit.isSuccess(exit)) setFound({ text, results: exit.value })
      else if (!Exit.hasInterrupts(exit)) setFound({ text, results: undefined })
    })
    return () => void Effect.runFork(Fiber.interrupt(fiber))
  }, [text])
  return {
    found: text === "" ? undefined : found.results,
    isSearching: text !== "" && found.text !== text
  }
}
