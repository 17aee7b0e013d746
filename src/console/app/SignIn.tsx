import { type FormEvent, useEffect, useState } from "react"
import { Button } from "../ui/Button.tsx"
import { Field } from "../ui/Field.tsx"
import { FailureNotice } from "../ui/FailureNotice.tsx"
import type { Failure } from "../ui/problemFailure.ts"
import { Logo } from "./Logo.tsx"
import { readProvider, signIn, singleSignOnAddress } from "./sessionRequests.ts"

/** The sign-in page. It exchanges an API key for a session of eight hours and does not keep the key. */
export const SignIn = ({
  expired,
  onKeyEntered,
  onSignedIn
}: {
  readonly expired: boolean
  /** Runs when its user types, so that what follows can be loaded meanwhile. */
  readonly onKeyEntered?: () => void
  /** Gets the session as the service sent it. */
  readonly onSignedIn: (session: unknown) => void
}) => {
  const [key, setKey] = useState("")
  const [provider, setProvider] = useState<string>()
  useEffect(() => {
    let isShown = true
    const show = async () => {
      const name = await readProvider()
      if (isShown) setProvider(name)
    }
    void show()
    return () => {
      isShown = false
    }
  }, [])
  const [pending, setPending] = useState(false)
  const [failure, setFailure] = useState<Failure>()
  const send = async () => {
    setPending(true)
    setFailure(undefined)
    const result = await signIn(key.trim())
    setPending(false)
    if ("failure" in result) setFailure(result.failure)
    else onSignedIn(result.session)
  }
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (!pending) void send()
  }
  return (
    <main className="sign-in">
      <form className="card sign-in-card" onSubmit={submit}>
        <div className="brand large">
          <Logo /> Countersign
        </div>
        <h1>Sign in</h1>
        <p className="quiet">
          {expired
            ? "Your session has ended, or its API key was revoked. Sign in again to continue."
            : "Use an API key of your organization. Its scopes determine what you can see and do."}
        </p>
        {provider === undefined ? null : (
          <>
            {/* A navigation, not a request: it leads to the identity provider and back to this page. */}
            <a className="button wide" href={singleSignOnAddress()}>
              Sign in with {provider}
            </a>
            <p className="quiet small">Or with an API key:</p>
          </>
        )}
        <FailureNotice failure={failure} />
        <Field label="API key">
          {(field) => (
            <input
              {...field}
              type="password"
              name="key"
              autoComplete="current-password"
              spellCheck={false}
              required
              // oxlint-disable-next-line jsx-a11y/no-autofocus -- the page has no other control to focus
              autoFocus
              placeholder="csk_…"
              value={key}
              onChange={(event) => {
                setKey(event.target.value)
                onKeyEntered?.()
              }}
            />
          )}
        </Field>
        <Button type="submit" kind="primary" pending={pending} wide>
          Sign in
        </Button>
        <p className="quiet small">
          The key is sent only to this service and is not stored in the browser. A session lasts eight hours
          and ends early without input, and if the key expires or is revoked.
        </p>
      </form>
    </main>
  )
}
