import { DateTime } from "effect"
import { useState } from "react"
import type { ApiKey } from "../../../domain/identity/ApiKey.ts"
import type { KeyId } from "../../../domain/Ids.ts"
import { useNow } from "../../state/useNow.ts"
import { refresh } from "../../state/atoms.ts"
import { pagedAtom } from "../../state/pagedAtom.ts"
import { apiClient } from "../../state/apiClient.ts"
import { useSession } from "../../state/session.ts"
import { Badge } from "../../ui/Badge.tsx"
import { Button } from "../../ui/Button.tsx"
import { ConfirmButton } from "../../ui/ConfirmButton.tsx"
import { Table } from "../../ui/Table.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { PagedList } from "../../ui/PagedList.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { SecretDialog } from "../../ui/SecretDialog.tsx"
import { RelativeTime, AbsoluteTime } from "../../ui/Time.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { NewKey } from "./NewKey.tsx"

const keysAtom = pagedAtom(
  (cursor: KeyId | undefined) => apiClient.api_keys.list({ query: cursor === undefined ? {} : { cursor } }),
  "keys"
)

/** The API keys of the organization: creation, with the secret shown once, and revocation. */
export default function Keys() {
  const [isCreating, setIsCreating] = useState(false)
  const [secret, setSecret] = useState<string>()
  return (
    <>
      <PageHeader
        title="API keys"
        aside={
          <Button kind="primary" onClick={() => setIsCreating(true)}>
            New key
          </Button>
        }
      >
        Actions are attributed to the key. Give each person their own key.
      </PageHeader>
      <PagedList atom={keysAtom}>
        {(keys) => (
          <Table
            columns={["Name", "Access", "Status", "Last used", "Created", { name: "Actions", hidden: true }]}
          >
            {keys.map((key) => (
              <Row key={key.id} apiKey={key} />
            ))}
          </Table>
        )}
      </PagedList>
      {isCreating ? (
        <NewKey
          onClose={() => setIsCreating(false)}
          onCreated={(text) => {
            setIsCreating(false)
            setSecret(text)
            refresh(keysAtom)
          }}
        />
      ) : null}
      <SecretDialog
        secret={secret}
        title="New API key"
        description="Share it over a secure channel."
        onClose={() => setSecret(undefined)}
      />
    </>
  )
}

const Row = ({ apiKey }: { readonly apiKey: ApiKey }) => {
  const now = useNow()
  const session = useSession()
  const expired = apiKey.expires_at !== null && DateTime.toEpochMillis(apiKey.expires_at) <= now
  const usable = apiKey.revoked_at === null && !expired
  return (
    <tr>
      <td>
        <strong>
          <UntrustedText text={apiKey.name} />
        </strong>
        {apiKey.id === session.key.id ? <span className="quiet"> (you)</span> : null}
        <div className="id quiet">{apiKey.hint}…</div>
        {apiKey.email === null ? null : (
          <div className="quiet small">
            <UntrustedText text={apiKey.email} />
            {apiKey.email_awaits_verification ? (
              <>
                {" "}
                <Badge tone="wait">Not verified</Badge>
              </>
            ) : apiKey.email_verified_at === null ? null : (
              " (verified)"
            )}
          </div>
        )}
      </td>
      <td>
        {apiKey.preset ?? "custom"}
        <details className="scopes">
          <summary>{apiKey.scopes.length === 1 ? "1 scope" : `${apiKey.scopes.length} scopes`}</summary>
          <ul>
            {apiKey.scopes.map((scope) => (
              <li key={scope}>
                <code>{scope}</code>
              </li>
            ))}
          </ul>
        </details>
        {apiKey.groups.length === 0 ? null : (
          <div className="quiet small">
            {apiKey.groups.length === 1 ? "group" : "groups"} {apiKey.groups.join(", ")}
          </div>
        )}
        {apiKey.allowed_networks === null ? null : (
          <div className="quiet small">from {apiKey.allowed_networks.join(", ")}</div>
        )}
      </td>
      <td>
        {apiKey.revoked_at !== null ? (
          <Badge tone="bad">{apiKey.revocation_reason === "leaked" ? "Leaked, revoked" : "Revoked"}</Badge>
        ) : expired ? (
          <Badge tone="quiet">Expired</Badge>
        ) : (
          <Badge tone="good">Active</Badge>
        )}
        {apiKey.expires_at === null || !usable ? null : (
          <div className="quiet small">
            expires <AbsoluteTime time={apiKey.expires_at} />
          </div>
        )}
      </td>
      <td>
        {apiKey.last_used_at === null ? (
          <span className="quiet">never</span>
        ) : (
          <RelativeTime time={apiKey.last_used_at} />
        )}
      </td>
      <td>
        <RelativeTime time={apiKey.created_at} />
        {apiKey.created_by === null ? null : (
          <div className="quiet small">
            by <UntrustedText text={apiKey.created_by.name} />
          </div>
        )}
      </td>
      <td className="actions">
        {usable && apiKey.email !== null && apiKey.email_awaits_verification ? (
          <ConfirmButton
            kind="plain"
            label="Send link"
            title="Send a verification link?"
            confirmLabel="Send"
            act={() => apiClient.api_keys.verify_email({ params: { id: apiKey.id } })}
            onDone={(key) => {
              showToast(key.email_verified_at === null ? "Link queued" : "The address is verified already")
              refresh(keysAtom)
            }}
          >
            <p>
              <UntrustedText text={apiKey.email} /> is sent an email with a link. Approval emails go to this
              address once its owner has opened the link and confirmed.
            </p>
          </ConfirmButton>
        ) : null}
        {usable ? (
          <ConfirmButton
            label="Revoke"
            title="Revoke this API key?"
            act={() => apiClient.api_keys.revoke({ params: { id: apiKey.id } })}
            onDone={() => {
              showToast("API key revoked")
              refresh(keysAtom)
            }}
          >
            <p>
              <UntrustedText text={apiKey.name} /> and the keys that it created stop working within five
              seconds, and their console sessions end. This cannot be undone.
            </p>
          </ConfirmButton>
        ) : null}
      </td>
    </tr>
  )
}
