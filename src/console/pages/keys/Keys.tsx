import { DateTime, Schema } from "effect"
import { Atom } from "effect/reactivity"
import { useState } from "react"
import { KeyOrder } from "../../../api/ApiKeys.ts"
import type { ApiKey } from "../../../domain/identity/ApiKey.ts"
import { KeyId } from "../../../domain/Ids.ts"
import { defineQuery, QueryText } from "../../state/queryState.ts"
import { useNow } from "../../state/useNow.ts"
import { refresh } from "../../state/atoms.ts"
import { pagedAtom } from "../../state/pagedAtom.ts"
import { apiClient } from "../../state/apiClient.ts"
import { useKeptDialog } from "../../state/keptWork.ts"
import { useHasRightsOf, useSession } from "../../state/session.ts"
import { LinkedRecord } from "../../ui/LinkedRecord.tsx"
import { Badge } from "../../ui/Badge.tsx"
import { Button } from "../../ui/Button.tsx"
import { ConfirmButton } from "../../ui/ConfirmButton.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { Table } from "../../ui/Table.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { PagedList } from "../../ui/PagedList.tsx"
import { ExportButton } from "../../ui/ExportButton.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { SecretDialog } from "../../ui/SecretDialog.tsx"
import { SavedViews } from "../../ui/SavedViews.tsx"
import { SearchField } from "../../ui/SearchField.tsx"
import { InlineSelect } from "../../ui/Select.tsx"
import { Tabs } from "../../ui/Tabs.tsx"
import { RelativeTime, AbsoluteTime } from "../../ui/Time.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { Groups } from "./KeyFields.tsx"
import { Invitations, invitationsAtom } from "./Invitations.tsx"
import { EditKey } from "./EditKey.tsx"
import { KeepCreatedKeys } from "./KeepCreatedKeys.tsx"
import { Toolbar } from "../../ui/Toolbar.tsx"
import { useLinkedRow } from "../../ui/useLinkedRow.ts"
import { useOpenedByAddress } from "../../ui/useOpenedByAddress.ts"
import { useQueryState } from "../../ui/useQueryState.ts"
import { NEW_KEY, NewKey } from "./NewKey.tsx"

const statuses = ["active", "expired", "revoked", "all"] as const

/** The filters of the list in the address, and the key that a link names. Without filters: the keys that can be used, newest first. */
const parameters = defineQuery({
  key: KeyId,
  status: Schema.Literals(statuses),
  name: QueryText,
  order: KeyOrder
})

const statusNames: Record<(typeof statuses)[number], string> = {
  active: "Active",
  expired: "Expired",
  revoked: "Revoked",
  all: "All"
}

const orders: Record<KeyOrder, string> = { newest: "Newest", name: "Name", last_used: "Last used" }

/** A list by its query in the address. */
const keysAtom = Atom.family((search: string) => {
  const { name, order, status = "active" } = parameters.read(search)
  return pagedAtom(
    (cursor: KeyId | undefined) =>
      apiClient.apiKeys.list({
        query: {
          ...(status === "all" ? {} : { status }),
          ...(name === undefined ? {} : { name }),
          ...(order === undefined ? {} : { order }),
          ...(cursor === undefined ? {} : { cursor })
        }
      }),
    "keys"
  )
})

/** One key, which need not be in the list. */
const keyAtom = Atom.family((id: KeyId) => Atom.make(apiClient.apiKeys.get({ params: { id } })))

