import { Effect } from "effect"
import { useEffect } from "react"
import { useAtomValue, registry } from "../state/atoms.ts"
import { consoleClient } from "../state/consoleClient.ts"
import { sessionAtom, endSession, enterSession } from "../state/session.ts"
import { Button } from "../ui/Button.tsx"
import { pathAtom } from "./router.tsx"
import { matchRoute } from "./routes.ts"
import { Shell } from "./Shell.tsx"
import { SignIn } from "./SignIn.tsx"

/** The page's code comes while it is asked who is signed in, not after. */
const begin = () => {
  const path = registry.get(pathAtom)
  // Code that does not come is said where the page would be shown.
  matchRoute(path === "/" ? START : path)
    ?.route.load()
    .catch(() => undefined)
  ask()
}

/** Where the page begins for most: what waits for a person. */
const START = "/approvals"

/** Learns who is signed in. Nobody is an answer too; none at all is said, and asked again on request. */
const ask = () =>
  void Effect.runPromise(
    consoleClient.session.get({}).pipe(
      Effect.map((session) => (session === null ? endSession() : enterSession(session))),
      Effect.catch(() => Effect.sync(() => registry.set(sessionAtom, { _tag: "Unreachable" })))
    )
  )

/** The whole page: the way in, or what is behind it. */
export const App = () => {
  const state = useAtomValue(sessionAtom)
  useEffect(begin, [])
  switch (state._tag) {
    case "Unknown":
      return <div className="boot" aria-busy="true" />
    case "Unreachable":
      return (
        <main className="sign-in">
          <div className="card sign-in-card" role="alert">
            <h1>The service did not answer</h1>
            <p className="quiet">It may be restarting, or the network is away.</p>
            <Button kind="primary" onClick={ask}>
              Try again
            </Button>
          </div>
        </main>
      )
    case "SignedOut":
      return <SignIn over={state.over} />
    case "SignedIn":
      return <Shell session={state.session} />
  }
}
