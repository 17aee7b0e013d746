/**
 * The state machine that keeps the list of pending approvals current:
 *
 * ```
 *  closed ──connect──> waiting ──opened──> streaming (reads everything once)
 *     ^                   ^                   │ resync: read again   │ read failed: retry with backoff
 *     └──pause────────────┴────── broken ─────┘
 * ```
 *
 * Only one read runs at a time. Changes that the stream delivers during a read are newer than its result and are applied on top.
 */
import { DateTime, Duration, Effect, Fiber, Schedule } from "effect"
import type { Inbox, InboxApproval } from "../../../api/Console.ts"
import type { ApprovalId } from "../../../domain/Ids.ts"
import { MAX_SILENCE, type StreamListener } from "./StreamConnection.ts"

export interface InboxState {
  /** `loading`: no page has been read yet. `behind`: the stream is broken or a read failed, so the data may be stale. */
  readonly phase: "loading" | "live" | "behind"
  /** Sorted by deadline. */
  readonly pending: ReadonlyArray<InboxApproval>
  /** The approvals that closed while this page was open, newest last. */
  readonly closed: ReadonlyMap<ApprovalId, InboxApproval>
  /** The number of completed full reads. After one, no earlier change is missing. */
  readonly fullReads: number
}

/** Receives the events of the stream. */
export type InboxListener = Omit<StreamListener, "ping">

/** Dependencies of the follower: the inbox's API, the session and a callback for changes. */
export interface InboxPort {
  /** Reads the page of pending approvals after `last`, the last one of the previous page. */
  readonly list: (last: InboxApproval | undefined) => Effect.Effect<Inbox, unknown>
  /** Subscribes to the stream of changes; returns the function that ends the subscription. */
  readonly connect: (listener: InboxListener) => () => void
  /** Whether the session that opened the page is still the current one; checked before reading after a reconnect. */
  readonly isStillSignedIn: Effect.Effect<boolean>
  /** Called after each change of the state. `immediately`: render without waiting for the next frame. */
  readonly onChange: (immediately: boolean) => void
}

export interface InboxFollower {
  readonly state: () => InboxState
  /** Applies an approval from an API response. */
  readonly applyApproval: (approval: InboxApproval) => void
  readonly connect: () => void
  /** Ends the subscription and cancels reads. The state is kept. */
  readonly pause: () => void
}

/** The most pages of a full read. With up to 1,000 approvals each, that is far more than people can decide. */
const MAX_PAGES = 50

/** The most closed approvals that are kept. */
const MAX_CLOSED = 500

const MAX_BACKOFF = Duration.seconds(30)

/** The backoff between failed reads: exponential from one second, with jitter. */
const readBackoff = Schedule.exponential("1 second").pipe(
  Schedule.modifyDelay(({ duration }) => Effect.succeed(Duration.min(duration, MAX_BACKOFF))),
  Schedule.jittered
)

const byDeadline = (left: InboxApproval, right: InboxApproval): number =>
  DateTime.toEpochMillis(left.expires_at) - DateTime.toEpochMillis(right.expires_at) ||
  (left.approval_id < right.approval_id ? -1 : 1)

type Approvals = Map<ApprovalId, InboxApproval>

/** Responses of the API have no line, which never changes. */
const withLine = (approval: InboxApproval, known: InboxApproval | undefined): InboxApproval =>
  approval.line !== undefined || known?.line === undefined ? approval : { ...approval, line: known.line }

/** Adds to a map bounded by `MAX_CLOSED`. The oldest entry is evicted first. */
const addClosed = (closed: Approvals, approval: InboxApproval): void => {
  closed.delete(approval.approval_id)
  closed.set(approval.approval_id, approval)
  const [oldest] = closed.keys()
  if (closed.size > MAX_CLOSED && oldest !== undefined) closed.delete(oldest)
}

