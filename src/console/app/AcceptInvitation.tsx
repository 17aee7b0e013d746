import { useState } from "react"
import { CONSOLE_PATH } from "../../api/console/consolePath.ts"
import { Button } from "../ui/Button.tsx"
import { CopyButton } from "../ui/CopyButton.tsx"
import { FailureNotice } from "../ui/FailureNotice.tsx"
import type { Failure } from "../ui/problemFailure.ts"
import { Toasts } from "../ui/Toasts.tsx"
import { Logo } from "./Logo.tsx"
import { type AcceptedInvitation, acceptInvitation, signIn } from "./sessionRequests.ts"

/**
 * The page that the link of an invitation opens. Opening it changes nothing, because mail scanners open links too; its button accepts. It then
 * shows the new API key once, and signs in with it.
 */
export default function AcceptInvitation() {
  const [token] = useState(() => location.hash.slice(1))
  const [accepted, setAccepted] = useState<AcceptedInvitation>()
  const [pending, setPending] = useState(false)
  const [failure, setFailure] = useState<Failure>()
  const accept = async () => {
    setPending(true)
    setFailure(undefined)
    const result = await acceptInvitation(token)
    setPending(false)
    if ("failure" in result) return setFailure(result.failure)
    // The link cannot be used again.
    history.replaceState(history.state, "", location.pathname)
    setAccepted(result.accepted)
  }
  const enter = async (secret: string) => {
    setPending(true)
    setFailure(undefined)
    const result = await signIn(secret)
    if ("session" in result) return location.replace(CONSOLE_PATH)
    setPending(false)
    setFailure(result.failure)
  }
  return (
    <main className="sign-in">
      <div className="card sign-in-card">
        <div className="brand large">
          <Logo /> Countersign
        </div>
        {accepted === undefined ? (
          <>
            <h1>Accept your invitation</h1>
            <p className="quiet">
              You get an API key of your own. You sign in to this console with it, and it records what you
              decide in your name.
            </p>
            <FailureNotice failure={failure} />
            <Button kind="primary" wide pending={pending} onClick={() => void accept()}>
              Accept the invitation
            </Button>
          </>
        ) : (
          <>
            <h1>Your API key</h1>
            <p>
              Store it now, for example in a password manager: it is not shown again, and you need it for each
              sign-in. It is named “{accepted.name}”.
            </p>
            <div className="secret">
              <code>{accepted.secret}</code>
              <CopyButton label="Copy the API key" caption="Copy" text={accepted.secret} />
            </div>
            <FailureNotice failure={failure} />
            <Button kind="primary" wide pending={pending} onClick={() => void enter(accepted.secret)}>
              I have stored it, sign in
            </Button>
          </>
        )}
      </div>
      <Toasts />
    </main>
  )
}
