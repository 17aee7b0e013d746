import { Effect, Option, Schema } from "effect"
import { useEffect } from "react"
import { ConsoleSession } from "../../api/Console.ts"
import { useAtomValue, registry } from "../state/atoms.ts"
import { isStillSignedIn } from "../state/inboxStream.ts"
import { onOtherTabsToken, readPageToken } from "../state/pageToken.ts"
import { sessionAtom, enterSession } from "../state/session.ts"
import { NoResponse } from "./NoResponse.tsx"
import { followPlaces } from "./place.ts"
import { preload } from "./preload.ts"
import { pathAtom } from "./router.tsx"
import { matchRoute } from "./routes.ts"
import { Shell } from "./Shell.tsx"
import { SignIn } from "./SignIn.tsx"

/** The page that most visits start at. */
const HOME = "/overview"

const decodeSession = Schema.decodeUnknownOption(Schema.toCodecJson(ConsoleSession))

/** Shows the page for a session as the service sent it. One that does not decode is of another version of the service. */
const open = (session: unknown): void => {
  const decoded = decodeSession(session)
  if (Option.isSome(decoded)) enterSession(decoded.value)
  else registry.set(sessionAtom, { _tag: "Unreachable" })
}

// The code of the requested page is loaded concurrently with the session, not after it.
const path = registry.get(pathAtom)
const requested = matchRoute(path === "/" ? HOME : path)
if (requested !== undefined) preload(requested.route.load)
followPlaces()
/** The page's part of the token with which the session was last looked for. */
let knownToken = readPageToken()

/** Looks for a session that another tab has begun, once for each. The refusal of an earlier request can arrive after the new token. */
const findOtherTabsSession = () => {
  const token = readPageToken()
  if (registry.get(sessionAtom)._tag !== "SignedOut" || token === knownToken) return
  knownToken = token
  void Effect.runPromise(isStillSignedIn)
}
onOtherTabsToken(findOtherTabsSession)
registry.subscribe(sessionAtom, findOtherTabsSession)

/** The app of a signed-in browser: the shell with the current page, or the sign-in page once the session has ended. */
export default function App({ session }: { readonly session: unknown }) {
  const state = useAtomValue(sessionAtom)
  useEffect(() => open(session), [session])
  switch (state._tag) {
    case "Unknown":
      return <div className="boot" aria-busy="true" />
    case "Unreachable":
      return <NoResponse onRetry={() => location.reload()} />
    case "SignedOut":
      return <SignIn expired={state.expired} onSignedIn={open} />
    case "SignedIn":
      return <Shell session={state.session} />
  }
}
