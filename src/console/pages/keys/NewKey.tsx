import { Array as Arr, DateTime } from "effect"
import { type FormEvent, useState } from "react"
import { Preset, presetScopes, type Scope } from "../../../domain/identity/Scope.ts"
import { apiClient } from "../../state/apiClient.ts"
import { useSession } from "../../state/session.ts"
import { Button } from "../../ui/Button.tsx"
import { Dialog } from "../../ui/Dialog.tsx"
import { fieldError } from "../../ui/Failure.ts"
import { Field } from "../../ui/Field.tsx"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { useAction } from "../../ui/useAction.ts"

/** What each preset is for. */
const purposes: Record<Preset, string> = {
  admin: "everything, these settings too",
  reviewer: "a person who decides approvals and reviews feedback",
  runtime: "an agent or a task runner",
  integration: "a system that sends feedback"
}

/** A key is made, for what the one that signed in may itself do. */
export const NewKey = ({
  onClose,
  onMade
}: {
  readonly onClose: () => void
  readonly onMade: (secret: string) => void
}) => {
  const session = useSession()
  const [name, setName] = useState("")
  const [email, setEmail] = useState("")
  const [expires, setExpires] = useState("")
  const grantable = Preset.literals.filter((one) =>
    presetScopes(one).every((scope) => session.scopes.includes(scope))
  )
  // Undefined: the key that signed in holds none of them whole, and gives what it has scope by scope.
  const [preset, setPreset] = useState(grantable.find((one) => one === "reviewer") ?? grantable[0])
  const [given, setGiven] = useState<ReadonlyArray<Scope>>([])
  const create = useAction(() =>
    apiClient.api_keys.create({
      payload: {
        name: name.trim(),
        ...(preset !== undefined ? { preset } : Arr.isReadonlyArrayNonEmpty(given) ? { scopes: given } : {}),
        ...(email.trim() === "" ? {} : { email: email.trim() }),
        ...(expires === "" ? {} : { expires_at: DateTime.makeUnsafe(new Date(expires)) })
      }
    })
  )
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    const made = await create.run()
    if (made !== undefined) onMade(made.secret)
  }
  return (
    <Dialog open title="New key" onClose={onClose}>
      <form className="stack" onSubmit={(event) => void submit(event)}>
        <FailureNotice failure={create.failure} />
        <Field
          label="Name"
          hint="A person's name, or the system's."
          fault={fieldError(create.failure, "name")}
        >
          {(field) => (
            <input
              {...field}
              required
              maxLength={200}
              value={name}
              onChange={(event) => setName(event.target.value)}
            />
          )}
        </Field>
        <fieldset className="field">
          <legend className="legend">What it is for</legend>
          {grantable.map((one) => (
            <label key={one} className="check">
              <input type="radio" name="preset" checked={preset === one} onChange={() => setPreset(one)} />
              <span>
                <strong>{one}</strong> <span className="quiet">{purposes[one]}</span>
              </span>
            </label>
          ))}
          {(preset === undefined ? session.scopes : []).map((scope) => (
            <label key={scope} className="check">
              <input
                type="checkbox"
                checked={given.includes(scope)}
                onChange={({ target }) =>
                  setGiven(target.checked ? [...given, scope] : given.filter((one) => one !== scope))
                }
              />
              <code>{scope}</code>
            </label>
          ))}
        </fieldset>
        {preset === "reviewer" || preset === "admin" ? (
          <Field
            label="Email, for notices of approvals"
            hint="Optional. Sent where the service has a mail server."
            fault={fieldError(create.failure, "email")}
          >
            {(field) => (
              <input
                {...field}
                type="email"
                value={email}
                onChange={(event) => setEmail(event.target.value)}
              />
            )}
          </Field>
        ) : null}
        <Field label="Ends" hint="Optional." fault={fieldError(create.failure, "expires_at")}>
          {(field) => (
            <input
              {...field}
              type="datetime-local"
              value={expires}
              onChange={(event) => setExpires(event.target.value)}
            />
          )}
        </Field>
        <div className="dialog-actions">
          <Button onClick={onClose}>Cancel</Button>
          <Button
            kind="primary"
            type="submit"
            pending={create.pending}
            disabled={preset === undefined && given.length === 0}
          >
            Make the key
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