/** The API keys of the organization: creation, with the secret shown once, changes, and revocation. */
export default function Keys() {
  const creation = useKeptDialog(NEW_KEY)
  const [invites, setInvites] = useState(false)
  const open = (isInvitation: boolean) => {
    setInvites(isInvitation)
    creation.open()
  }
  useOpenedByAddress("key", () => open(false))
  useOpenedByAddress("invitation", () => open(true))
  const [secret, setSecret] = useState<string>()
  const [{ key: linked, name = "", order = "newest", status = "active" }, setQuery] =
    useQueryState(parameters)
  const list = parameters.write("", {
    status,
    name: name === "" ? undefined : name,
    order
  })
  const atom = keysAtom(list)
  return (
    <>
      <PageHeader
        title="API keys"
        aside={
          <>
            <ExportButton
              path="/keys"
              filter={{
                status: status === "all" ? undefined : status,
                name: name === "" ? undefined : name,
                order
              }}
            />
            <Button onClick={() => open(true)}>Invite</Button>
            <Button kind="primary" onClick={() => open(false)}>
              New key
            </Button>
          </>
        }
      >
        Actions are attributed to the key. Give each person their own key.
      </PageHeader>
      <Invitations />
      <Toolbar label="Filters">
        <Tabs
          label="Status"
          selected={status}
          onSelect={(chosen) => setQuery({ status: chosen === "active" ? undefined : chosen })}
          options={statuses.map((one) => [one, statusNames[one]])}
        />
        <SearchField
          label="Search keys"
          placeholder="Search keys by name"
          text={name}
          onSearch={(text) => setQuery({ name: text === "" ? undefined : text }, { replace: true })}
        />
        <InlineSelect
          label="Sort by"
          value={order}
          onChange={(chosen) => setQuery({ order: chosen === "newest" ? undefined : chosen })}
          options={KeyOrder.literals.map((one) => [one, orders[one]])}
        />
      </Toolbar>
      <SavedViews list="keys" />
      {linked === undefined ? null : (
        <LinkedRecord
          title="Selected key"
          atom={keyAtom(linked)}
          columns={columns}
          onClose={() => setQuery({ key: undefined })}
        >
          {(key) => (
            <Row
              apiKey={key}
              isLinked
              onChanged={() => {
                refresh(keyAtom(linked))
                refresh(atom)
              }}
            />
          )}
        </LinkedRecord>
      )}
      <PagedList key={list} atom={atom} itemId={(key) => key.id}>
        {(keys) =>
          keys.length === 0 ? (
            <EmptyState title="No matching API keys">
              {name === "" && status !== "all" ? (
                <>No key of this status.</>
              ) : (
                <>Search for another part of the name, or show all keys.</>
              )}
            </EmptyState>
          ) : (
            <Table columns={columns}>
              {keys.map((key) => (
                <Row key={key.id} apiKey={key} onChanged={() => refresh(atom)} />
              ))}
            </Table>
          )
        }
      </PagedList>
      {creation.isOpen ? (
        <NewKey
          invites={invites}
          onInvited={() => {
            creation.close()
            refresh(invitationsAtom)
            showToast("Invitation queued")
          }}
          onClose={creation.close}
          onCreated={(text) => {
            creation.close()
            setSecret(text)
            refresh(atom)
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

const columns = ["Name", "Access", "Status", "Last used", "Created", { name: "Actions", hidden: true }]

const Row = ({
  apiKey,
  isLinked = false,
  onChanged
}: {
  readonly apiKey: ApiKey
  readonly isLinked?: boolean
  readonly onChanged: () => void
}) => {
  const linkedRow = useLinkedRow(isLinked)
  const now = useNow()
  const session = useSession()
  const expired = apiKey.expires_at !== null && DateTime.toEpochMillis(apiKey.expires_at) <= now
  const usable = apiKey.revoked_at === null && !expired
  const keptAs = `${isLinked ? "linked " : ""}key ${apiKey.id}`
  const editing = useKeptDialog(keptAs)
  const [keepsKeys, setKeepsKeys] = useState(false)
  const editable = useHasRightsOf()(apiKey) && usable
  return (
    <tr {...linkedRow}>
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
      <td data-label="Access">
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
        <Groups names={apiKey.groups} />
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
      <td data-label="Last used">
        {apiKey.last_used_at === null ? (
          <span className="quiet">never</span>
        ) : (
          <RelativeTime time={apiKey.last_used_at} />
        )}
      </td>
      <td data-label="Created">
        <RelativeTime time={apiKey.created_at} />
        {apiKey.created_by === null ? null : (
          <div className="quiet small">
            by <UntrustedText text={apiKey.created_by.name} />
          </div>
        )}
      </td>
      <td className="actions">
        {editable ? (
          <Button small onClick={editing.open}>
            Edit
          </Button>
        ) : null}
        {editing.isOpen ? (
          <EditKey
            apiKey={apiKey}
            keptAs={keptAs}
            onClose={editing.close}
            onChanged={() => {
              editing.close()
              onChanged()
            }}
          />
        ) : null}
        {usable && apiKey.email !== null && apiKey.email_awaits_verification ? (
          <ConfirmButton
            kind="plain"
            label="Send link"
            title="Send a verification link?"
            confirmLabel="Send"
            act={() => apiClient.apiKeys.verifyEmail({ params: { id: apiKey.id } })}
            onDone={(key) => {
              showToast(key.email_verified_at === null ? "Link queued" : "The address is verified already")
              onChanged()
            }}
          >
            <p>
              <UntrustedText text={apiKey.email} /> is sent an email with a link. Approval emails go to this
              address once its owner has opened the link and confirmed.
            </p>
          </ConfirmButton>
        ) : null}
        {editable ? (
          <ConfirmButton
            label="Revoke"
            title="Revoke this API key?"
            act={() =>
              apiClient.apiKeys.revoke({
                params: { id: apiKey.id },
                query: { made_keys: keepsKeys ? "keep" : "revoke" }
              })
            }
            onDone={() => {
              showToast("API key revoked")
              onChanged()
            }}
          >
            <p>
              <UntrustedText text={apiKey.name} />
              {keepsKeys ? " stops" : " and the keys that it created stop"} working within five seconds, and{" "}
              {keepsKeys ? "its" : "their"} console sessions end. This cannot be undone.
            </p>
            <KeepCreatedKeys isChecked={keepsKeys} onChange={setKeepsKeys} />
          </ConfirmButton>
        ) : null}
      </td>
    </tr>
  )
}
