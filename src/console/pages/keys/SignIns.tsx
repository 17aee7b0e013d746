import { useState } from "react"
import type { SignIn } from "../../../api/Console.ts"
import type { ConsoleSessionId } from "../../../domain/Ids.ts"
import { refresh } from "../../state/atoms.ts"
import { consoleClient } from "../../state/consoleClient.ts"
import { pagedAtom } from "../../state/pagedAtom.ts"
import { leaveConsole, useCan, useHasRightsOf, useSession } from "../../state/session.ts"
import { Badge } from "../../ui/Badge.tsx"
import { ConfirmButton } from "../../ui/ConfirmButton.tsx"
import { PagedList } from "../../ui/PagedList.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { Table } from "../../ui/Table.tsx"
import { Tabs } from "../../ui/Tabs.tsx"
import { Toolbar } from "../../ui/Toolbar.tsx"
import { RelativeTime } from "../../ui/Time.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"

const listAtom = (of: "key" | "organization") =>
  pagedAtom(
    (cursor: ConsoleSessionId | undefined) =>
      consoleClient.sign_ins.list({ query: { of, ...(cursor === undefined ? {} : { cursor }) } }),
    "sessions"
  )

const atoms = { key: listAtom("key"), organization: listAtom("organization") }

/** The open console sessions of the signed-in key, or of the whole organization, with a way to end each. */
export default function SignIns() {
  const can = useCan()
  const [of, setOf] = useState<"key" | "organization">("key")
  return (
    <>
      <PageHeader title="Signed-in browsers">
        Each sign-in to the console. A session ends after eight hours, without input, and with its API key.
      </PageHeader>
      {can("keys.write") ? (
        <Toolbar label="Filters">
          <Tabs
            label="Sessions"
            selected={of}
            onSelect={setOf}
            options={[
              ["key", "Yours"],
              ["organization", "All"]
            ]}
          />
        </Toolbar>
      ) : null}
      <PagedList atom={atoms[of]}>
        {(sessions) => (
          <Table
            columns={[
              "Browser",
              "API key",
              "Signed in",
              "Last active",
              "Expires",
              { name: "Actions", hidden: true }
            ]}
          >
            {sessions.map((session) => (
              <Row key={session.id} signIn={session} onEnded={() => refresh(atoms[of])} />
            ))}
          </Table>
        )}
      </PagedList>
    </>
  )
}

const Row = ({ onEnded, signIn }: { readonly signIn: SignIn; readonly onEnded: () => void }) => {
  const session = useSession()
  const hasRightsOf = useHasRightsOf()
  const isThis = signIn.id === session.id
  const end = (
    <ConfirmButton
      label="End session"
      title="End this session?"
      act={() => consoleClient.sign_ins.end({ params: { id: signIn.id } })}
      onDone={() => {
        if (isThis) return leaveConsole()
        showToast("Session ended")
        onEnded()
      }}
    >
      <p>
        {signIn.browser ?? "The browser"}
        {signIn.address === null ? "" : ` at ${signIn.address}`} is signed out within five seconds. The API
        key <UntrustedText text={signIn.key.name} /> stays usable: revoke it if someone else has it.
      </p>
    </ConfirmButton>
  )
  return (
    <tr>
      <td>
        <strong>{signIn.browser ?? "Unknown browser"}</strong>{" "}
        {isThis ? <Badge tone="note">This browser</Badge> : null}
        {signIn.address === null ? null : <div className="quiet small">from {signIn.address}</div>}
      </td>
      <td data-label="API key">
        <UntrustedText text={signIn.key.name} />
      </td>
      <td data-label="Signed in">
        <RelativeTime time={signIn.created_at} />
      </td>
      <td data-label="Last active">
        <RelativeTime time={signIn.last_active_at} />
      </td>
      <td data-label="Expires">
        <RelativeTime time={signIn.expires_at} />
      </td>
      <td className="actions">{hasRightsOf(signIn) ? end : null}</td>
    </tr>
  )
}
