import { Effect } from "effect"
import { type FormEvent, useState } from "react"
import { consoleClient } from "../state/consoleClient.ts"
import { enterSession } from "../state/session.ts"
import { Button } from "../ui/Button.tsx"
import { Field } from "../ui/Field.tsx"
import { FailureNotice } from "../ui/FailureNotice.tsx"
import { useAction } from "../ui/useAction.ts"
import { Logo } from "./Logo.tsx"

/** The way in: an API key becomes a session of eight hours. The page forgets the key at once. */
export const SignIn = ({ over }: { readonly over: boolean }) => {
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
          {over
            ? "The session is over, or its key was revoked. Sign in again to go on where you were."
            : "With an API key of your organization. What you see and may do follows from its scopes."}
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
              // oxlint-disable-next-line jsx-a11y/no-autofocus -- it is the one thing to do here
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
          The key goes to this service and is not kept in the browser. The session ends after eight hours, or
          when the key does.
        </p>
      </form>
    </main>
  )
}
