import type { AgentSession } from "../../../domain/approvals/AgentSession.ts"
import type { SessionId } from "../../../domain/Ids.ts"
import { Link } from "../../app/router.tsx"
import { refresh } from "../../state/atoms.ts"
import { pagesOf } from "../../state/pages.ts"
import { service } from "../../state/service.ts"
import { Badge } from "../../ui/Badge.tsx"
import { Button } from "../../ui/Button.tsx"
import { Empty } from "../../ui/Empty.tsx"
import { inWords } from "../../ui/inWords.ts"
import { Listed } from "../../ui/Listed.tsx"
import { PageHead } from "../../ui/PageHead.tsx"
import { Pages } from "../../ui/Pages.tsx"
import { Safe } from "../../ui/Safe.tsx"
import { Ago } from "../../ui/Time.tsx"

const sessionsAtom = pagesOf(
  (cursor: SessionId | undefined) => service.sessions.list({ query: cursor === undefined ? {} : { cursor } }),
  "sessions"
)

/** Agents at work, newest first. */
export default function Sessions() {
  return (
    <>
      <PageHead title="Sessions" aside={<Button onClick={() => refresh(sessionsAtom)}>Load anew</Button>}>
        Each run of an agent, with the steps it asked for.
      </PageHead>
      <Pages atom={sessionsAtom}>
        {(sessions) =>
          sessions.length === 0 ? (
            <Empty title="No agent has asked for anything yet">
              A session begins with <code>POST /v1/agent-sessions</code>; the README shows how.
            </Empty>
          ) : (
            <Listed columns={["Session", "Agent", "State", "Began"]}>
              {sessions.map((session) => (
                <tr key={session.session_id}>
                  <td>
                    <About session={session} />
                  </td>
                  <td>
                    <Safe text={session.created_by.name} />
                  </td>
                  <td>
                    {session.status === "open" ? (
                      <Badge tone="good">open</Badge>
                    ) : (
                      <Badge tone="quiet">closed</Badge>
                    )}
                  </td>
                  <td>
                    <Ago time={session.created_at} />
                  </td>
                </tr>
              ))}
            </Listed>
          )
        }
      </Pages>
    </>
  )
}

/** What its agent said of a session, which leads to it; its id under that. */
const About = ({ session }: { readonly session: AgentSession }) => {
  const said = inWords(session.metadata)
  return (
    <div className="about">
      <Link to={`/sessions/${session.session_id}`}>
        {said.length === 0
          ? "Without a description"
          : said.map((fact) => (
              <span key={fact} className="fact">
                <Safe text={fact} />
              </span>
            ))}
      </Link>
      <div className="id quiet">{session.session_id}</div>
    </div>
  )
}
