import { Array as Arr, DateTime, Effect, Schema } from "effect"
import { Preset, presetPurpose, presetScopes, Scope, scopePurposes } from "../../../domain/identity/Scope.ts"
import { useAtomValue } from "../../state/atoms.ts"
import { apiClient } from "../../state/apiClient.ts"
import { useSession } from "../../state/session.ts"
import { Button } from "../../ui/Button.tsx"
import { Checkbox } from "../../ui/Checkbox.tsx"
import { fieldError } from "../../ui/Failure.ts"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { FormDialog } from "../../ui/FormDialog.tsx"
import { RadioField } from "../../ui/RadioField.tsx"
import { TextField } from "../../ui/TextField.tsx"
import { useAction } from "../../ui/useAction.ts"
import { useFormDraft } from "../../ui/useFormDraft.ts"
import { invitationsAtom } from "./Invitations.tsx"
import { KeyEmailField, KeyNameField } from "./KeyFields.tsx"

const splitList = (list: string): ReadonlyArray<string> => list.split(/[\s,]+/).filter((one) => one !== "")

const Changes = Schema.Struct({
  name: Schema.optionalKey(Schema.String),
  groups: Schema.optionalKey(Schema.String),
  email: Schema.optionalKey(Schema.String),
  expires: Schema.optionalKey(Schema.String),
  networks: Schema.optionalKey(Schema.String),
  // Custom: the scopes are chosen one by one.
  access: Schema.optionalKey(Schema.Literals([...Preset.literals, "custom"])),
  scopes: Schema.optionalKey(Schema.Array(Scope)),
  handover: Schema.optionalKey(Schema.Literals(["show", "mail"]))
})

/** The kept input of the dialog. */
export const NEW_KEY = "new key"

/** Ways to give the key to the person or system that uses it. */
const handovers = [
  ["show", "Show it to me", "you hand it over by a secure channel"],
  ["mail", "Invite a person by email", "they get a link that works once, and the key when they accept"]
] as const

