import type { Schema } from "effect"
import type { SessionId } from "../../../domain/Ids.ts"
import { Link } from "../../app/router.tsx"
import { refresh } from "../../state/atoms.ts"
import { pagesOf } from "../../state/pages.ts"
import { service } from "../../state/service.ts"
import { Badge } from "../../ui/Badge.tsx"
import { Button } from "../../ui/Button.tsx"
import { Empty } from "../../ui/Empty.tsx"
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
            <div className="card table-scroll">
              <table className="table listed">
                <thead>
                  <tr>
                    <th scope="col">Session</th>
                    <th scope="col">About</th>
                    <th scope="col">Agent</th>
                    <th scope="col">State</th>
                    <th scope="col">Began</th>
                  </tr>
                </thead>
                <tbody>
                  {sessions.map((session) => (
                    <tr key={session.session_id}>
                      <td>
                        <Link to={`/sessions/${session.session_id}`} className="id">
                          {session.session_id}
                        </Link>
                      </td>
                      <td className="quiet about">
                        {Object.entries(session.metadata)
                          .slice(0, 3)
                          .map(([name, value]) => (
                            <span key={name} className="fact">
                              <Safe text={factOf(name, value)} />
                            </span>
                          ))}
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
                </tbody>
              </table>
            </div>
          )
        }
      </Pages>
    </>
  )
}

/** The most characters of one fact that a row shows. */
const FACT_CHARACTERS = 80

const factOf = (name: string, value: Schema.Json): string => {
  const text = `${name} ${typeof value === "string" ? value : JSON.stringify(value)}`
  return text.length <= FACT_CHARACTERS ? text : `${text.slice(0, FACT_CHARACTERS)}…`
}
