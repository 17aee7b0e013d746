/** Waits for approvals to close. All waits of a session share one stream: an agent may have many steps pending at once. */
import { type Duration, Deferred, Effect, Exit, Fiber, type Scope, Stream } from "effect"
import type { ApprovalSnapshot } from "../api/SessionStream.ts"
import type { ApprovalId, SessionId } from "../domain/Ids.ts"
import type { SessionFollower, StreamError } from "./stream.ts"

/** Listens to the approvals of a session, for one step at a time. */
export interface ApprovalListener {
  /**
   * Waits for an approval to close; undefined if the session closed without it. The stream has the `reconnect` of the wait that opens it.
   */
  readonly closing: (
    approval_id: ApprovalId | null,
    reconnect: Duration.Input | undefined
  ) => Effect.Effect<ApprovalSnapshot | undefined, StreamError>
  /** Also reads the events before the latest one, from the oldest that is retained. */
  readonly rewind: Effect.Effect<void>
}

/** Waits of the sessions of one client. */
export interface ApprovalWaits {
  /** Listens to a session. Begin before the step is requested, so that no decision is missed in between. */
  readonly listen: (id: SessionId) => Effect.Effect<ApprovalListener, never, Scope.Scope>
}

type Closing = Deferred.Deferred<ApprovalSnapshot | undefined, StreamError>

/** The interest of one listener. */
interface Interest {
  /** The latest event when it began; undefined for all that are retained. */
  after: number | undefined
  /** Receives approvals as they close. */
  receive: (approval: ApprovalSnapshot) => void
  /** Its wait; undefined while it does not wait. */
  waiting: Closing | undefined
}

/** The listeners of one session, and its stream while at least one of them waits. */
interface Session {
  readonly interests: Set<Interest>
  stream: Fiber.Fiber<void> | undefined
}

/** Creates the waits of a client. */
export const makeApprovalWaits = (follower: SessionFollower): ApprovalWaits => {
  const sessions = new Map<SessionId, Session>()

  const waitsOf = ({ interests }: Session): ReadonlyArray<Closing> =>
    [...interests].flatMap(({ waiting }) => waiting ?? [])

  /** Opens the stream, from the earliest event that a listener may have missed. */
  const open = (id: SessionId, session: Session, reconnect: Duration.Input | undefined) =>
    Effect.suspend(() => {
      const starts = [...session.interests].map(({ after }) => after)
      const options = {
        ...(starts.includes(undefined) ? {} : { after: Math.min(...starts.map(Number)) }),
        ...(reconnect === undefined ? {} : { reconnect })
      }
      return follower.stream(id, options).pipe(
        Stream.runForEach((event) =>
          Effect.sync(() => {
            if (event.type !== "approval:decided") return
            for (const interest of session.interests) interest.receive(event.approval)
          })
        ),
        Effect.onExit((exit) =>
          Effect.sync(() => {
            // A stream that was interrupted has no waits, or the waits of the next stream.
            if (Exit.hasInterrupts(exit)) return
            session.stream = undefined
            const end = Exit.isSuccess(exit) ? Effect.undefined : Effect.failCause(exit.cause)
            for (const waiting of waitsOf(session)) Deferred.doneUnsafe(waiting, end)
          })
        ),
        Effect.ignoreCause,
        // It outlives the wait that opens it.
        Effect.forkDetach,
        Effect.map((fiber) => {
          session.stream = fiber
        })
      )
    })

  /** Closes the stream if no wait is left. */
  const release = (session: Session) =>
    Effect.suspend(() => {
      const { stream } = session
      if (stream === undefined || waitsOf(session).length > 0) return Effect.void
      session.stream = undefined
      return Fiber.interrupt(stream)
    })

  const listen = (id: SessionId) =>
    Effect.acquireRelease(
      Effect.sync(() => {
        const session = sessions.get(id) ?? { interests: new Set(), stream: undefined }
        sessions.set(id, session)
        // While the step is requested, the ID of its approval is not known yet.
        const closed = new Map<ApprovalId, ApprovalSnapshot>()
        const keep = (approval: ApprovalSnapshot) => void closed.set(approval.approval_id, approval)
        const interest: Interest = { after: follower.lastSeen(id), receive: keep, waiting: undefined }
        session.interests.add(interest)
        return { closed, interest, keep, session }
      }),
      ({ interest, session }) =>
        Effect.sync(() => {
          session.interests.delete(interest)
          if (session.interests.size === 0 && sessions.get(id) === session) sessions.delete(id)
        })
    ).pipe(
      Effect.map(({ closed, interest, keep, session }): ApprovalListener => {
        const closing: ApprovalListener["closing"] = (approval_id, reconnect) =>
          Effect.suspend(() => {
            const found = approval_id === null ? undefined : closed.get(approval_id)
            closed.clear()
            if (found !== undefined) return Effect.succeed(found)
            const waiting: Closing = Deferred.makeUnsafe()
            interest.waiting = waiting
            interest.receive = (approval) => {
              if (approval.approval_id === approval_id) Deferred.doneUnsafe(waiting, Effect.succeed(approval))
            }
            const opened = session.stream === undefined ? open(id, session, reconnect) : Effect.void
            return Effect.andThen(opened, Deferred.await(waiting)).pipe(
              Effect.ensuring(
                Effect.suspend(() => {
                  interest.waiting = undefined
                  interest.receive = keep
                  interest.after = follower.lastSeen(id)
                  return release(session)
                })
              )
            )
          })
        return {
          closing,
          rewind: Effect.sync(() => {
            interest.after = undefined
          })
        }
      })
    )

  return { listen }
}
