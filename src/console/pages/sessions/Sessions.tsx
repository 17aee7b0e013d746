import type { AgentSession } from "../../../domain/approvals/AgentSession.ts"
import type { SessionId } from "../../../domain/Ids.ts"
import { Link } from "../../app/router.tsx"
import { refresh } from "../../state/atoms.ts"
import { pagedAtom } from "../../state/pagedAtom.ts"
import { apiClient } from "../../state/apiClient.ts"
import { Badge } from "../../ui/Badge.tsx"
import { Button } from "../../ui/Button.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { summarizeJson } from "../../ui/summarizeJson.ts"
import { Table } from "../../ui/Table.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { PagedList } from "../../ui/PagedList.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { RelativeTime } from "../../ui/Time.tsx"

const sessionsAtom = pagedAtom(
  (cursor: SessionId | undefined) =>
    apiClient.sessions.list({ query: cursor === undefined ? {} : { cursor } }),
  "sessions"
)

/** The agent sessions, newest first. */
export default function Sessions() {
  return (
    <>
      <PageHeader title="Sessions" aside={<Button onClick={() => refresh(sessionsAtom)}>Reload</Button>}>
        Agent sessions and the steps that the agents requested.
      </PageHeader>
      <PagedList atom={sessionsAtom}>
        {(sessions) =>
          sessions.length === 0 ? (
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
      <div className="id quiet">{session.session_id}</div>
    </div>
  )
}
