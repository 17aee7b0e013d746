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

/** Who may do what: keys, each shown once when it is made. */
export default function Keys() {
  const [making, setMaking] = useState(false)
  const [secret, setSecret] = useState<string>()
  return (
    <>
      <PageHeader
        title="Keys"
        aside={
          <Button kind="primary" onClick={() => setMaking(true)}>
            New key
          </Button>
        }
      >
        Whoever holds a key acts in its name. A person has one of their own, so that decisions tell who made
        them.
      </PageHeader>
      <PagedList atom={keysAtom}>
        {(keys) => (
          <Table columns={["Name", "May do", "State", "Made", { name: "Actions", hidden: true }]}>
            {keys.map((key) => (
              <Row key={key.id} held={key} />
            ))}
          </Table>
        )}
      </PagedList>
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
        what="Pass it on by a safe channel."
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
          <UntrustedText text={held.name} />
        </strong>
        {held.id === session.key.id ? <span className="quiet"> (you)</span> : null}
        <div className="id quiet">{held.hint}…</div>
        {held.email === null ? null : (
          <div className="quiet small">
            <UntrustedText text={held.email} />
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
            until <AbsoluteTime time={held.expires_at} />
          </div>
        )}
      </td>
      <td>
        <RelativeTime time={held.created_at} />
        {held.created_by === null ? null : (
          <div className="quiet small">
            by <UntrustedText text={held.created_by.name} />
          </div>
        )}
      </td>
      <td className="actions">
        {usable ? (
          <ConfirmButton
            label="Revoke"
            title="Revoke this key?"
            act={() => apiClient.api_keys.revoke({ params: { id: held.id } })}
            onDone={() => {
              showToast("The key is revoked")
              refresh(keysAtom)
            }}
          >
            <p>
              <UntrustedText text={held.name} /> stops working within five seconds, and who signed in with it
              is signed out. It cannot be taken back.
            </p>
          </ConfirmButton>
        ) : null}
      </td>
    </tr>
  )
}
