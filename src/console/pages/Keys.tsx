import { DateTime } from "effect"
import { type FormEvent, useState } from "react"
import type { ApiKey } from "../../domain/ApiKey.ts"
import type { KeyId } from "../../domain/Ids.ts"
import { Preset, presetScopes } from "../../domain/Scope.ts"
import { useNow } from "../state/clock.ts"
import { refresh } from "../state/atoms.ts"
import { pagesOf } from "../state/pages.ts"
import { service } from "../state/service.ts"
import { useSession } from "../state/session.ts"
import { Badge } from "../ui/Badge.tsx"
import { Button } from "../ui/Button.tsx"
import { Confirm } from "../ui/Confirm.tsx"
import { Dialog } from "../ui/Dialog.tsx"
import { faultOf } from "../ui/failure.ts"
import { Field } from "../ui/Field.tsx"
import { PageHead } from "../ui/PageHead.tsx"
import { Pages } from "../ui/Pages.tsx"
import { Problem } from "../ui/Problem.tsx"
import { Safe } from "../ui/Safe.tsx"
import { SecretDialog } from "../ui/Secret.tsx"
import { Ago, At } from "../ui/Time.tsx"
import { say } from "../ui/toasts.tsx"
import { useAction } from "../ui/useAction.ts"

const keysAtom = pagesOf(
  (cursor: KeyId | undefined) => service.api_keys.list({ query: cursor === undefined ? {} : { cursor } }),
  "keys"
)

/** What each preset is for. */
const purposes: Record<Preset, string> = {
  admin: "everything, these settings too",
  reviewer: "a person who decides approvals and reviews feedback",
  runtime: "an agent or a task runner",
  integration: "a system that sends feedback"
}

/** Who may do what: keys, each shown once when it is made. */
export default function Keys() {
  const [making, setMaking] = useState(false)
  const [secret, setSecret] = useState<string>()
  return (
    <>
      <PageHead
        title="Keys"
        aside={
          <Button kind="primary" onClick={() => setMaking(true)}>
            New key
          </Button>
        }
      >
        Whoever holds a key acts in its name. A person has one of their own, so that decisions tell who made
        them.
      </PageHead>
      <Pages atom={keysAtom}>
        {(keys) => (
          <div className="card table-scroll">
            <table className="table listed">
              <thead>
                <tr>
                  <th scope="col">Name</th>
                  <th scope="col">May do</th>
                  <th scope="col">State</th>
                  <th scope="col">Made</th>
                  <th scope="col">
                    <span className="visually-hidden">Actions</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {keys.map((key) => (
                  <Row key={key.id} held={key} />
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Pages>
      {making ? (
        <NewKey
          onClose={() => setMaking(false)}
          onMade={(text) => {
            setMaking(false)
            setSecret(text)
            refresh(keysAtom)
          }}
        />
      ) : null}
      <SecretDialog
        secret={secret}
        title="The new key"
        what="Give it to whom it is for by a safe way."
        onClose={() => setSecret(undefined)}
      />
    </>
  )
}

const Row = ({ held }: { readonly held: ApiKey }) => {
  const now = useNow()
  const session = useSession()
  const expired = held.expires_at !== null && DateTime.toEpochMillis(held.expires_at) <= now
  const usable = held.revoked_at === null && !expired
  return (
    <tr>
      <td>
        <strong>
          <Safe text={held.name} />
        </strong>
        {held.id === session.key.id ? <span className="quiet"> (you)</span> : null}
        <div className="id quiet">{held.hint}…</div>
        {held.email === null ? null : (
          <div className="quiet small">
            <Safe text={held.email} />
          </div>
        )}
      </td>
      <td>
        {held.preset ?? "chosen scopes"}
        <details className="scopes">
          <summary>{held.scopes.length} scopes</summary>
          <ul>
            {held.scopes.map((scope) => (
              <li key={scope}>
                <code>{scope}</code>
              </li>
            ))}
          </ul>
        </details>
      </td>
      <td>
        {held.revoked_at !== null ? (
          <Badge tone="bad">revoked</Badge>
        ) : expired ? (
          <Badge tone="quiet">expired</Badge>
        ) : (
          <Badge tone="good">works</Badge>
        )}
        {held.expires_at === null || !usable ? null : (
          <div className="quiet small">
            until <At time={held.expires_at} />
          </div>
        )}
      </td>
      <td>
        <Ago time={held.created_at} />
        {held.created_by === null ? null : (
          <div className="quiet small">
            by <Safe text={held.created_by.name} />
          </div>
        )}
      </td>
      <td className="actions">
        {usable ? (
          <Confirm
            label="Revoke"
            title="Revoke this key?"
            act={() => service.api_keys.revoke({ params: { id: held.id } })}
            onDone={() => {
              say("The key is revoked")
              refresh(keysAtom)
            }}
          >
            <p>
              <Safe text={held.name} /> stops working within five seconds, and who signed in with it is signed
              out. It cannot be taken back.
            </p>
          </Confirm>
        ) : null}
      </td>
    </tr>
  )
}

const NewKey = ({
  onClose,
  onMade
}: {
  readonly onClose: () => void
  readonly onMade: (secret: string) => void
}) => {
  const session = useSession()
  const [name, setName] = useState("")
  const [preset, setPreset] = useState<Preset>("reviewer")
  const [email, setEmail] = useState("")
  const [expires, setExpires] = useState("")
  const grantable = Preset.literals.filter((one) =>
    presetScopes(one).every((scope) => session.scopes.includes(scope))
  )
  const create = useAction(() =>
    service.api_keys.create({
      payload: {
        name: name.trim(),
        preset,
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
        <Problem failure={create.failure} />
        <Field label="Name" hint="A person's name, or the system's." fault={faultOf(create.failure, "name")}>
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
        </fieldset>
        {preset === "reviewer" || preset === "admin" ? (
          <Field
            label="Email, for notices of approvals"
            hint="Optional. Sent where the service has a mail server."
            fault={faultOf(create.failure, "email")}
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
        <Field label="Ends" hint="Optional." fault={faultOf(create.failure, "expires_at")}>
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
          <Button kind="primary" type="submit" pending={create.pending}>
            Make the key
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
