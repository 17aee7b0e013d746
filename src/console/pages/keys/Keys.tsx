import { DateTime } from "effect"
import { useState } from "react"
import type { ApiKey } from "../../../domain/identity/ApiKey.ts"
import type { KeyId } from "../../../domain/Ids.ts"
import { useNow } from "../../state/clock.ts"
import { refresh } from "../../state/atoms.ts"
import { pagesOf } from "../../state/pages.ts"
import { service } from "../../state/service.ts"
import { useSession } from "../../state/session.ts"
import { Badge } from "../../ui/Badge.tsx"
import { Button } from "../../ui/Button.tsx"
import { Confirm } from "../../ui/Confirm.tsx"
import { Listed } from "../../ui/Listed.tsx"
import { PageHead } from "../../ui/PageHead.tsx"
import { Pages } from "../../ui/Pages.tsx"
import { Safe } from "../../ui/Safe.tsx"
import { SecretDialog } from "../../ui/Secret.tsx"
import { Ago, At } from "../../ui/Time.tsx"
import { say } from "../../ui/toasts.tsx"
import { NewKey } from "./NewKey.tsx"

const keysAtom = pagesOf(
  (cursor: KeyId | undefined) => service.api_keys.list({ query: cursor === undefined ? {} : { cursor } }),
  "keys"
)

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
          <Listed columns={["Name", "May do", "State", "Made", { name: "Actions", hidden: true }]}>
            {keys.map((key) => (
              <Row key={key.id} held={key} />
            ))}
          </Listed>
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
