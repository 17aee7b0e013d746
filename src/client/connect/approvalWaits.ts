/** Waits for approvals to close. All waits of a session share one stream: an agent may have many steps pending at once. */
import type { StreamOptions } from "../StreamOptions.ts"
import type { ApprovalSnapshot } from "./generated/Operations.ts"
import type { SessionFollower } from "./sessionEvents.ts"

/** How to wait for an approval. */
export interface ApprovalWaitOptions extends Pick<StreamOptions, "reconnect"> {
  /** Ends the wait, which rejects with its reason. */
  readonly signal: AbortSignal
}

/** Listens to the approvals of a session, for one step at a time. */
export interface ApprovalListener {
  /**
   * Waits for an approval to close. Resolves with `undefined` if the session closed without it, and rejects with the error of the stream.
   * The stream has the `reconnect` of the wait that opens it.
   */
  readonly closing: (
    approval_id: string | null,
    options: ApprovalWaitOptions
  ) => Promise<ApprovalSnapshot | undefined>
  /** Also reads the events before the latest one, from the oldest that is retained. */
  readonly rewind: () => void
  /** Stops to listen. */
  readonly end: () => void
}

/** Waits of the sessions of one client. */
export interface ApprovalWaits {
  /** Listens to a session. Begin before the step is requested, so that no decision is missed in between. */
  readonly listen: (session_id: string) => ApprovalListener
}

/** The interest of one listener. */
interface Interest {
  /** The latest event when it began; undefined for all that are retained. */
  after: number | undefined
  /** Receives approvals as they close. */
  receive: (approval: ApprovalSnapshot) => void
  /** Ends its wait; undefined while it does not wait. */
  settle: ((outcome: { readonly error?: unknown }) => void) | undefined
}

/** The listeners of one session, and its stream while at least one of them waits. */
interface Session {
  readonly interests: Set<Interest>
  stream: AbortController | undefined
}

/** Creates the waits of a client. */
export const makeApprovalWaits = (follower: SessionFollower): ApprovalWaits => {
  const sessions = new Map<string, Session>()

  const waiting = ({ interests }: Session) => [...interests].flatMap(({ settle }) => settle ?? [])

  const follow = async (
    id: string,
    session: Session,
    reconnect: StreamOptions["reconnect"],
    signal: AbortSignal
  ): Promise<void> => {
    // From the earliest event that a listener may have missed.
    const starts = [...session.interests].map(({ after }) => after)
    const after = starts.includes(undefined) ? undefined : Math.min(...starts.map(Number))
    const options = {
      signal,
      ...(after === undefined ? {} : { after }),
      ...(reconnect === undefined ? {} : { reconnect })
    }
    for await (const event of follower.stream(id, options)) {
      if (event.type === "approval:decided")
        for (const interest of session.interests) interest.receive(event.approval)
    }
  }

  const open = (id: string, session: Session, reconnect: StreamOptions["reconnect"]): void => {
    const stream = new AbortController()
    session.stream = stream
    const end = (outcome: { readonly error?: unknown }) => {
      if (session.stream !== stream) return
      session.stream = undefined
      for (const settle of waiting(session)) settle(outcome)
    }
    follow(id, session, reconnect, stream.signal).then(
      () => end({}),
      (error: unknown) => end({ error })
    )
  }

  /** Closes the stream if no wait is left. */
  const release = (session: Session): void => {
    if (waiting(session).length > 0) return
    const { stream } = session
    session.stream = undefined
    stream?.abort()
  }

  const listen = (id: string): ApprovalListener => {
    const session = sessions.get(id) ?? { interests: new Set(), stream: undefined }
    sessions.set(id, session)
    // While the step is requested, the ID of its approval is not known yet.
    let closed = new Map<string, ApprovalSnapshot>()
    const keep = (approval: ApprovalSnapshot) => void closed.set(approval.approval_id, approval)
    const interest: Interest = { after: follower.lastSeen(id), receive: keep, settle: undefined }
    session.interests.add(interest)

    const closing: ApprovalListener["closing"] = (approval_id, { reconnect, signal }) =>
      new Promise<ApprovalSnapshot | undefined>((resolve, reject) => {
        signal.throwIfAborted()
        const found = closed.get(approval_id ?? "")
        closed = new Map()
        const finish = (settle: () => void) => {
          signal.removeEventListener("abort", abort)
          interest.settle = undefined
          interest.receive = keep
          interest.after = follower.lastSeen(id)
          release(session)
          settle()
        }
        const abort = () => finish(() => reject(signal.reason))
        if (found !== undefined) return resolve(found)
        interest.receive = (approval) => {
          if (approval.approval_id === approval_id) finish(() => resolve(approval))
        }
        interest.settle = (outcome) =>
          finish(() => ("error" in outcome ? reject(outcome.error) : resolve(undefined)))
        signal.addEventListener("abort", abort)
        if (session.stream === undefined) open(id, session, reconnect)
      })

    return {
      closing,
      rewind: () => {
        interest.after = undefined
      },
      end: () => {
        session.interests.delete(interest)
        if (session.interests.size === 0) sessions.delete(id)
      }
    }
  }

  return { listen }
}
