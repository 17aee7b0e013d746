import { Option, Schema, Stream } from "effect"
import { AsyncResult, Atom } from "effect/reactivity"
import type { SessionEvent } from "../../../api/SessionStream.ts"
import { makeFollower } from "../../../client/connect/sessionEvents.ts"
import { makeStream } from "../../../client/stream.ts"
import type { AgentSession } from "../../../domain/approvals/AgentSession.ts"
import { SessionId } from "../../../domain/Ids.ts"
import { usePageTitle } from "../../app/PageTitle.tsx"
import { Link } from "../../app/router.tsx"
import type { PageProps } from "../../app/routes.ts"
import { refresh, useAtomValue } from "../../state/atoms.ts"
import { apiClient, openStream } from "../../state/apiClient.ts"
import { useCan, useSession } from "../../state/session.ts"
import { Badge } from "../../ui/Badge.tsx"
import { CopyableId } from "../../ui/CopyButton.tsx"
import { CopyCurl } from "../../ui/CopyCurl.tsx"
import { ConfirmButton } from "../../ui/ConfirmButton.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { failureOfCause } from "../../ui/Failure.ts"
import { JsonTree } from "../../ui/JsonTree.tsx"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { AbsoluteTime } from "../../ui/Time.tsx"
import { TaskLink } from "../tasks/TaskLink.tsx"
import { sessionTitle } from "./sessionTitle.ts"
import { Step, type StepHistory } from "./Step.tsx"

const sessionAtom = Atom.family((id: SessionId) => Atom.make(apiClient.sessions.get({ params: { id } })))

/** The most events that the page keeps. */
const MAX_EVENTS = 5_000

const stream = makeStream(makeFollower<SessionEvent>(), openStream)

/** A session's events, replayed from the start and then live. */
const eventsAtom = Atom.family((id: SessionId) =>
  Atom.make(
    stream(id).pipe(
      // Batches the replay of a long session into few updates.
      Stream.groupedWithin(500, "30 millis"),
      Stream.scan(
        (): ReadonlyArray<SessionEvent> => [],
        (events, more) => [...events, ...more].slice(-MAX_EVENTS)
      )
    )
  )
)

const isSessionId = Schema.is(SessionId)

/** One session, live: its steps in order, each with its decision and outcome. */
export default function Session({ params }: PageProps) {
  const id = params["id"]
  return isSessionId(id) ? <LoadedSession id={id} /> : <EmptyState title="Session not found" />
}

const LoadedSession = ({ id }: { readonly id: SessionId }) => {
  return <AsyncContent atom={sessionAtom(id)}>{(found) => <Timeline id={id} session={found} />}</AsyncContent>
}

const Timeline = ({ id, session }: { readonly id: SessionId; readonly session: AgentSession }) => {
  const can = useCan()
  const result = useAtomValue(eventsAtom(id))
  const events = Option.getOrElse(AsyncResult.value(result), (): ReadonlyArray<SessionEvent> => [])
  const cause = Option.getOrUndefined(AsyncResult.cause(result))
  const steps = groupByStep(events)
  usePageTitle(...sessionTitle(session))
  const { key } = useSession()
  // The sessions of keys that this one made, or that made it, can be closed by the API.
  const closable =
    can("sessions.write") && (can("approvals.admin") || session.shared || session.created_by.id === key.id)
  const closed = session.status === "closed" || events.at(-1)?.type === "session:closed"
  return (
    <div className="stack">
      <p>
        <Link to="/sessions">← All sessions</Link>
      </p>
      <PageHeader
        title={
          <>
            <span className="quiet">Session:</span> <UntrustedText text={sessionTitle(session).join(" · ")} />
          </>
        }
        aside={
          closed || !closable ? null : (
            <ConfirmButton
              small={false}
              label="Close session"
              title="Close this session?"
              act={() => apiClient.sessions.close({ params: { id } })}
              onDone={() => refresh(sessionAtom(id))}
            >
              <p>The agent cannot submit further steps; pending approvals are rejected.</p>
            </ConfirmButton>
          )
        }
      >
        {closed ? <Badge tone="quiet">Closed</Badge> : <span className="live">Live</span>} · started by{" "}
        <UntrustedText text={session.created_by.name} /> · <AbsoluteTime time={session.created_at} />
      </PageHeader>
      {cause === undefined ? null : <FailureNotice failure={failureOfCause(cause)} />}
      <div className="two-columns">
        <section aria-label="Steps" className="stack">
          {steps.length === 0 ? (
            <EmptyState title="No steps yet">Steps appear here as the agent submits them.</EmptyState>
          ) : (
            <>
              <h2 className="visually-hidden">Steps</h2>
              <ol className="timeline">
                {steps.map((step) => (
                  <Step key={step.step_id} history={step} />
                ))}
                {closed ? (
                  <li className="timeline-end">
                    <span className="quiet">Session closed</span>
                  </li>
                ) : null}
              </ol>
            </>
          )}
        </section>
        <aside className="stack">
          <section className="card padded stack">
            <h2>Details</h2>
            {Object.keys(session.metadata).length === 0 ? (
              <p className="quiet">No metadata.</p>
            ) : (
              <JsonTree label="Metadata" value={session.metadata} />
            )}
            <dl className="facts">
              <div>
                <dt>Session</dt>
                <dd>
                  <CopyableId id={id} of="session" />
                </dd>
              </div>
              <div>
                <dt>Trace</dt>
                <dd>
                  <CopyableId id={session.trace_id} of="trace" />
                </dd>
              </div>
              {session.task_id === null ? null : (
                <div>
                  <dt>Task</dt>
                  <dd>
                    <TaskLink id={session.task_id} />
                  </dd>
                </div>
              )}
              {session.closed_at === null ? null : (
                <div>
                  <dt>Closed</dt>
                  <dd>
                    <AbsoluteTime time={session.closed_at} />
                  </dd>
                </div>
              )}
            </dl>
            <p>
              <CopyCurl path={`/v1/agent-sessions/${id}`} />
            </p>
          </section>
        </aside>
      </div>
    </div>
  )
}

/** Groups the events by step, in the order in which the steps were requested. */
const groupByStep = (events: ReadonlyArray<SessionEvent>): ReadonlyArray<StepHistory> => {
  const byStep = new Map<string, Array<SessionEvent>>()
  for (const event of events) {
    if (event.step_id === null) continue
    const history = byStep.get(event.step_id)
    if (history === undefined) byStep.set(event.step_id, [event])
    else history.push(event)
  }
  return [...byStep].map(([step_id, events]) => ({ step_id, events }))
}
