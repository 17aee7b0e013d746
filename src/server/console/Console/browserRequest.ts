/** Who asks, from where: what a browser says of a request, and what of it is believed. */
import { Redacted } from "effect"
import type { Headers } from "effect/http"

/** The cookie of a session where the page came by https: no other host of the domain can set one of this name (RFC 6265bis, 4.1.3.2). */
const SECURE_COOKIE = "__Host-countersign"

/** Its name on this machine itself, over http. */
const LOOPBACK_COOKIE = "countersign"

/** Methods that change nothing. */
const READ_METHODS: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS"])

/** A request, as far as it matters here. */
export interface BrowserRequest {
  readonly method: string
  readonly headers: Headers.Headers
  readonly cookies: Readonly<Record<string, string>>
}

/**
 * Whether the page that asks is ours. Browsers name the site in `Sec-Fetch-Site` and, on whatever changes something, the origin:
 * both have to be this one, and one of them there. What only reads may be asked without either, as from an address bar; its answer
 * is of no use to another site's page.
 */
export const isSameOrigin = ({ headers, method }: BrowserRequest, publicUrl: string): boolean => {
  const site = headers["sec-fetch-site"]
  const { origin } = headers
  if (READ_METHODS.has(method)) return site === undefined || site === "same-origin" || site === "none"
  if (site !== undefined && site !== "same-origin") return false
  return origin === undefined ? site !== undefined : isOwnOrigin(headers, publicUrl)
}

const isOwnOrigin = ({ host, origin }: Headers.Headers, publicUrl: string): boolean => {
  const from = URL.parse(origin ?? "")
  return from !== null && (from.origin === URL.parse(publicUrl)?.origin || from.host === host)
}

/** How a browser reached this service: `https`; `loopback`: by http on its own machine; `open`: by http over a network. */
export type Transport = "https" | "loopback" | "open"

/** How the browser that signs in reached this service, by the origin it names. */
export const transportOf = ({ headers }: BrowserRequest): Transport => {
  const from = URL.parse(headers["origin"] ?? "")
  if (from?.protocol === "https:") return "https"
  return isLoopback(from?.hostname ?? "") ? "loopback" : "open"
}

const isLoopback = (hostname: string): boolean =>
  hostname === "localhost" ||
  hostname.endsWith(".localhost") ||
  hostname === "[::1]" ||
  /^127(\.\d{1,3}){3}$/.test(hostname)

/** The name and the attributes of the cookie. `Strict`: no other site's page makes a browser send it. */
export const cookieFor = (reached: Exclude<Transport, "open">) => ({
  name: reached === "https" ? SECURE_COOKIE : LOOPBACK_COOKIE,
  options: { httpOnly: true, secure: reached === "https", sameSite: "strict", path: "/" } as const
})

/**
 * The token that a request carries. The plain name counts on loopback alone: elsewhere a neighbour of the domain could have set it.
 */
export const sessionToken = ({ cookies, headers }: BrowserRequest): Redacted.Redacted => {
  const host = URL.parse(`http://${headers["host"] ?? ""}`)?.hostname ?? ""
  const token = cookies[SECURE_COOKIE] ?? (isLoopback(host) ? cookies[LOOPBACK_COOKIE] : undefined)
  return Redacted.make(token ?? "", { label: "ConsoleToken" })
}
