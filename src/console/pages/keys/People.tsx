import { Schema } from "effect"
import { Atom } from "effect/reactivity"
import { useState } from "react"
import { type Person, PersonStatus } from "../../../api/console/People.ts"
import { KeyId } from "../../../domain/Ids.ts"
import { Link } from "../../app/router.tsx"
import { refresh, useAtomValue } from "../../state/atoms.ts"
import { consoleClient } from "../../state/consoleClient.ts"
import { pagedAtom } from "../../state/pagedAtom.ts"
import { defineQuery, QueryText } from "../../state/queryState.ts"
import { useHasRightsOf, useSession } from "../../state/session.ts"
import { LinkedRecord } from "../../ui/LinkedRecord.tsx"
import { Badge } from "../../ui/Badge.tsx"
import { ConfirmButton } from "../../ui/ConfirmButton.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { PagedList } from "../../ui/PagedList.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { SearchField } from "../../ui/SearchField.tsx"
import { Table } from "../../ui/Table.tsx"
import { Tabs } from "../../ui/Tabs.tsx"
import { RelativeTime } from "../../ui/Time.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { Toolbar } from "../../ui/Toolbar.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { useLinkedRow } from "../../ui/useLinkedRow.ts"
import { useQueryState } from "../../ui/useQueryState.ts"
import { Groups } from "./KeyFields.tsx"
import { KeepCreatedKeys } from "./KeepCreatedKeys.tsx"

const statuses = [...PersonStatus.literals, "all"] as const

/** The filters of the list in the address, and the person that a link names. Without filters: everyone. */
const parameters = defineQuery({
  person: KeyId,
  status: Schema.Literals(PersonStatus.literals),
  text: QueryText
})

const statusNames: Record<(typeof statuses)[number], string> = {
  active: "Active",
  blocked: "Blocked",
  ended: "No access",
  all: "All"
}

/** A list by its query in the address. */
const peopleAtom = Atom.family((search: string) => {
  const { status, text } = parameters.read(search)
  return pagedAtom(
    (cursor: KeyId | undefined) =>
      consoleClient.people.list({
        query: {
          ...(status === undefined ? {} : { status }),
          ...(text === undefined ? {} : { text: text.trim() }),
          ...(cursor === undefined ? {} : { cursor })
        }
      }),
    "people"
  )
})

const waysAtom = Atom.make(consoleClient.session.ways())

/** Whether people can sign in with an identity provider, and where that is set up. */
const SingleSignOnState = () => {
  const result = useAtomValue(waysAtom)
  if (result._tag !== "Success") return null
  const { single_sign_on } = result.value
  return (
    <p className="notice">
      {single_sign_on === null ? (
        <>
          Single sign-on is not configured: people sign in with API keys. Its settings are environment
          variables of the service, <code>COUNTERSIGN_OIDC_ISSUER</code> and others.
        </>
      ) : (
        <>
          Single sign-on is configured, with <UntrustedText text={single_sign_on} />.
        </>
      )}
    </p>
  )
}

/** One person, who need not be in the list. */
const personAtom = Atom.family((id: KeyId) => Atom.make(consoleClient.people.get({ params: { id } })))

/** The people who sign in with the identity provider: their access, and ways to end it. */
export default function People() {
  const [{ person, status, text = "" }, setQuery] = useQueryState(parameters)
  const list = parameters.write("", { status, text: text === "" ? undefined : text })
  const atom = peopleAtom(list)
  return (
    <>
      <PageHeader title="People">
        Everyone who has signed in with the identity provider. Names, addresses and access come from there, at
        each sign-in.
      </PageHeader>
      <SingleSignOnState />
      <Toolbar label="Filters">
        <Tabs
          label="Status"
          selected={status ?? "all"}
          onSelect={(chosen) => setQuery({ status: chosen === "all" ? undefined : chosen })}
          options={statuses.map((one) => [one, statusNames[one]])}
        />
        <SearchField
          label="Search people"
          placeholder="Name or email"
          text={text}
          onSearch={(words) => setQuery({ text: words === "" ? undefined : words }, { replace: true })}
        />
      </Toolbar>
      {person === undefined ? null : (
        <LinkedRecord
          title="Selected person"
          atom={personAtom(person)}
          columns={columns}
          onClose={() => setQuery({ person: undefined })}
        >
          {(found) => (
            <Row
              person={found}
              isLinked
              onChanged={() => {
                refresh(personAtom(person))
                refresh(atom)
              }}
            />
          )}
        </LinkedRecord>
      )}
      <PagedList key={list} atom={atom} itemId={({ id }) => id}>
        {(people) =>
          people.length > 0 ? (
            <Table columns={columns}>
              {people.map((one) => (
                <Row key={one.id} person={one} onChanged={() => refresh(atom)} />
              ))}
            </Table>
          ) : status === undefined && text === "" ? (
            <EmptyState title="No people yet">
              With single sign-on, everyone who signs in is listed here. People who use an{" "}
              <Link to="/keys">API key</Link> are not.
            </EmptyState>
          ) : (
            <EmptyState title="No matching people">Change the filters to see others.</EmptyState>
          )
        }
      </PagedList>
    </>
  )
}

