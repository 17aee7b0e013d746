/** Reads the origin, the transport and the session token of a browser's request from its headers and cookies. */
import { Redacted } from "effect"
import type { Headers } from "effect/http"
import { IDLE_HEADER } from "../../../api/Console.ts"
import { PAGE_HEADER } from "../../../api/console/pageToken.ts"

/** The session cookie over HTTPS. The `__Host-` prefix keeps other hosts of the domain from setting it (RFC 6265bis, 4.1.3.2). */
const SECURE_COOKIE = "__Host-countersign"

/**
 * The session cookie over HTTP on loopback, where the prefix is not available. Its name has the port, because cookies have none: services
 * on one machine keep their sessions apart.
 */
const loopbackCookie = (headers: Headers.Headers): string =>
  `countersign-${URL.parse(`http://${headers["host"] ?? ""}`)?.port || "80"}`

/** Characters of a token that the page keeps over HTTP on loopback, 126 bits; the cookie has 132. */
const PAGE_CHARACTERS = 21

/** Methods without side effects. */
const READ_METHODS: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS"])

/** The parts of a request that this module reads. */
export interface BrowserRequest {
  readonly method: string
  readonly headers: Headers.Headers
  readonly cookies: Readonly<Record<string, string>>
}

/**
 * Whether a request comes from the console's own pages. Browsers send `Sec-Fetch-Site`, and `Origin` with every request that changes
 * state. Those requests need at least one of the two, and each that is present must match. Reads are also accepted without either, as
 * from the address bar: pages of other sites cannot read the response.
 */
export const isSameOrigin = ({ headers, method }: BrowserRequest, publicUrl: string): boolean => {
  const site = headers["sec-fetch-site"]
  const { origin } = headers
  if (READ_METHODS.has(method)) return site === undefined || site === "same-origin" || site === "none"
  if (site !== undefined && site !== "same-origin") return false
  return origin === undefined ? site !== undefined : isOwnOrigin(headers, publicUrl)
}

const isOwnOrigin = ({ host, origin }: Headers.Headers, publicUrl: string): boolean => {
  const url = URL.parse(origin ?? "")
  return url !== null && (url.origin === URL.parse(publicUrl)?.origin || url.host === host)
}

/** How a browser reaches the service. `loopback`: HTTP on the same machine. `open`: HTTP over a network. */
export type Transport = "https" | "loopback" | "open"

/** The transport of a sign-in request, by its `Origin`. */
export const transportOf = ({ headers }: BrowserRequest): Transport => {
  const origin = URL.parse(headers["origin"] ?? "")
  if (origin?.protocol === "https:") return "https"
  return isLoopback(origin?.hostname ?? "") ? "loopback" : "open"
}

const isLoopback = (hostname: string): boolean =>
  hostname === "localhost" ||
  hostname.endsWith(".localhost") ||
  hostname === "[::1]" ||
  /^127(\.\d{1,3}){3}$/.test(hostname)

/** Whether the user of the page made the request; see `IDLE_HEADER`. */
export const isActive = ({ headers }: Pick<BrowserRequest, "headers">): boolean =>
  headers[IDLE_HEADER] === undefined

/** The name and attributes of the session cookie. `SameSite=Strict`: browsers do not send it with requests of other sites. */
export const cookieFor = (
  reached: Exclude<Transport, "open">,
  { headers }: Pick<BrowserRequest, "headers">
) => ({
  name: reached === "https" ? SECURE_COOKIE : loopbackCookie(headers),
  options: { httpOnly: true, secure: reached === "https", sameSite: "strict", path: "/" } as const
})

/** The parts of a session's token: of the cookie, and over HTTP on loopback of the page, see `PAGE_HEADER`. */
export const splitToken = (reached: Exclude<Transport, "open">, token: Redacted.Redacted) => {
  const text = Redacted.value(token)
  return reached === "https"
    ? { cookie: text, page: undefined }
    : { cookie: text.slice(0, -PAGE_CHARACTERS), page: text.slice(-PAGE_CHARACTERS) }
}

/** The cookie without the prefix. It is accepted on loopback only: elsewhere another host of the domain could have set it. */
const openCookie = ({ cookies, headers }: BrowserRequest): string | undefined =>
  isLoopback(URL.parse(`http://${headers["host"] ?? ""}`)?.hostname ?? "")
    ? cookies[loopbackCookie(headers)]
    : undefined

/** Whether a request has a session cookie. */
export const hasSessionCookie = (request: BrowserRequest): boolean =>
  (request.cookies[SECURE_COOKIE] ?? openCookie(request)) !== undefined

/** The session token of a request; empty without a cookie, or on loopback without the page's part. */
export const sessionToken = (request: BrowserRequest): Redacted.Redacted => {
  const [cookie, page] = [openCookie(request), request.headers[PAGE_HEADER]]
  const open = cookie === undefined || page === undefined ? "" : cookie + page
  return Redacted.make(request.cookies[SECURE_COOKIE] ?? open, { label: "ConsoleToken" })
}
