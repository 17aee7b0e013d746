/**
 * How the inbox is kept:
 *
 * ```
 *  closed ──connect──> connecting ──opened──> streaming, which has everything read once
 *     ^                   │   ^                   │ resync: read again   │ a reading failed: read later
 *     └──pause────────────┴───┼──── broken ───────┘
 *                             └ refused: read, and connect later
 * ```
 *
 * There is one reading at a time, and what comes while it is under way is newer than what it brings.
 */
import { DateTime, Duration, Effect, Fiber, Schedule } from "effect"
import type { Inbox } from "../../../api/Console.ts"
import type { ApprovalSnapshot } from "../../../api/SessionStream.ts"
import type { ApprovalId } from "../../../domain/Ids.ts"

export interface InboxState {
  /** `loading`: nothing is known yet. `behind`: the stream broke or nothing was answered, and what is shown may be old. */
  readonly phase: "loading" | "live" | "behind"
  /** In the order in which they close. */
  readonly pending: ReadonlyArray<ApprovalSnapshot>
  /** Those that closed while this page looked, newest last. */
  readonly closed: ReadonlyMap<ApprovalId, ApprovalSnapshot>
  /** How often everything was read: what was missed before is known after. */
  readonly fullReads: number
}

/** What a stream of changes tells. */
export interface InboxListener {
  readonly opened: () => void
  readonly approval: (approval: ApprovalSnapshot) => void
  /** Some changes may have been missed. */
  readonly resync: () => void
  /** `refused`: it does not connect again by itself. */
  readonly broken: (refused: boolean) => void
}

/** Where the inbox comes from, and who looks at it. */
export interface InboxPort {
  /** A page of what waits, after the last one of the page before. */
  readonly list: (last: ApprovalSnapshot | undefined) => Effect.Effect<Inbox, unknown>
  /** Opens the stream of changes; answers with how to close it. */
  readonly connect: (hear: InboxListener) => () => void
  /** Whether who began to look is still signed in, asked when a stream begins anew. */
  readonly isStillSignedIn: Effect.Effect<boolean>
  /** The state is another. `now`: somebody waits for it. */
  readonly onChange: (now: boolean) => void
}

/** The inbox, followed. */
export interface InboxFollower {
  readonly state: () => InboxState
  /** An approval as an answer of the service shows it. */
  readonly applyApproval: (approval: ApprovalSnapshot) => void
  readonly connect: () => void
  /** Ends the stream, and whatever is asked or waited for. What is known stays. */
  readonly pause: () => void
}

/** Pages that are read at most: with up to 1,000 approvals each, far more than people decide. */
const MAX_PAGES = 50

/** Closed approvals that are remembered. */
const MAX_CLOSED = 500

/** Between readings that failed: a second at first. */
const readAgain = Schedule.exponential("1 second").pipe(
  Schedule.modifyDelay(({ duration }) => Effect.succeed(Duration.min(duration, LONGEST_WAIT))),
  Schedule.jittered
)

/** How long to wait before another try where the browser gave up; twice as long after each. */
const RECONNECT = Duration.seconds(3)

const LONGEST_WAIT = Duration.seconds(30)

const byDeadline = (left: ApprovalSnapshot, right: ApprovalSnapshot): number =>
  DateTime.toEpochMillis(left.expires_at) - DateTime.toEpochMillis(right.expires_at) ||
  (left.approval_id < right.approval_id ? -1 : 1)

type Approvals = Map<ApprovalId, ApprovalSnapshot>

