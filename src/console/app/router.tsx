/** Addresses within the page: the browser's history, as an atom. */
import { Atom } from "effect/reactivity"
import { type AnchorHTMLAttributes, type MouseEvent } from "react"
import { CONSOLE_PATH } from "../../api/Console.ts"
import { registry, useAtomValue } from "../state/atoms.ts"

/** Where the page is: the path after `/console`, with a slash at its start and none at its end. */
const currentPath = (): string => {
  const path = location.pathname.slice(CONSOLE_PATH.length).replace(/\/+$/, "")
  return path === "" ? "/" : path
}

export const pathAtom = Atom.keepAlive(
  Atom.make((get) => {
    const moved = () => get.setSelf(currentPath())
    addEventListener("popstate", moved)
    get.addFinalizer(() => removeEventListener("popstate", moved))
    return currentPath()
  })
)

export const usePath = (): string => useAtomValue(pathAtom)

/** Goes to an address of the page. `replace`: going back does not come here again. */
export const navigate = (path: string, options: { readonly replace?: boolean } = {}): void => {
  if (options.replace === true) history.replaceState(null, "", CONSOLE_PATH + path)
  else history.pushState(null, "", CONSOLE_PATH + path)
  registry.refresh(pathAtom)
  if (options.replace !== true) scrollTo(0, 0)
}

/** A link within the page. Opened in another tab it is an address like any other. */
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
