/** Who is signed in. */
import { DateTime } from "effect"
import { Atom } from "effect/reactivity"
import { CONSOLE_PATH, type ConsoleSession } from "../../api/Console.ts"
import type { KeyId } from "../../domain/Ids.ts"
import type { Scope } from "../../domain/identity/Scope.ts"
import { registry, useAtomValue } from "./atoms.ts"

/** What is known of the session. `over`: it was there and ended, so that the page says why it asks again. */
export type SessionState =
  | { readonly _tag: "Unknown" }
  | { readonly _tag: "SignedOut"; readonly over: boolean }
  | { readonly _tag: "SignedIn"; readonly session: ConsoleSession }
  | { readonly _tag: "Unreachable" }

export const sessionAtom = Atom.keepAlive(Atom.make<SessionState>({ _tag: "Unknown" }))

/** Milliseconds that the service's clock is ahead of this device's. */
let clockOffsetMillis = 0

/** The service's time, in epoch milliseconds. */
export const serverNow = (): number => Date.now() + clockOffsetMillis

/** Whose page this is, from the first sign-in on. */
let pageKeyId: KeyId | undefined

/** Somebody is signed in. False: somebody else was before, so the page is left. */
export const enterSession = (session: ConsoleSession): boolean => {
  if (pageKeyId !== undefined && pageKeyId !== session.key.id) {
    leaveConsole()
    return false
  }
  pageKeyId = session.key.id
  clockOffsetMillis = DateTime.toEpochMillis(session.now) - Date.now()
  registry.set(sessionAtom, { _tag: "SignedIn", session })
  return true
}

/** Begins anew at the start, so that nothing stays of what the page knew: it is not for who comes next. */
export const leaveConsole = (): void => location.replace(CONSOLE_PATH)

/** The service no longer knows the session. */
export const endSession = (): void => {
  const { _tag } = registry.get(sessionAtom)
  if (_tag !== "SignedOut") registry.set(sessionAtom, { _tag: "SignedOut", over: _tag === "SignedIn" })
}

/** The session of a part of the page that is only shown to who is signed in. */
export const useSession = (): ConsoleSession => {
  const state = useAtomValue(sessionAtom)
  if (state._tag !== "SignedIn") throw new Error("Only shown to who is signed in")
  return state.session
}

/** Whether the key that signed in holds a scope: what it may not do is not offered. */
export const useCan = (): ((scope: Scope) => boolean) => {
  const { scopes } = useSession()
  return (scope) => scopes.includes(scope)
}