const columns = [
  "Person",
  "Access",
  "Status",
  "Last sign-in",
  "Sessions",
  "Created keys",
  { name: "Actions", hidden: true }
]

const StatusBadge = ({ person: { blocked_by, status } }: { readonly person: Person }) => {
  switch (status) {
    case "active":
      return <Badge tone="good">Active</Badge>
    case "blocked":
      return (
        <>
          <Badge tone="bad">Blocked</Badge>
          {blocked_by === null ? null : (
            <div className="quiet small">
              by <UntrustedText text={blocked_by} />
            </div>
          )}
        </>
      )
    case "ended":
      return <Badge tone="quiet">No access</Badge>
  }
}

const Row = ({
  isLinked = false,
  onChanged,
  person
}: {
  readonly person: Person
  readonly isLinked?: boolean
  readonly onChanged: () => void
}) => {
  const session = useSession()
  const linkedRow = useLinkedRow(isLinked)
  const { email, groups, id, made_keys, name, preset, sessions, signed_in_at, status } = person
  const [keepsKeys, setKeepsKeys] = useState(false)
  const isSelf = id === session.key.id
  const canChange = useHasRightsOf()(person) && !isSelf
  return (
    <tr {...linkedRow}>
      <td>
        <strong>
          <UntrustedText text={name} />
        </strong>
        {isSelf ? <span className="quiet"> (you)</span> : null}
        {email === null ? null : (
          <div className="quiet small">
            <UntrustedText text={email} />
          </div>
        )}
      </td>
      <td data-label="Access">
        {preset ?? "several presets"}
        <Groups names={groups} />
      </td>
      <td>
        <StatusBadge person={person} />
      </td>
      <td data-label="Last sign-in">
        <RelativeTime time={signed_in_at} />
      </td>
      <td data-label="Sessions">
        {sessions === 0 ? <span className="quiet">none open</span> : `${sessions} open`}
      </td>
      <td data-label="Created keys">{made_keys === 0 ? <span className="quiet">none</span> : made_keys}</td>
      <td className="actions">
        {sessions > 0 && canChange ? (
          <ConfirmButton
            kind="plain"
            label="End sessions"
            title="End all sessions?"
            act={() => consoleClient.people.end_sessions({ params: { id } })}
            onDone={({ ended }) => {
              showToast(ended === 1 ? "1 session ended" : `${ended} sessions ended`)
              onChanged()
            }}
          >
            <p>
              <UntrustedText text={name} /> is signed out of every browser within five seconds, and can sign
              in again.
            </p>
          </ConfirmButton>
        ) : null}
        {!canChange ? null : status === "blocked" ? (
          <ConfirmButton
            kind="plain"
            label="Unblock"
            title="Unblock this person?"
            act={() => consoleClient.people.unblock({ params: { id } })}
            onDone={() => {
              showToast("Person unblocked")
              onChanged()
            }}
          >
            <p>
              <UntrustedText text={name} /> can sign in again, with the access that their groups give then.
            </p>
          </ConfirmButton>
        ) : (
          <ConfirmButton
            label="Block"
            title="Block this person?"
            act={() =>
              consoleClient.people.block({
                params: { id },
                query: { made_keys: keepsKeys ? "keep" : "revoke" }
              })
            }
            onDone={() => {
              showToast("Person blocked")
              onChanged()
            }}
          >
            <p>
              <UntrustedText text={name} /> is signed out within five seconds, gets no more emails and cannot
              sign in until unblocked. Decisions and votes stay as they are.
            </p>
            {made_keys === 0 ? null : (
              <KeepCreatedKeys count={made_keys} isChecked={keepsKeys} onChange={setKeepsKeys} />
            )}
          </ConfirmButton>
        )}
      </td>
    </tr>
  )
}