/** Creates a follower that is not connected yet. */
export const makeInboxFollower = Effect.fnUntraced(function* ({
  connect,
  isStillSignedIn,
  list,
  onChange
}: InboxPort) {
  const fork = Effect.runForkWith(yield* Effect.context<never>())
  let pending: Approvals = new Map()
  const closed: Approvals = new Map()
  let isLoaded = false
  let fullReads = 0
  let isStreaming = false
  /** The state equals the server's: it was read while the stream was open, and every change since was applied. */
  let isFresh = false
  let read: Fiber.Fiber<void> | undefined
  /** The running read must be repeated, because changes may have been missed since it started. */
  let mustReadAgain = false
  /** The approvals that the stream delivered since the running read started. */
  let changedDuringRead: Approvals | undefined
  let closeStream: (() => void) | undefined

  const put = (into: Approvals, approval: InboxApproval) => {
    if (approval.status === "pending") {
      // A closed approval never becomes pending again, so a late snapshot is ignored.
      if (closed.has(approval.approval_id)) return
      // Votes are only added: a snapshot with fewer is older.
      const known = into.get(approval.approval_id)
      if (known === undefined || approval.approvals_given >= known.approvals_given)
        into.set(approval.approval_id, withLine(approval, known))
      return
    }
    into.delete(approval.approval_id)
    addClosed(closed, approval)
  }

  const applyApproval = (approval: InboxApproval) => {
    put(pending, approval)
    changedDuringRead?.set(approval.approval_id, approval)
    onChange(false)
  }

  const markStale = () => {
    isFresh = false
    onChange(false)
  }

  const readAll = Effect.gen(function* () {
    const changes: Approvals = new Map()
    const found: Approvals = new Map()
    changedDuringRead = changes
    mustReadAgain = false
    const show = (immediately: boolean) => {
      pending = new Map(found)
      for (const approval of changes.values()) put(pending, approval)
      isFresh = isStreaming && !mustReadAgain
      isLoaded = true
      onChange(immediately)
    }
    let last: InboxApproval | undefined
    for (let page = 0; page < MAX_PAGES; page++) {
      const { approvals, more } = yield* Effect.timeout(list(last), MAX_SILENCE)
      for (const approval of approvals) put(found, approval)
      // The first page has the nearest deadlines, so it is shown before the rest is read.
      if (!isLoaded) show(true)
      last = approvals.at(-1)
      if (!more || last === undefined) break
    }
    fullReads++
    show(false)
  }).pipe(Effect.tapError(() => Effect.sync(markStale)))

  // A request on a lost connection gets no response, as the stream gets no event.
  const isSignedInOrSilent = Effect.timeoutOrElse(isStillSignedIn, {
    duration: MAX_SILENCE,
    orElse: () => Effect.succeed(true)
  })

  /** Reads until the result is complete. Retries stop once the stream is down, because reopening it starts a new read. */
  const readUntilComplete = readAll.pipe(
    Effect.retry({ schedule: readBackoff, while: () => isStreaming || !isLoaded }),
    Effect.repeat({ while: () => mustReadAgain }),
    Effect.ignore,
    Effect.ensuring(Effect.sync(() => void (changedDuringRead = undefined)))
  )

  const startRead = (work: Effect.Effect<void>) => {
    const previous = read
    const fiber = fork(previous === undefined ? work : Effect.andThen(Fiber.interrupt(previous), work))
    read = fiber
    fiber.addObserver(() => {
      if (read === fiber) read = undefined
    })
  }

  const listener: InboxListener = {
    opened: () => {
      isStreaming = true
      // A new read covers everything before the stream opened. The running one may not, so it is replaced.
      startRead(
        isLoaded
          ? Effect.flatMap(isSignedInOrSilent, (isSignedIn) => (isSignedIn ? readUntilComplete : Effect.void))
          : readUntilComplete
      )
    },
    approval: applyApproval,
    resync: () => {
      mustReadAgain = true
      if (read === undefined) startRead(readUntilComplete)
    },
    broken: (refused) => {
      isStreaming = false
      markStale()
      // Pending approvals are shown even without a stream.
      if (read === undefined && (refused || !isLoaded)) startRead(readUntilComplete)
    }
  }

  const follower: InboxFollower = {
    state: () => ({
      phase: isLoaded ? (isFresh ? "live" : "behind") : "loading",
      pending: [...pending.values()].toSorted(byDeadline),
      closed: new Map(closed),
      fullReads
    }),
    applyApproval,
    connect: () => {
      closeStream?.()
      closeStream = connect(listener)
    },
    pause: () => {
      closeStream?.()
      closeStream = undefined
      read?.interruptUnsafe()
      isStreaming = false
      markStale()
    }
  }
  return follower
})
