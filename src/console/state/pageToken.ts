/** The part of the session's token that the page keeps: see `PAGE_HEADER`. The storage is of the origin, with its port, as cookies are not. */
import { PAGE_HEADER, PAGE_PARAMETER } from "../../api/console/pageToken.ts"

const NAME = "countersign.page"

/** Keeps the part; null: there is none. */
export const keepPageToken = (token: string | null): void => {
  try {
    if (token === null) localStorage.removeItem(NAME)
    else localStorage.setItem(NAME, token)
  } catch {
    // Without access to the storage there is no session over HTTP.
  }
}

/** The part that the page keeps; null over HTTPS, and signed out. */
export const readPageToken = (): string | null => {
  try {
    return localStorage.getItem(NAME)
  } catch {
    return null
  }
}

/** Runs when another tab has signed in or out. Its cookie is there before its part of the token, so that requests in between are refused. */
export const onOtherTabsToken = (changed: () => void): void =>
  addEventListener("storage", ({ key }) => {
    if (key === NAME) changed()
  })

/** The header of requests; none over HTTPS. */
export const pageHeaders = (): Readonly<Record<string, string>> => {
  const token = readPageToken()
  return token === null ? {} : { [PAGE_HEADER]: token }
}

/** An address of this service with the part, for requests that have no headers of the page's. */
export const withPageToken = (address: string): string => {
  const token = readPageToken()
  if (token === null) return address
  return `${address}${address.includes("?") ? "&" : "?"}${new URLSearchParams({ [PAGE_PARAMETER]: token }).toString()}`
}

/** Takes the part out of the address that single sign-on leads to. */
export const takePageToken = (): void => {
  const token = new URLSearchParams(location.hash.slice(1)).get(PAGE_PARAMETER)
  if (token === null) return
  keepPageToken(token)
  history.replaceState(history.state, "", location.pathname + location.search)
}
