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

/** Loads the code of the requested page concurrently with the session, not after it. */ const start = () => {
  const path = registry.get(pathAtom)
  // A failed load is reported by the error boundary around the page.
  matchRoute(path === "/" ? HOME : path)
    ?.route.load()
    .catch(() => undefined)
  loadSession()
}

/** The page that most visits start at. */ const HOME = "/overview"

/** Requests the current session. Without an answer, the page shows that and offers a retry. */ const loadSession =
  () =>
    void Effect.runPromise(
      consoleClient.session.get({}).pipe(
        Effect.map((session) => (session === null ? endSession() : enterSession(session))),
        Effect.catch(() => Effect.sync(() => registry.set(sessionAtom, { _tag: "Unreachable" })))
      )
    )

/** The root component: the sign-in page, or the shell with the current page. */
export const App = () => {
  const state = useAtomValue(sessionAtom)
  useEffect(start, [])
  switch (state._tag) {
    case "Unknown":
      return <div className="boot" aria-busy="true" />
    case "Unreachable":
      return (
        <main className="sign-in">
          <div className="card sign-in-card" role="alert">
            <h1>No response from the service</h1>
            <p className="quiet">The service may be restarting or unreachable.</p>
            <Button kind="primary" onClick={loadSession}>
              Try again
            </Button>
          </div>
        </main>
      )
    case "SignedOut":
      return <SignIn expired={state.expired} />
    case "SignedIn":
      return <Shell session={state.session} />
  }
}
