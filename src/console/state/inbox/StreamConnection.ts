/**
 * Keeps one event stream of the inbox open: replaces it when it falls silent, and reconnects with backoff when it was refused.
 *
 * A connection can be lost without an error, for example when the device sleeps or changes its network. A stream that sends no event and no
 * heartbeat for `MAX_SILENCE` is therefore replaced by a new one.
 */
import { Clock, Duration, Effect, type Fiber } from "effect"
import { INBOX_PING_MS, type InboxApproval } from "../../../api/Console.ts"

/** Receives the events of a stream. */
export interface StreamListener {
  readonly opened: () => void
  readonly approval: (approval: InboxApproval) => void
  /** A heartbeat: the stream is connected, and nothing has changed. */
  readonly ping: () => void
  /** Some changes may have been missed. */
  readonly resync: () => void
  /** `refused`: the browser does not reconnect by itself. */
  readonly broken: (refused: boolean) => void
}

/** Dependencies of the connection. */
export interface StreamPort {
  /** Opens a stream; returns the function that closes it. */
  readonly connect: (listener: StreamListener) => () => void
  /** Whether the session that opened the page is still the current one; checked before a refused stream is opened again. */
  readonly isStillSignedIn: Effect.Effect<boolean>
}

export interface StreamConnection {
  readonly open: () => void
  /** Replaces the stream if a heartbeat is overdue: the device's network may have changed. */
  readonly check: () => void
  /** Closes the stream and cancels reconnects. */
  readonly close: () => void
}

/** The first delay before reconnecting a refused stream; it doubles with each refusal. */
const RECONNECT_DELAY = Duration.seconds(3)
const MAX_RECONNECT_DELAY = Duration.seconds(30)

/** The longest time without an event, or until a response: after two missed heartbeats, the stream is replaced. */
export const MAX_SILENCE = Duration.millis(2.5 * INBOX_PING_MS)

/** The longest time until a new stream opens. A browser may send its request on another lost connection first. */
const MAX_CONNECTING = Duration.seconds(10)

/** Creates a connection that is not open yet. */
export const makeStreamConnection = Effect.fnUntraced(function* (
  { connect, isStillSignedIn }: StreamPort,
  listener: StreamListener
) {
  const fork = Effect.runForkWith(yield* Effect.context<never>())
  const clock = yield* Clock.Clock
  let closeStream: (() => void) | undefined
  let silence: Fiber.Fiber<void> | undefined
  let reconnect: Fiber.Fiber<void> | undefined
  let refusals = 0
  let lastHeardAt = 0

  const awaitEvent = (limit: Duration.Duration) => {
    silence?.interruptUnsafe()
    silence = fork(Effect.andThen(Effect.sleep(limit), Effect.sync(replace)))
  }

  /** Notes an event of the stream, or its opening, and waits for the next one. */
  const hear = () => {
    lastHeardAt = clock.currentTimeMillisUnsafe()
    awaitEvent(MAX_SILENCE)
  }

  // A request on a lost connection gets no response, as the stream gets no event.
  const isSignedInOrSilent = Effect.timeoutOrElse(isStillSignedIn, {
    duration: MAX_SILENCE,
    orElse: () => Effect.succeed(true)
  })

  const heard: StreamListener = {
    opened: () => {
      hear()
      refusals = 0
      listener.opened()
    },
    approval: (approval) => {
      hear()
      listener.approval(approval)
    },
    ping: () => {
      hear()
      listener.ping()
    },
    resync: () => {
      hear()
      listener.resync()
    },
    broken: (refused) => {
      listener.broken(refused)
      if (!refused) return
      // The reconnect below replaces the stream.
      silence?.interruptUnsafe()
      const delay = Duration.min(
        Duration.times(RECONNECT_DELAY, 2 ** Math.min(refusals++, 10)),
        MAX_RECONNECT_DELAY
      )
      reconnect = fork(
        Effect.flatMap(isSignedInOrSilent, (isSignedIn) =>
          isSignedIn ? Effect.andThen(Effect.sleep(delay), Effect.sync(open)) : Effect.void
        )
      )
    }
  }

  const open = () => {
    closeStream?.()
    closeStream = connect(heard)
    // The connection may neither open nor fail.
    lastHeardAt = clock.currentTimeMillisUnsafe()
    awaitEvent(MAX_CONNECTING)
  }

  const replace = () => {
    listener.broken(false)
    open()
  }

  const connection: StreamConnection = {
    open,
    check: () => {
      const isSilent = clock.currentTimeMillisUnsafe() - lastHeardAt > INBOX_PING_MS
      if (closeStream !== undefined && isSilent) replace()
    },
    close: () => {
      closeStream?.()
      closeStream = undefined
      silence?.interruptUnsafe()
      reconnect?.interruptUnsafe()
    }
  }
  return connection
})
