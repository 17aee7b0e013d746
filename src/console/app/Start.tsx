import { lazy, Suspense, useEffect, useState } from "react"
import { NoResponse } from "./NoResponse.tsx"
import { preload } from "./preload.ts"
import { readSession } from "./sessionRequests.ts"
import { SignIn } from "./SignIn.tsx"

const loadApp = () => import("./App.tsx")
const App = lazy(loadApp)

/** The page before the app is loaded, and the session to load it with. */
type Phase =
  | { readonly _tag: "Checking" }
  | { readonly _tag: "SignedOut" }
  | { readonly _tag: "NoResponse" }
  | { readonly _tag: "SignedIn"; readonly session: unknown }

const boot = <div className="boot" aria-busy="true" />

/** The root component: the sign-in page, or the app, whose code is loaded for a session only. */
export const Start = () => {
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
