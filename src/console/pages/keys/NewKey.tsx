import { Array as Arr, DateTime } from "effect"
import { type FormEvent, useState } from "react"
import { Preset, presetScopes, type Scope } from "../../../domain/identity/Scope.ts"
import { scopePurposes } from "../../../domain/identity/Scope.ts"
import { apiClient } from "../../state/apiClient.ts"
import { useSession } from "../../state/session.ts"
import { Button } from "../../ui/Button.tsx"
import { Dialog } from "../../ui/Dialog.tsx"
import { fieldError } from "../../ui/Failure.ts"
import { Field } from "../../ui/Field.tsx"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { useAction } from "../../ui/useAction.ts"
import { KeyEmailField, KeyNameField } from "./KeyFields.tsx"

/** The purpose of each preset. */
const purposes: Record<Preset, string> = {
  admin: "full access, including settings",
  reviewer: "people who decide approvals and review feedback",
  runtime: "agents and task runners",
  hook: "coding agents, which read no sessions but their own",
  integration: "systems that submit feedback",
  end_user_feedback: "servers whose pages collect feedback of end users"
}

const splitList = (list: string): ReadonlyArray<string> => list.split(/[\s,]+/).filter((one) => one !== "")

/** A dialog that creates an API key, with a preset or with single scopes. It offers only the scopes of the session's own key. */
export const NewKey = ({
  onClose,
  onCreated
}: {
  readonly onClose: () => void
  readonly onCreated: (secret: string) => void
}) => {
  const session = useSession()
  const [name, setName] = useState("")
  const [groups, setGroups] = useState("")
  const [email, setEmail] = useState("")
  const [expires, setExpires] = useState("")
  const [networks, setNetworks] = useState("")
  const grantable = Preset.literals.filter((one) =>
    presetScopes(one).every((scope) => session.scopes.includes(scope))
  )
  // Undefined: the scopes are chosen one by one.
  const [preset, setPreset] = useState(grantable.find((one) => one === "reviewer") ?? grantable[0])
  const [scopes, setScopes] = useState<ReadonlyArray<Scope>>([])
  const listed = splitList(networks)
  const decides = (preset === undefined ? scopes : presetScopes(preset)).includes("approvals.decide")
  const create = useAction(() =>
    apiClient.apiKeys.create({
      payload: {
        name: name.trim(),
        ...(preset !== undefined ? { preset } : Arr.isReadonlyArrayNonEmpty(scopes) ? { scopes } : {}),
        ...(decides ? { groups: splitList(groups) } : {}),
        ...(email.trim() === "" || !decides ? {} : { email: email.trim() }),
        ...(Arr.isReadonlyArrayNonEmpty(listed) ? { allowed_networks: listed } : {}),
        ...(expires === "" ? {} : { expires_at: DateTime.makeUnsafe(new Date(expires)) })
      }
    })
  )
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    const created = await create.run()
    if (created !== undefined) onCreated(created.secret)
  }
  return (
    <Dialog open title="New API key" onClose={onClose}>
      <form className="stack" onSubmit={(event) => void submit(event)}>
        <FailureNotice failure={create.failure} />
        <KeyNameField
          hint="The person or system that uses the key."
          failure={create.failure}
          value={name}
          onChange={setName}
        />
        <fieldset className="field">
          <legend className="legend">Access</legend>
          {grantable.map((one) => (
            <label key={one} className="check">
              <input type="radio" name="preset" checked={preset === one} onChange={() => setPreset(one)} />
              <span>
                <strong>{one}</strong> <span className="quiet">{purposes[one]}</span>
              </span>
            </label>
          ))}
          <label className="check">
            <input
              type="radio"
              name="preset"
              checked={preset === undefined}
              onChange={() => {
                // A start for scopes that differ little from the chosen preset.
                if (preset !== undefined) setScopes(presetScopes(preset))
                setPreset(undefined)
              }}
            />
            <span>
              <strong>custom</strong> <span className="quiet">scopes that you choose</span>
            </span>
          </label>
        </fieldset>
        {preset === undefined ? (
          <fieldset className="field">
            <legend className="legend">Scopes</legend>
            <p className="hint">A key can grant only scopes that it has itself.</p>
            <div className="row-actions scope-starts">
              {grantable.map((one) => (
                <Button key={one} small onClick={() => setScopes(presetScopes(one))}>
                  Those of {one}
                </Button>
              ))}
              <Button small disabled={scopes.length === 0} onClick={() => setScopes([])}>
                None
              </Button>
            </div>
            <div className="scope-choices">
              {session.scopes.map((scope) => (
                <label key={scope} className="check">
                  <input
                    type="checkbox"
                    checked={scopes.includes(scope)}
                    onChange={({ target }) =>
                      setScopes(target.checked ? [...scopes, scope] : scopes.filter((one) => one !== scope))
                    }
                  />
                  <span>
                    <code>{scope}</code>{" "}
                    <span className="quiet small">{scopePurposes[scope].replaceAll("`", "")}</span>
                  </span>
                </label>
              ))}
            </div>
          </fieldset>
        ) : null}
        {decides ? (
          <KeyEmailField
            hint="Optional. Notifications require COUNTERSIGN_SMTP_URL."
            failure={create.failure}
            value={email}
            onChange={setEmail}
          />
        ) : null}
        {decides ? (
          <Field
            label="Groups"
            hint="Optional. Rules can ask for approvals by members of a group, such as finance. Separated by commas."
            error={fieldError(create.failure, "groups")}
          >
            {(field) => (
              <input
                {...field}
                spellCheck={false}
                autoCapitalize="none"
                value={groups}
                onChange={(event) => setGroups(event.target.value)}
              />
            )}
          </Field>
        ) : null}
        <Field label="Expires" hint="Optional." error={fieldError(create.failure, "expires_at")}>
          {(field) => (
            <input
              {...field}
              type="datetime-local"
              value={expires}
              onChange={(event) => setExpires(event.target.value)}
            />
          )}
        </Field>
        <Field
          label="Allowed networks"
          hint="Optional. Requests from elsewhere are refused. In CIDR notation, such as 203.0.113.0/24, separated by commas."
          error={fieldError(create.failure, "allowed_networks")}
        >
          {(field) => (
            <input {...field} value={networks} onChange={(event) => setNetworks(event.target.value)} />
          )}
        </Field>
        <div className="dialog-actions">
          <Button onClick={onClose}>Cancel</Button>
          <Button
            kind="primary"
            type="submit"
            pending={create.pending}
            disabled={preset === undefined && scopes.length === 0}
          >
            Create key
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