/** An inbox that is not connected yet. */
export const makeInboxFollower = Effect.fnUntraced(function* ({
  onChange,
  connect,
  isStillSignedIn,
  list
}: InboxPort) {
  const fork = Effect.runForkWith(yield* Effect.context<never>())
  let pending: Approvals = new Map()
  const closed: Approvals = new Map()
  let known = false
  let readings = 0
  let streaming = false
  /** What is shown is as the service has it: read while the stream was open, and told of each change since. */
  let fresh = false
  let reading: Fiber.Fiber<void> | undefined
  /** Something may have been missed since the reading under way began. */
  let again = false
  /** What came since then. */
  let heard: Approvals | undefined
  let reconnecting: Fiber.Fiber<void> | undefined
  let refusals = 0
  let close: (() => void) | undefined

  const put = (into: Approvals, approval: ApprovalSnapshot) => {
    if (approval.status === "pending") {
      // What is closed stays closed, whatever comes late.
      if (!closed.has(approval.approval_id)) into.set(approval.approval_id, approval)
      return
    }
    into.delete(approval.approval_id)
    closed.delete(approval.approval_id)
    closed.set(approval.approval_id, approval)
    const [oldest] = closed.keys()
    if (closed.size > MAX_CLOSED && oldest !== undefined) closed.delete(oldest)
  }

  const apply = (approval: ApprovalSnapshot) => {
    put(pending, approval)
    heard?.set(approval.approval_id, approval)
    onChange(false)
  }

  const behind = () => {
    fresh = false
    onChange(false)
  }

  const readAll = Effect.gen(function* () {
    const came: Approvals = new Map()
    const found: Approvals = new Map()
    heard = came
    again = false
    const show = (now: boolean) => {
      pending = new Map(found)
      for (const approval of came.values()) put(pending, approval)
      fresh = streaming && !again
      known = true
      onChange(now)
    }
    let last: ApprovalSnapshot | undefined
    for (let page = 0; page < MAX_PAGES; page++) {
      const { approvals, more } = yield* list(last)
      for (const approval of approvals) put(found, approval)
      // The first page is shown at once: it is what closes first.
      if (!known) show(true)
      last = approvals.at(-1)
      if (!more || last === undefined) break
    }
    readings++
    show(false)
  }).pipe(Effect.tapError(() => Effect.sync(behind)))

  /** Reads until what was read is all there is. It tires of failing where the stream is away: that will have it read again. */
  const readOn = readAll.pipe(
    Effect.retry({ schedule: readAgain, while: () => streaming || !known }),
    Effect.repeat({ while: () => again }),
    Effect.ignore,
    Effect.ensuring(Effect.sync(() => void (heard = undefined)))
  )

  const begin = (work: Effect.Effect<void>) => {
    const before = reading
    const fiber = fork(before === undefined ? work : Effect.andThen(Fiber.interrupt(before), work))
    reading = fiber
    fiber.addObserver(() => {
      if (reading === fiber) reading = undefined
    })
  }

  const hear: InboxListener = {
    opened: () => {
      streaming = true
      refusals = 0
      // What happened before the stream began is in what is read after; what is being read may lack it.
      begin(known ? Effect.flatMap(isStillSignedIn, (here) => (here ? readOn : Effect.void)) : readOn)
    },
    approval: apply,
    resync: () => {
      again = true
      if (reading === undefined) begin(readOn)
    },
    broken: (refused) => {
      streaming = false
      behind()
      // Without a stream, or before there is one, what waits is shown all the same.
      if (reading === undefined && (refused || !known)) begin(readOn)
      if (!refused) return
      const wait = Duration.min(Duration.times(RECONNECT, 2 ** Math.min(refusals++, 10)), LONGEST_WAIT)
      reconnecting = fork(
        Effect.sleep(wait).pipe(
          Effect.andThen(isStillSignedIn),
          Effect.map((here) => {
            if (here) open()
          })
        )
      )
    }
  }

  const open = () => {
    close?.()
    close = connect(hear)
  }

  const following: InboxFollower = {
    state: () => ({
      phase: known ? (fresh ? "live" : "behind") : "loading",
      pending: [...pending.values()].toSorted(byDeadline),
      closed: new Map(closed),
      fullReads: readings
    }),
    applyApproval: apply,
    connect: open,
    pause: () => {
      close?.()
      close = undefined
      reading?.interruptUnsafe()
      reconnecting?.interruptUnsafe()
      streaming = false
      behind()
    }
  }
  return following
})
