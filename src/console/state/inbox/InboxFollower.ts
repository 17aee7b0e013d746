/**
 * The state machine that keeps the inbox current:
 *
 * ```
 *  closed ──connect──> connecting ──opened──> streaming (reads everything once)
 *     ^                   │   ^                   │ resync: read again   │ read failed: retry with backoff
 *     └──pause────────────┴───┼─ broken, silent ──┘
 *                             └ refused: read, and reconnect with backoff
 * ```
 *
 * A connection can be lost without an error, for example when the device sleeps or changes its network. A stream that sends no event and no
 * heartbeat for `MAX_SILENCE` is therefore replaced by a new one.
 *
 * Only one read runs at a time. Changes that the stream delivers during a read are newer than its result and are applied on top.
 */
import { Clock, DateTime, Duration, Effect, Fiber, Schedule } from "effect"
import { type Inbox, INBOX_PING_MS, type InboxApproval } from "../../../api/Console.ts"
import type { ApprovalId } from "../../../domain/Ids.ts"

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
export interface InboxListener {
  readonly opened: () => void
  readonly approval: (approval: InboxApproval) => void
  /** A heartbeat: the stream is connected, and nothing has changed. */
  readonly ping: () => void
  /** Some changes may have been missed. */
  readonly resync: () => void
  /** `refused`: the browser does not reconnect by itself. */
  readonly broken: (refused: boolean) => void
}

/** Dependencies of the follower: the inbox's API, the session and a callback for changes. */
export interface InboxPort {
  /** Reads the page of pending approvals after `last`, the last one of the previous page. */
  readonly list: (last: InboxApproval | undefined) => Effect.Effect<Inbox, unknown>
  /** Opens the stream of changes; returns the function that closes it. */
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
  /** Replaces the stream if a heartbeat is overdue: the device's network may have changed. */
  readonly check: () => void
  /** Closes the stream and cancels reads and reconnects. The state is kept. */
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

/** The first delay before reconnecting a refused stream; it doubles with each refusal. */
const RECONNECT_DELAY = Duration.seconds(3)

/** The longest time without an event, or until a response: after two missed heartbeats, the stream is replaced. */
const MAX_SILENCE = Duration.millis(2.5 * INBOX_PING_MS)

/** The longest time until a new stream opens. A browser may send its request on another lost connection first. */
const MAX_CONNECTING = Duration.seconds(10)

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
  const clock = yield* Clock.Clock
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
  let reconnect: Fiber.Fiber<void> | undefined
  let refusals = 0
  let closeStream: (() => void) | undefined
  let silence: Fiber.Fiber<void> | undefined
  let lastHeardAt = 0

  const put = (into: Approvals, approval: InboxApproval) => {
    if (approval.status === "pending") {
      // A closed approval never becomes pending again, so a late snapshot is ignored.
      if (closed.has(approval.approval_id)) return
      // Votes are only added: a snapshot with fewer is older.
      const known = into.get(approval.approval_id)
      if ((approval.approvals_given ?? 0) >= (known?.approvals_given ?? 0))
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

  const awaitEvent = (limit: Duration.Duration) => {
    silence?.interruptUnsafe()
    silence = fork(Effect.andThen(Effect.sleep(limit), Effect.sync(replaceStream)))
  }

  /** Notes an event of the stream, or its opening, and waits for the next one. */
  const hear = () => {
    lastHeardAt = clock.currentTimeMillisUnsafe()
    awaitEvent(MAX_SILENCE)
  }

  const listener: InboxListener = {
    ping: hear,
    opened: () => {
      hear()
      isStreaming = true
      refusals = 0
      // A new read covers everything before the stream opened. The running one may not, so it is replaced.
      startRead(
        isLoaded
          ? Effect.flatMap(isSignedInOrSilent, (isSignedIn) => (isSignedIn ? readUntilComplete : Effect.void))
          : readUntilComplete
      )
    },
    approval: (approval) => {
      hear()
      applyApproval(approval)
    },
    resync: () => {
      hear()
      mustReadAgain = true
      if (read === undefined) startRead(readUntilComplete)
    },
    broken: (refused) => {
      isStreaming = false
      markStale()
      // The reconnect below replaces the stream.
      if (refused) silence?.interruptUnsafe()
      // Pending approvals are shown even without a stream.
      if (read === undefined && (refused || !isLoaded)) startRead(readUntilComplete)
      if (!refused) return
      const delay = Duration.min(Duration.times(RECONNECT_DELAY, 2 ** Math.min(refusals++, 10)), MAX_BACKOFF)
      reconnect = fork(
        Effect.sleep(delay).pipe(
          Effect.andThen(isSignedInOrSilent),
          Effect.map((isSignedIn) => {
            if (isSignedIn) openStream()
          })
        )
      )
    }
  }

  const openStream = () => {
    closeStream?.()
    closeStream = connect(listener)
    // The connection may neither open nor fail.
    lastHeardAt = clock.currentTimeMillisUnsafe()
    awaitEvent(MAX_CONNECTING)
  }

  const replaceStream = () => {
    isStreaming = false
    markStale()
    openStream()
  }

  const follower: InboxFollower = {
    state: () => ({
      phase: isLoaded ? (isFresh ? "live" : "behind") : "loading",
      pending: [...pending.values()].toSorted(byDeadline),
      closed: new Map(closed),
      fullReads
    }),
    applyApproval,
    connect: openStream,
    check: () => {
      const isSilent = clock.currentTimeMillisUnsafe() - lastHeardAt > INBOX_PING_MS
      if (closeStream !== undefined && isSilent) replaceStream()
    },
    pause: () => {
      closeStream?.()
      closeStream = undefined
      silence?.interruptUnsafe()
      read?.interruptUnsafe()
      reconnect?.interruptUnsafe()
      isStreaming = false
      markStale()
    }
  }
  return follower
})
