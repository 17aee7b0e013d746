import { lazy, Suspense, useEffect, useState } from "react"
import { CONSOLE_PATH } from "../../api/console/consolePath.ts"
import { NoResponse } from "./NoResponse.tsx"
import { preload } from "./preload.ts"
import { readSession } from "./sessionRequests.ts"
import { SignIn } from "./SignIn.tsx"

const loadApp = () => import("./App.tsx")
const App = lazy(loadApp)

const AcceptInvitation = lazy(() => import("./AcceptInvitation.tsx"))

/** Where the link of an invitation leads. Whoever opens it need not be signed in. */
const INVITATION = `${CONSOLE_PATH}/invitation`

/** The page before the app is loaded, and the session to load it with. */
type Phase =
  | { readonly _tag: "Checking" }
  | { readonly _tag: "SignedOut" }
  | { readonly _tag: "NoResponse" }
  | { readonly _tag: "SignedIn"; readonly session: unknown }

const boot = <div className="boot" aria-busy="true" />

/** The root component: the page of an invitation, or that of the session. */
export const Start = () =>
  location.pathname === INVITATION ? (
    <Suspense fallback={boot}>
      <AcceptInvitation />
    </Suspense>
  ) : (
    <SessionStart />
  )

/** The sign-in page, or the app, whose code is loaded for a session only. */
const SessionStart = () => {
  const [phase, setPhase] = useState<Phase>({ _tag: "Checking" })
  const check = () =>
    void readSession().then(
      (session) => setPhase(session === null ? { _tag: "SignedOut" } : { _tag: "SignedIn", session }),
      () => setPhase({ _tag: "NoResponse" })
    )
  useEffect(check, [])
  switch (phase._tag) {
    case "Checking":
      return boot
    case "NoResponse":
      return <NoResponse onRetry={check} />
    case "SignedOut":
      return (
        <SignIn
          expired={false}
          onKeyEntered={() => preload(loadApp)}
          onSignedIn={(session) => setPhase({ _tag: "SignedIn", session })}
        />
      )
    case "SignedIn":
      return (
        <Suspense fallback={boot}>
          <App session={phase.session} />
        </Suspense>
      )
  }
}
