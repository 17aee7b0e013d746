/**
 * One event stream for all tabs of a session. The tab that holds the lock is the leader: it keeps the stream, counts the approvals that the
 * key can decide, and passes everything on to the other tabs, the followers, by a channel.
 *
 * ```
 *  follower ──lock granted──> leader ──lock stolen, frozen──> follower
 *      │                        ^
 *      └──the leader does not answer: steal the lock──┘
 * ```
 *
 * A follower that receives no message for `MAX_QUIET` sends a probe. If the leader does not answer, because it is frozen, the follower steals
 * the lock. A visible follower also steals it from a hidden leader that has lost its stream, because browsers throttle hidden tabs. After
 * every takeover the new leader opens its own stream and all tabs read again, so that no change is missed.
 *
 * Without locks, every tab keeps a stream of its own while it is visible.
 */
import { Clock, Duration, Effect, type Fiber, Option, Schedule, Schema } from "effect"
import { INBOX_PING_MS, InboxApproval } from "../../../api/Console.ts"
import { PendingCount } from "../../../api/console/PendingCount.ts"
import { makeStreamConnection, type StreamPort } from "./StreamConnection.ts"

/** The messages between the tabs of a session. */
const Message = Schema.Union([
  /** A probe: the leader answers with its status. */
  Schema.TaggedStruct("Probe", {}),
  Schema.TaggedStruct("Status", {
    stream: Schema.Literals(["connecting", "open", "broken"]),
    /** Names this opening of a stream. Another one: changes may have been missed. */
    opening: Schema.String,
    isHidden: Schema.Boolean,
    count: Schema.NullOr(PendingCount)
  }),
  Schema.TaggedStruct("Approval", { approval: Schema.toCodecJson(InboxApproval) }),
  Schema.TaggedStruct("Resync", {}),
  Schema.TaggedStruct("Ping", {}),
  Schema.TaggedStruct("Count", { count: PendingCount }),
  /** Visible tabs answer with `Visible`. */
  Schema.TaggedStruct("FindVisible", {}),
  Schema.TaggedStruct("Visible", {}),
  /** The session has ended in a tab. */
  Schema.TaggedStruct("Ended", {})
])
type Message = typeof Message.Type

const decode = Schema.decodeUnknownOption(Message)
const encode = Schema.encodeSync(Message)

/** Whether changes arrive. */
export type StreamStatus = "connecting" | "open" | "broken"

/** Receives the events of the stream, in every tab. */
export interface SharedListener {
  readonly opened: () => void
  readonly approval: (approval: InboxApproval) => void
  readonly resync: () => void
  readonly broken: (refused: boolean) => void
  readonly count: (count: PendingCount) => void
}

/** The lock that one tab of a session holds. */
export interface LeaderLock {
  /** Waits for the lock, or takes it from its holder. Returns the function that gives up the lock or the wait. */
  readonly request: (options: {
    readonly steal: boolean
    readonly granted: () => void
    /** Another tab has taken the lock. */
    readonly lost: () => void
  }) => () => void
}

/** The channel to the other tabs of the session. */
export interface TabChannel {
  readonly post: (message: unknown) => void
  /** Returns the function that closes the channel. */
  readonly listen: (onMessage: (message: unknown) => void) => () => void
}

/** Dependencies of the shared stream. */
export interface SharedStreamPort extends StreamPort {
  /** A new text each time. */
  readonly randomId: () => string
  readonly isHidden: () => boolean
  readonly count: Effect.Effect<PendingCount, unknown>
  /** Undefined: the browser has no locks, and this tab keeps a stream of its own. */
  readonly tabs: { readonly lock: LeaderLock; readonly channel: TabChannel } | undefined
}

export interface SharedStream {
  readonly status: () => StreamStatus
  /** Whether this tab keeps the stream. */
  readonly isLeader: () => boolean
  /** To be called when the tab is shown or hidden, and when the network may have changed. */
  readonly check: () => void
  /** Gives up the lock: the browser is about to freeze the tab. */
  readonly freeze: () => void
  readonly resume: () => void
  /** Notifies the other tabs that the session may have ended. */
  readonly notifyEnded: () => void
  /** Whether this tab or another one of the session is visible. */
  readonly hasVisibleTab: Effect.Effect<boolean>
  readonly close: () => void
}

