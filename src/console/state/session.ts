/** The signed-in session, and the page's offset to the server's clock. */
import { DateTime } from "effect"
import { Atom } from "effect/reactivity"
import { CONSOLE_PATH, type ConsoleSession } from "../../api/Console.ts"
import type { KeyId } from "../../domain/Ids.ts"
import type { Scope } from "../../domain/identity/Scope.ts"
import { registry, useAtomValue } from "./atoms.ts"

/** The session as far as the page has loaded it. `expired`: a session existed and ended, which the sign-in page explains. */
export type SessionState =
  | { readonly _tag: "Unknown" }
  | { readonly _tag: "SignedOut"; readonly expired: boolean }
  | { readonly _tag: "SignedIn"; readonly session: ConsoleSession }
  | { readonly _tag: "Unreachable" }

export const sessionAtom = Atom.keepAlive(Atom.make<SessionState>({ _tag: "Unknown" }))

/** Milliseconds that the server's clock is ahead of this device's. */
let clockOffsetMillis = 0

/** The server's time in epoch milliseconds. */
export const serverNow = (): number => Date.now() + clockOffsetMillis

/** The API key of this page's first session. The page's data belongs to it. */
let pageKeyId: KeyId | undefined

/** Whether a key's data may be shown by this page. If not, reloads the console, as the key that the browser is signed in with by now. */
export const isKeyOfPage = (id: string): boolean => {
  const isOfPage = pageKeyId === undefined || id === pageKeyId
  if (!isOfPage) leaveConsole()
  return isOfPage
}

/** Shows the page for a session. Returns false, and reloads the console, if the page's data belongs to another API key. */
export const enterSession = (session: ConsoleSession): boolean => {
  if (!isKeyOfPage(session.key.id)) return false
  pageKeyId = session.key.id
  clockOffsetMillis = DateTime.toEpochMillis(session.now) - Date.now()
  registry.set(sessionAtom, { _tag: "SignedIn", session })
  return true
}

/** Where unsaved work is stored: `keptWork`. */
export const WORK_KEY = "countersign.work"

let isLeaving = false

/** Reloads the console at its start, which discards all data in memory, and unsaved work, before another person signs in. */
export const leaveConsole = (): void => {
  try {
    sessionStorage.removeItem(WORK_KEY)
  } catch {
    // Without access to the storage, nothing is stored.
  }
  // A second navigation would abort the first.
  if (!isLeaving) location.replace(CONSOLE_PATH)
  isLeaving = true
}

/** Shows the sign-in page after the server rejected the session. */
export const endSession = (): void => {
  const { _tag } = registry.get(sessionAtom)
  if (_tag !== "SignedOut") registry.set(sessionAtom, { _tag: "SignedOut", expired: _tag === "SignedIn" })
}

/** The session, for components that render only while signed in. */
export const useSession = (): ConsoleSession => {
  const state = useAtomValue(sessionAtom)
  if (state._tag !== "SignedIn") throw new Error("useSession requires a signed-in session")
  return state.session
}

/** Tells whether the session's key has a scope. Controls for other operations are not shown. */
export const useCan = (): ((scope: Scope) => boolean) => {
  const { scopes } = useSession()
  return (scope) => scopes.includes(scope)
}

/** Tells whether the session's key has all rights of another key or person. Who lacks one cannot change, revoke or end what is theirs. */
export const useHasRightsOf = (): ((other: {
  readonly scopes: ReadonlyArray<string>
  readonly groups: ReadonlyArray<string>
}) => boolean) => {
  const own = useSession()
  const ownScopes: ReadonlySet<string> = new Set(own.scopes)
  return ({ groups, scopes }) =>
    scopes.every((scope) => ownScopes.has(scope)) &&
    (ownScopes.has("rules.write") || groups.every((group) => own.groups.includes(group)))
}
