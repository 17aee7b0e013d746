/**
 * The requests of the sign-in page, without the client of the API: the page is small, because it loads neither Effect nor the schemas.
 * Their responses are decoded by the app that is loaded then.
 */
import { CONSOLE_PATH } from "../../api/console/consolePath.ts"
import { PAGE_HEADER } from "../../api/console/pageToken.ts"
import { keepPageToken, pageHeaders } from "../state/pageToken.ts"
import { type Failure, failureOf, unreachable } from "../ui/problemFailure.ts"

const SESSION = `${CONSOLE_PATH}/session`

const OPTIONS: RequestInit = { credentials: "same-origin", redirect: "error", cache: "no-store" }

/** The session of this browser as the service sent it; null: signed out. Rejects without an answer. */
export const readSession = async (): Promise<unknown> => {
  const response = await fetch(SESSION, { ...OPTIONS, headers: pageHeaders() })
  if (!response.ok) throw new Error(`Status ${response.status}`)
  return response.json()
}

/** Exchanges an API key for a session. */
export const signIn = async (
  key: string
): Promise<{ readonly session: unknown } | { readonly failure: Failure }> => {
  try {
    const response = await fetch(SESSION, {
      ...OPTIONS,
      method: "POST",
      headers: { "content-type": "application/json", ...pageHeaders() },
      body: JSON.stringify({ key })
    })
    const body: unknown = await response.json()
    if (!response.ok) return { failure: failureOf(body) }
    keepPageToken(response.headers.get(PAGE_HEADER))
    return { session: body }
  } catch {
    return { failure: unreachable }
  }
}

/** The API key that accepting an invitation created. */
export interface AcceptedInvitation {
  readonly name: string
  readonly secret: string
}

/** Accepts the invitation with a token. */
export const acceptInvitation = async (
  token: string
): Promise<{ readonly accepted: AcceptedInvitation } | { readonly failure: Failure }> => {
  try {
    const response = await fetch(`${CONSOLE_PATH}/invitations`, {
      ...OPTIONS,
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ token })
    })
    const body: unknown = await response.json()
    if (!response.ok) return { failure: failureOf(body) }
    if (typeof body !== "object" || body === null || !("name" in body) || !("secret" in body))
      return { failure: unreachable }
    return { accepted: { name: String(body.name), secret: String(body.secret) } }
  } catch {
    return { failure: unreachable }
  }
}

/** The name of the identity provider; undefined: single sign-on is off, or the service did not answer. */
export const readProvider = async (): Promise<string | undefined> => {
  try {
    const body: unknown = await (await fetch(`${SESSION}/ways`, OPTIONS)).json()
    const name =
      typeof body === "object" && body !== null && "single_sign_on" in body ? body.single_sign_on : null
    return typeof name === "string" ? name : undefined
  } catch {
    return undefined
  }
}

/** The address that starts single sign-on and leads back to the current page. */
export const singleSignOnAddress = (): string => {
  const path = location.pathname.slice(CONSOLE_PATH.length) + location.search
  return `${CONSOLE_PATH}/single-sign-on?${new URLSearchParams({ return_to: path === "" ? "/" : path }).toString()}`
}