/** The longest time without a message of the leader, which relays every heartbeat. */
const MAX_QUIET = Duration.millis(1.5 * INBOX_PING_MS)

/** How long a leader may take to answer a probe. Hidden tabs handle messages, frozen ones do not. */
const ANSWER_TIMEOUT = Duration.seconds(2)

/** How long a hidden leader may be without its stream while another tab is visible. */
const MAX_HIDDEN_LOSS = Duration.seconds(5)

/** How long visible tabs may take to answer. A busy one needs more than a moment. */
const VISIBLE_TIMEOUT = Duration.seconds(2)

/** The shortest time between two counts. */
const COUNT_INTERVAL = Duration.seconds(1)

const countRetries = Schedule.max([Schedule.exponential("1 second"), Schedule.recurs(5)])

/** Starts to follow the stream of a session. */
export const makeSharedStream = Effect.fnUntraced(function* (
  port: SharedStreamPort,
  listener: SharedListener
) {
  const fork = Effect.runForkWith(yield* Effect.context<never>())
  const clock = yield* Clock.Clock
  const { tabs } = port
  let status: StreamStatus = "connecting"
  let opening = ""
  let count: PendingCount | null = null
  let role: "follower" | "leader" = tabs === undefined ? "leader" : "follower"
  let releaseLock: (() => void) | undefined
  let watch: Fiber.Fiber<void> | undefined
  let takeoverFiber: Fiber.Fiber<void> | undefined
  let counting: Fiber.Fiber<void> | undefined
  let mustCountAgain = false
  let countedAt = Number.NEGATIVE_INFINITY
  let isClosed = false
  /** Without locks: the tab is hidden, and has no stream. */
  let isPaused = tabs === undefined && port.isHidden()
  const visibleAnswers = new Set<() => void>()

  const post = (message: Message) => tabs?.channel.post(encode(message))
  const postStatus = () => post({ _tag: "Status", stream: status, opening, isHidden: port.isHidden(), count })

  const countOnce = Effect.gen(function* () {
    mustCountAgain = false
    countedAt = clock.currentTimeMillisUnsafe()
    const found = yield* port.count
    count = found
    listener.count(found)
    post({ _tag: "Count", count: found })
  }).pipe(Effect.retry(countRetries), Effect.ignore)

  /** Waits for the rest of the interval since the last count, without a timer if that is over: browsers delay timers of hidden tabs. */
  const awaitInterval = Effect.suspend(() => {
    const rest = countedAt + Duration.toMillis(COUNT_INTERVAL) - clock.currentTimeMillisUnsafe()
    return rest > 0 ? Effect.sleep(rest) : Effect.void
  })

  /** Counts now, or again after the running count. */
  const recount = () => {
    mustCountAgain = true
    if (counting !== undefined) return
    counting = fork(Effect.repeat(Effect.andThen(awaitInterval, countOnce), { while: () => mustCountAgain }))
    counting.addObserver(() => {
      counting = undefined
    })
  }

  const connection = yield* makeStreamConnection(port, {
    opened: () => {
      status = "open"
      opening = port.randomId()
      postStatus()
      listener.opened()
      recount()
    },
    approval: (approval) => {
      post({ _tag: "Approval", approval })
      listener.approval(approval)
      recount()
    },
    ping: () => post({ _tag: "Ping" }),
    resync: () => {
      post({ _tag: "Resync" })
      listener.resync()
      recount()
    },
    broken: (refused) => {
      status = "broken"
      postStatus()
      listener.broken(refused)
      // The count does not need the stream.
      if (count === null) recount()
    }
  })

  const lead = () => {
    role = "leader"
    watch?.interruptUnsafe()
    takeoverFiber?.interruptUnsafe()
    takeoverFiber = undefined
    status = "connecting"
    connection.open()
  }

  const stopLeading = () => {
    connection.close()
    counting?.interruptUnsafe()
    role = "follower"
  }

  const requestLock = (steal: boolean) => {
    releaseLock?.()
    releaseLock = tabs?.lock.request({
      steal,
      granted: lead,
      lost: () => {
        if (isClosed) return
        stopLeading()
        requestLock(false)
        probe()
      }
    })
  }

  /** Restarts the watchdog after a message of the leader. */
  const resetWatchdog = () => {
    watch?.interruptUnsafe()
    if (role === "follower") watch = fork(Effect.andThen(Effect.sleep(MAX_QUIET), Effect.sync(probe)))
  }

  /** Probes the leader, and steals the lock if it does not answer. */
  const probe = () => {
    watch?.interruptUnsafe()
    watch = fork(Effect.andThen(Effect.sleep(ANSWER_TIMEOUT), Effect.sync(steal)))
    post({ _tag: "Probe" })
  }

  const steal = () => {
    if (role === "leader" || isClosed) return
    if (status === "open") {
      status = "broken"
      listener.broken(false)
    }
    requestLock(true)
  }

  /** Applies the leader's status. */
  const applyStatus = (message: Message & { readonly _tag: "Status" }) => {
    if (message.count !== null) {
      count = message.count
      listener.count(message.count)
    }
    const before = status
    status = message.stream
    if (message.stream === "open" && message.opening !== opening) {
      opening = message.opening
      listener.opened()
    } else if (message.stream === "broken" && before !== "broken") listener.broken(false)
    if (message.stream === "open" || !message.isHidden || port.isHidden()) {
      takeoverFiber?.interruptUnsafe()
      takeoverFiber = undefined
    } else takeoverFiber ??= fork(Effect.andThen(Effect.sleep(MAX_HIDDEN_LOSS), Effect.sync(steal)))
  }

  /** Handles a message of the leader, unless this tab has just taken over from it. */
  const followLeader = (act: () => void) => {
    if (role === "leader") return
    resetWatchdog()
    act()
  }

  const onMessage = (data: unknown) => {
    const message = Option.getOrUndefined(decode(data))
    if (message === undefined || isClosed) return
    switch (message._tag) {
      case "Probe":
        if (role === "leader") postStatus()
        return
      case "FindVisible":
        if (!port.isHidden()) post({ _tag: "Visible" })
        return
      case "Visible":
        for (const answer of visibleAnswers) answer()
        return
      case "Ended":
        fork(port.isStillSignedIn)
        return
      case "Status":
        return followLeader(() => applyStatus(message))
      case "Approval":
        return followLeader(() => listener.approval(message.approval))
      case "Resync":
        return followLeader(listener.resync)
      case "Ping":
        return followLeader(() => undefined)
      case "Count":
        return followLeader(() => {
          count = message.count
          listener.count(message.count)
        })
    }
  }

  const closeChannel = tabs?.channel.listen(onMessage)
  const start = () => {
    if (tabs === undefined) {
      if (!isPaused) connection.open()
      return
    }
    requestLock(false)
    probe()
  }
  start()

  const stop = () => {
    watch?.interruptUnsafe()
    takeoverFiber?.interruptUnsafe()
    takeoverFiber = undefined
    stopLeading()
    releaseLock?.()
    releaseLock = undefined
  }

  const shared: SharedStream = {
    status: () => status,
    isLeader: () => role === "leader",
    check: () => {
      if (tabs === undefined) {
        const wasPaused = isPaused
        isPaused = port.isHidden()
        if (!isPaused) return wasPaused ? connection.open() : connection.check()
        if (wasPaused) return
        connection.close()
        status = "broken"
        return listener.broken(false)
      }
      if (role === "leader") {
        connection.check()
        postStatus()
      } else if (!port.isHidden()) probe()
    },
    freeze: () => {
      if (tabs !== undefined) stop()
    },
    resume: () => {
      if (tabs !== undefined && releaseLock === undefined && !isClosed) start()
    },
    notifyEnded: () => post({ _tag: "Ended" }),
    hasVisibleTab: Effect.suspend(() => {
      if (!port.isHidden()) return Effect.succeed(true)
      return Effect.callback<boolean>((resume) => {
        const answer = () => resume(Effect.succeed(true))
        visibleAnswers.add(answer)
        post({ _tag: "FindVisible" })
        return Effect.sync(() => visibleAnswers.delete(answer))
      }).pipe(Effect.timeoutOrElse({ duration: VISIBLE_TIMEOUT, orElse: () => Effect.succeed(false) }))
    }),
    close: () => {
      stop()
      isClosed = true
      closeChannel?.()
    }
  }
  return shared
})
