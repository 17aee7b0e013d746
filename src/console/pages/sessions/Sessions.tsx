import { Schema } from "effect"
import { Atom } from "effect/reactivity"
import type { AgentSession } from "../../../domain/approvals/AgentSession.ts"
import type { SessionId } from "../../../domain/Ids.ts"
import { Link } from "../../app/router.tsx"
import { pagedAtom } from "../../state/pagedAtom.ts"
import { apiClient } from "../../state/apiClient.ts"
import { defineQuery } from "../../state/queryState.ts"
import { Badge } from "../../ui/Badge.tsx"
import { CopyableId } from "../../ui/CopyButton.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
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

const parameters = defineQuery({ status: Schema.Literals(["open", "closed"]) })
type Status = "all" | "open" | "closed"

const sessionsAtom = Atom.family((status: Status) =>
  pagedAtom(
    (cursor: SessionId | undefined) =>
      apiClient.sessions.list({
        query: {
          ...(status === "all" ? {} : { status }),
          ...(cursor === undefined ? {} : { cursor })
        }
      }),
    "sessions"
  )
)

/** The agent sessions, newest first, with their filters in the address. */
export default function Sessions() {
  const [{ status = "all" }, setQuery] = useQueryState(parameters)
  const atom = sessionsAtom(status)
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
            <ExportButton path="/sessions" filter={{ status: status === "all" ? undefined : status }} />
          </>
        }
      >
        Agent sessions and the steps that the agents requested.
      </PageHeader>
      <SavedViews list="sessions" />
      <PagedList atom={atom} itemId={(session) => session.session_id}>
        {(sessions) =>
          sessions.length === 0 && status !== "all" ? (
            <EmptyState title={`No ${status} sessions`} />
          ) : sessions.length === 0 ? (
            <EmptyState title="No sessions yet">
              An agent starts one with <code>POST /v1/agent-sessions</code>.
            </EmptyState>
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
