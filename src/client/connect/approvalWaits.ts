/** Waits for approvals to close, and for messages about them. All waits of a session share one stream: an agent may have many steps pending at once. */
import type { StreamOptions } from "../StreamOptions.ts"
import type { AnySessionEvent, EventSource, SessionFollower } from "./sessionEvents.ts"

/** The members of a closed approval that the waits read, in the form of either client. */
export interface AnyApproval {
  readonly approval_id: string
}

/** A reviewer has sent a message about an approval. The step's answer has its text. */
export interface ReviewerSpoke extends AnyApproval {
  readonly outcome?: undefined
}

/** The members of events that the waits read. */
interface ApprovalEvent<Approval> {
  readonly type: string
  readonly approval?: Approval
  readonly approval_id?: string | null
  readonly message?: { readonly sender: string }
}

/** The change that an event reports to an agent that waits: an approval closed, or a reviewer sent a message. Undefined for other events. */
export const changeOf = <Approval extends AnyApproval>({
  approval,
  approval_id,
  message,
  type
}: ApprovalEvent<Approval>): Approval | ReviewerSpoke | undefined => {
  if (type === "approval:decided") return approval
  return message?.sender === "reviewer" && typeof approval_id === "string" ? { approval_id } : undefined
}

/** How to wait for an approval. */
export interface ApprovalWaitOptions extends Pick<StreamOptions, "reconnect"> {
  /** Ends the wait, which rejects with its reason. */
  readonly signal: AbortSignal
}

/** Listens to the approvals of a session, for one step at a time. */
export interface ApprovalListener<Approval> {
  /**
   * Waits for a change of an approval. Resolves with `undefined` if the session closed without it, and rejects with the error of the stream.
   * The stream has the `reconnect` of the wait that opens it.
   */
  readonly change: (approval_id: string | null, options: ApprovalWaitOptions) => Promise<Approval | undefined>
  /** Also reads the events before the latest one, from the oldest that is retained. */
  readonly rewind: () => void
  /** Stops listening. */
  readonly end: () => void
}

/** Waits of the sessions of one client. */
export interface ApprovalWaits<Event extends AnySessionEvent, Approval> {
  /**
   * Listens to a session. Begin before the step is requested, so that no decision is missed in between. The session's stream has the source of
   * the wait that opens it.
   */
  readonly listen: (session_id: string, source: EventSource<Event>) => ApprovalListener<Approval>
}

/** The interest of one listener. */
interface Interest<Approval> {
  /** The latest event when it began; undefined for all that are retained. */
  after: number | undefined
  /** Receives changes of approvals. */
  receive: (approval: Approval) => void
  /** Ends its wait; undefined while it does not wait. */
  settle: ((outcome: { readonly error?: unknown }) => void) | undefined
}

/** The listeners of one session, and its stream while at least one of them waits. */
interface Session<Approval> {
  readonly interests: Set<Interest<Approval>>
  stream: AbortController | undefined
}

/** Creates the waits of a client. `changeIn` returns the change of an approval that an event reports. */
export const makeApprovalWaits = <Event extends AnySessionEvent, Approval extends AnyApproval>(
  follower: SessionFollower<Event>,
  changeIn: (event: Event) => Approval | undefined
): ApprovalWaits<Event, Approval> => {
  type Source = EventSource<Event>
  const sessions = new Map<string, Session<Approval>>()

  const waiting = ({ interests }: Session<Approval>) => [...interests].flatMap(({ settle }) => settle ?? [])

  const follow = async (
    source: Source,
    id: string,
    session: Session<Approval>,
    reconnect: StreamOptions["reconnect"],
    signal: AbortSignal
  ): Promise<void> => {
    // From the earliest event that a listener may have missed.
    const starts = [...session.interests].map(({ after }) => after)
    const after = starts.includes(undefined) ? undefined : Math.min(...starts.map(Number))
    const options = {
      ...(after === undefined ? {} : { after }),
      ...(reconnect === undefined ? {} : { reconnect })
    }
    for await (const event of follower.stream(source, id, options, signal)) {
      const approval = changeIn(event)
      if (approval === undefined) continue
      for (const interest of session.interests) interest.receive(approval)
    }
  }

  const open = (
    source: Source,
    id: string,
    session: Session<Approval>,
    reconnect: StreamOptions["reconnect"]
  ): void => {
    const stream = new AbortController()
    session.stream = stream
    const end = (outcome: { readonly error?: unknown }) => {
      if (session.stream !== stream) return
      session.stream = undefined
      for (const settle of waiting(session)) settle(outcome)
    }
    follow(source, id, session, reconnect, stream.signal).then(
      () => end({}),
      (error: unknown) => end({ error })
    )
  }

  /** Closes the stream if no wait is left. */
  const release = (session: Session<Approval>): void => {
    if (waiting(session).length > 0) return
    const { stream } = session
    session.stream = undefined
    stream?.abort()
  }

  const listen = (id: string, source: Source): ApprovalListener<Approval> => {
    const session: Session<Approval> = sessions.get(id) ?? { interests: new Set(), stream: undefined }
    sessions.set(id, session)
    // While the step is requested, the ID of its approval is not known yet.
    let changed = new Map<string, Approval>()
    const keep = (approval: Approval) => void changed.set(approval.approval_id, approval)
    const interest: Interest<Approval> = { after: follower.lastSeen(id), receive: keep, settle: undefined }
    session.interests.add(interest)

    const change: ApprovalListener<Approval>["change"] = (approval_id, { reconnect, signal }) =>
      new Promise<Approval | undefined>((resolve, reject) => {
        signal.throwIfAborted()
        const found = changed.get(approval_id ?? "")
        changed = new Map()
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
        if (session.stream === undefined) open(source, id, session, reconnect)
      })

    return {
      change,
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
