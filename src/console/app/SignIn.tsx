import { Effect } from "effect"
import { type FormEvent, useState } from "react"
import { consoleClient } from "../state/consoleClient.ts"
import { enterSession } from "../state/session.ts"
import { Button } from "../ui/Button.tsx"
import { Field } from "../ui/Field.tsx"
import { FailureNotice } from "../ui/FailureNotice.tsx"
import { useAction } from "../ui/useAction.ts"
import { Logo } from "./Logo.tsx"

/** The sign-in page. It exchanges an API key for a session of eight hours and does not keep the key. */
export const SignIn = ({ expired }: { readonly expired: boolean }) => {
  const [key, setKey] = useState("")
  const { failure, pending, run } = useAction((given: string) =>
    Effect.tap(consoleClient.session.sign_in({ payload: { key: given } }), (session) =>
      Effect.sync(() => enterSession(session))
    )
  )
  const submit = (event: FormEvent) => {
    event.preventDefault()
    void run(key.trim())
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
              onChange={(event) => setKey(event.target.value)}
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
