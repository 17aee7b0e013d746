/** Client-side routing: the browser's history as an atom, and links within the console. */
import { Atom } from "effect/reactivity"
import { type AnchorHTMLAttributes, type MouseEvent } from "react"
import { CONSOLE_PATH } from "../../api/Console.ts"
import { registry, useAtomValue } from "../state/atoms.ts"
import { newEntry, scrollToStart } from "./place.ts"

/** The path after `/console`, with a leading slash and no trailing one. */
const currentPath = (): string => {
  const path = location.pathname.slice(CONSOLE_PATH.length).replace(/\/+$/, "")
  return path === "" ? "/" : path
}

export const pathAtom = Atom.keepAlive(
  Atom.make((get) => {
    const update = () => get.setSelf(currentPath())
    addEventListener("popstate", update)
    get.addFinalizer(() => removeEventListener("popstate", update))
    return currentPath()
  })
)

export const usePath = (): string => useAtomValue(pathAtom)

/** The query of the address, which keeps filters and tabs. */
const queryAtom = Atom.keepAlive(
  Atom.make((get) => {
    const update = () => get.setSelf(location.search)
    addEventListener("popstate", update)
    get.addFinalizer(() => removeEventListener("popstate", update))
    return location.search
  })
)

/** The query of the address: empty, or starting with `?`. */
export const useSearch = (): string => useAtomValue(queryAtom)

/** A parameter of the address's query; undefined: it has none. */
export const useQueryParameter = (name: string): string | undefined =>
  new URLSearchParams(useAtomValue(queryAtom)).get(name) ?? undefined

/** A path with a query of the parameters that have a value. */
export const withQuery = (path: string, parameters: Readonly<Record<string, string | undefined>>): string => {
  const given = Object.entries(parameters).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value] as [string, string]]
  )
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given).toString()}`
}

/**
 * Navigates to a path of the console, or to another query of the same page (`?…`, or empty for none). `replace` overwrites the current
 * history entry. `keepScroll` stays where the page is scrolled to.
 */
export const navigate = (
  to: string,
  options: { readonly replace?: boolean; readonly keepScroll?: boolean } = {}
): void => {
  const address = to.startsWith("/") ? CONSOLE_PATH + to : location.pathname + to
  const isOtherPage = address.split("?")[0] !== location.pathname
  if (options.replace === true) history.replaceState(isOtherPage ? newEntry() : history.state, "", address)
  else history.pushState(newEntry(), "", address)
  registry.refresh(pathAtom)
  registry.refresh(queryAtom)
  if (options.replace !== true && options.keepScroll !== true) scrollToStart()
}

/** Opens a page in a new tab, as a click on a link with Ctrl or with the middle button does. For rows that cannot be links. */
export const openInNewTab = (to: string): void => void open(CONSOLE_PATH + to, "_blank", "noopener")

/** A link within the console. Modified clicks keep the browser's behaviour, such as opening a new tab. */
export const Link = ({
  children,
  to,
  ...rest
}: AnchorHTMLAttributes<HTMLAnchorElement> & { readonly to: string }) => (
  <a
    {...rest}
    href={CONSOLE_PATH + to}
    onClick={(event: MouseEvent<HTMLAnchorElement>) => {
      rest.onClick?.(event)
      if (event.defaultPrevented || event.button !== 0) return
      if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
      event.preventDefault()
      navigate(to)
    }}
  >
    {children}
  </a>
)
