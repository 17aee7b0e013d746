import { Schema } from "effect"
import { Atom } from "effect/reactivity"
import { ListOrder } from "../../../api/listQuery.ts"
import type { AgentSession } from "../../../domain/approvals/AgentSession.ts"
import type { SessionId } from "../../../domain/Ids.ts"
import { Link } from "../../app/router.tsx"
import { refresh } from "../../state/atoms.ts"
import { pagedAtom } from "../../state/pagedAtom.ts"
import { apiClient } from "../../state/apiClient.ts"
import { defineQuery, QueryText } from "../../state/queryState.ts"
import { Badge } from "../../ui/Badge.tsx"
import { CopyableId } from "../../ui/CopyButton.tsx"
import { NoMatches } from "../../ui/NoMatches.tsx"
import { OrderField } from "../../ui/OrderField.tsx"
import { SearchField } from "../../ui/SearchField.tsx"
import { Toolbar } from "../../ui/Toolbar.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { FirstRecord } from "../../ui/FirstRecord.tsx"
import { ExportButton } from "../../ui/ExportButton.tsx"
import { summarizeJson } from "../../ui/summarizeJson.ts"
import { Tabs } from "../../ui/Tabs.tsx"
import { useQueryState } from "../../ui/useQueryState.ts"
import { SavedViews } from "../../ui/SavedViews.tsx"
import { Table } from "../../ui/Table.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { PagedList } from "../../ui/PagedList.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { RelativeTime } from "../../ui/Time.tsx"

const parameters = defineQuery({
  status: Schema.Literals(["open", "closed"]),
  text: QueryText,
  order: ListOrder
})
type Status = "all" | "open" | "closed"

/** A list by its query in the address. */
const sessionsAtom = Atom.family((search: string) => {
  const { order, status, text } = parameters.read(search)
  return pagedAtom(
    (cursor: SessionId | undefined) =>
      apiClient.sessions.list({
        query: {
          ...(status === undefined ? {} : { status }),
          ...(text === undefined ? {} : { text: text.trim() }),
          ...(order === undefined ? {} : { order }),
          ...(cursor === undefined ? {} : { cursor })
        }
      }),
    "sessions"
  )
})

/** The agent sessions, newest first, with their filters in the address. */
export default function Sessions() {
  const [query, setQuery] = useQueryState(parameters)
  const { order, status = "all", text } = query
  const list = parameters.write("", query)
  return (
    <>
      <PageHeader
        title="Sessions"
        aside={
          <>
            <Tabs<Status>
              label="Session status"
              selected={status}
              onSelect={(name) => setQuery({ status: name === "all" ? undefined : name })}
              options={[
                ["all", "All"],
                ["open", "Open"],
                ["closed", "Closed"]
              ]}
            />
            <ExportButton path="/sessions" filter={{ ...query, text: text?.trim() }} />
          </>
        }
      >
        Agent sessions and the steps that the agents requested.
      </PageHeader>
      <Toolbar label="Filters">
        <SearchField
          label="Search sessions"
          placeholder="Agent, ID or metadata"
          text={text ?? ""}
          onSearch={(words) => setQuery({ text: words === "" ? undefined : words }, { replace: true })}
        />
        <OrderField order={order} onChange={(chosen) => setQuery({ order: chosen })} />
      </Toolbar>
      <SavedViews list="sessions" />
      <PagedList
        key={list}
        atom={sessionsAtom(list)}
        {...(order === "oldest" ? {} : { itemId: ({ session_id }: AgentSession) => session_id })}
      >
        {(sessions, hasMore) =>
          sessions.length === 0 && text !== undefined ? (
            <NoMatches title="No matching sessions" hasMore={hasMore} />
          ) : sessions.length === 0 && status !== "all" ? (
            <EmptyState title={`No ${status} sessions`} />
          ) : sessions.length === 0 ? (
            <div className="card">
              <FirstRecord
                of={({ firstSession }, origin) => firstSession(origin)}
                look={() => refresh(sessionsAtom(list))}
              />
            </div>
          ) : (
            <Table columns={["Session", "Agent", "Status", "Started"]}>
              {sessions.map((session) => (
                <tr key={session.session_id}>
                  <td>
                    <About session={session} />
                  </td>
                  <td>
                    <UntrustedText text={session.created_by.name} />
                  </td>
                  <td>
                    {session.status === "open" ? (
                      <Badge tone="good">Open</Badge>
                    ) : (
                      <Badge tone="quiet">Closed</Badge>
                    )}
                  </td>
                  <td>
                    <RelativeTime time={session.created_at} />
                  </td>
                </tr>
              ))}
            </Table>
          )
        }
      </PagedList>
    </>
  )
}

/** A link to a session, labelled with a summary of its metadata, and its id. */
const About = ({ session }: { readonly session: AgentSession }) => {
  const facts = summarizeJson(session.metadata)
  return (
    <div className="about">
      <Link to={`/sessions/${session.session_id}`}>
        {facts.length === 0
          ? "No metadata"
          : facts.map((fact) => (
              <span key={fact} className="fact">
                <UntrustedText text={fact} />
              </span>
            ))}
      </Link>
      <CopyableId quiet id={session.session_id} of="session" />
    </div>
  )
}