/** A dialog that creates an API key, or invites a person to one, with a preset or with single scopes. It offers only the scopes of the session's own key. */
export const NewKey = ({
  invites,
  onClose,
  onCreated,
  onInvited
}: {
  /** Whether it was opened to invite. */
  readonly invites: boolean
  readonly onInvited: () => void
  readonly onClose: () => void
  readonly onCreated: (secret: string) => void
}) => {
  const session = useSession()
  const grantable = Preset.literals.filter((one) =>
    presetScopes(one).every((scope) => session.scopes.includes(scope))
  )
  const draft = useFormDraft<Required<typeof Changes.Type>>(NEW_KEY, Changes, {
    name: "",
    groups: "",
    email: "",
    expires: "",
    networks: "",
    access: grantable.find((one) => one === "reviewer") ?? grantable[0] ?? "custom",
    scopes: [],
    handover: invites ? "mail" : "show"
  })
  const { access, email, expires, groups, handover, name, networks, scopes } = draft.value
  const preset = access === "custom" ? undefined : access
  const listed = splitList(networks)
  const decides = (preset === undefined ? scopes : presetScopes(preset)).includes("approvals.decide")
  const isByMail = handover === "mail"
  const invitations = useAtomValue(invitationsAtom)
  const hasNoMail = invitations._tag === "Success" && !invitations.value.mail_configured
  /** Creates the key, or sends the invitation; returns the key's text. */
  const create = useAction(() => {
    const key = {
      name: name.trim(),
      ...(preset !== undefined ? { preset } : Arr.isReadonlyArrayNonEmpty(scopes) ? { scopes } : {}),
      ...(decides ? { groups: splitList(groups) } : {}),
      ...(Arr.isReadonlyArrayNonEmpty(listed) ? { allowed_networks: listed } : {}),
      ...(expires === "" ? {} : { expires_at: DateTime.makeUnsafe(new Date(expires)) })
    }
    return isByMail
      ? Effect.as(apiClient.invitations.create({ payload: { ...key, email: email.trim() } }), "")
      : Effect.map(
          apiClient.apiKeys.create({
            payload: { ...key, ...(email.trim() === "" || !decides ? {} : { email: email.trim() }) }
          }),
          ({ secret }) => secret
        )
  })
  const submit = async () => {
    const secret = await create.run()
    if (secret === undefined) return
    if (isByMail) onInvited()
    else onCreated(secret)
  }
  return (
    <FormDialog
      title={isByMail ? "Invite a person" : "New API key"}
      draft={draft}
      submit={isByMail ? "Send invitation" : "Create key"}
      pending={create.pending}
      disabled={(preset === undefined && scopes.length === 0) || (isByMail && hasNoMail)}
      onSubmit={submit}
      onClose={onClose}
    >
      <FailureNotice failure={create.failure} />
      <KeyNameField
        hint={isByMail ? "The person's name." : "The person or system that uses the key."}
        failure={create.failure}
        value={name}
        onChange={(name) => draft.set({ name })}
      />
      <RadioField
        legend="How they get the key"
        options={handovers}
        value={handover}
        onChange={(one) => draft.set({ handover: one })}
      />
      {isByMail && hasNoMail ? (
        <p className="notice warn">
          This installation has no mail server, so nobody can be invited by email. The operator configures one
          by <code>COUNTERSIGN_SMTP_URL</code> and <code>COUNTERSIGN_MAIL_FROM</code>. Without{" "}
          <code>COUNTERSIGN_PUBLIC_URL</code>, links lead to the address that the service listens on. Until
          then, show the key and hand it over yourself.
        </p>
      ) : null}
      {isByMail ? (
        <TextField
          label="Email"
          hint="Where the link is sent. Approval emails go there too, once it is accepted."
          error={fieldError(create.failure, "email")}
          type="email"
          required
          value={email}
          onChange={(email) => draft.set({ email })}
        />
      ) : null}
      <RadioField
        legend="Access"
        options={[
          ...grantable.map((one) => [one, one, presetPurpose(one)] as const),
          ["custom", "custom", "scopes that you choose"]
        ]}
        value={access}
        onChange={(chosen) =>
          draft.set({
            access: chosen,
            // A start for scopes that differ little from the preset that was chosen.
            ...(chosen === "custom" && preset !== undefined ? { scopes: presetScopes(preset) } : {})
          })
        }
      />
      {preset === undefined ? (
        <fieldset className="field">
          <legend className="legend">Scopes</legend>
          <p className="hint">A key can grant only scopes that it has itself.</p>
          <div className="row-actions scope-starts">
            {grantable.map((one) => (
              <Button key={one} small onClick={() => draft.set({ scopes: presetScopes(one) })}>
                Those of {one}
              </Button>
            ))}
            <Button small disabled={scopes.length === 0} onClick={() => draft.set({ scopes: [] })}>
              None
            </Button>
          </div>
          <div className="scope-choices">
            {session.scopes.map((scope) => (
              <Checkbox
                key={scope}
                checked={scopes.includes(scope)}
                onChange={(isChecked) =>
                  draft.set({
                    scopes: isChecked ? [...scopes, scope] : scopes.filter((one) => one !== scope)
                  })
                }
              >
                <code>{scope}</code>{" "}
                <span className="quiet small">{scopePurposes[scope].replaceAll("`", "")}</span>
              </Checkbox>
            ))}
          </div>
        </fieldset>
      ) : null}
      {decides && !isByMail ? (
        <KeyEmailField
          hint="Optional. Notifications require COUNTERSIGN_SMTP_URL."
          failure={create.failure}
          value={email}
          onChange={(email) => draft.set({ email })}
        />
      ) : null}
      {decides ? (
        <TextField
          label="Groups"
          hint="Optional. Rules can ask for approvals by members of a group, such as finance. Separated by commas."
          error={fieldError(create.failure, "groups")}
          spellCheck={false}
          autoCapitalize="none"
          value={groups}
          onChange={(groups) => draft.set({ groups })}
        />
      ) : null}
      <TextField
        label="Expires"
        hint="Optional."
        error={fieldError(create.failure, "expires_at")}
        type="datetime-local"
        value={expires}
        onChange={(expires) => draft.set({ expires })}
      />
      <TextField
        label="Allowed networks"
        hint="Optional. Requests from elsewhere are refused. In CIDR notation, such as 203.0.113.0/24, separated by commas."
        error={fieldError(create.failure, "allowed_networks")}
        value={networks}
        onChange={(networks) => draft.set({ networks })}
      />
    </FormDialog>
  )
}
