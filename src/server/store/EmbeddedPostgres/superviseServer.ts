import { Deferred, Effect, Exit, Schedule, Scope } from "effect"
import { OTHER_OPTIONS, EmbeddedPostgresFailed, explainPostgresOutput } from "./EmbeddedPostgresFailed.ts"
import { type ServerReference, releaseServer, tryAcquireServer } from "./ServerReference.ts"
import {
  removeStalePidFile,
  type ServerSettings,
  type StartState,
  startServer,
  stopServer,
  trimLog
} from "./Postmaster.ts"

/** Longest start. Recovery after a crash replays at most `max_wal_size`, which takes seconds, on a slow disk a minute. */
const START_TIMEOUT = "3 minutes"

/** Between two looks at a server that is on its way. */
const POLL_INTERVAL = "15 millis"

/** After a server that ended at once, before the next. Processes of a killed server take about 0.4 s to be gone. */
const RESTART_DELAY = "100 millis"

/** Between attempts to bring back a server that died under a running service, at the longest. */
const RECOVERY_SCHEDULE = Schedule.min([Schedule.exponential("250 millis"), Schedule.spaced("15 seconds")])

/**
 * What to do about a server that ended instead of starting: another one has the directory (which is what we want), or
 * processes of one that was killed still hold its memory (they are on their way out). Everything else is for a person.
 */
const checkFailedStart = Effect.fn("EmbeddedPostgres.whyEnded")(function* (
  settings: ServerSettings,
  log: string
) {
  if (/lock file .* (already exists|is empty)/.test(log)) {
    if (yield* removeStalePidFile(settings.cluster))
      yield* Effect.logWarning("removed a stale postmaster.pid")
    return
  }
  if (
    /pre-existing shared memory block .* is still in use|could not bind|database system is shut down/.test(
      log
    )
  )
    return
  const fatal = log.split("\n").find((line) => /FATAL|PANIC/.test(line)) ?? log.trim()
  const why =
    explainPostgresOutput(log) ?? `it said "${fatal.trim().slice(0, 300)}" (${settings.logFile}): see to it`
  return yield* new EmbeddedPostgresFailed({
    phrase: `PostgreSQL does not start in ${settings.cluster.directory}: ${why}, ${OTHER_OPTIONS}`
  })
})

/** One attempt to take a share, in a scope of its own: a connection that came to nothing is closed at once. */
const attemptAcquire = (settings: ServerSettings) =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function* () {
      const outer = yield* Effect.scope
      const inner = yield* Scope.fork(outer)
      const exit = yield* Effect.exit(restore(Scope.provide(tryAcquireServer(settings), inner)))
      if (Exit.isFailure(exit) || typeof exit.value === "string") yield* Scope.close(inner, Exit.void)
      return yield* exit
    })
  )

/** Uses the server that runs, or starts one, and waits until it answers. */
const acquireServer = Effect.fn("EmbeddedPostgres.hold")(function* (settings: ServerSettings) {
  let child: Effect.Effect<StartState> | undefined
  const look = Effect.gen(function* () {
    const found = yield* attemptAcquire(settings)
    if (typeof found !== "string") return found
    if (child !== undefined) {
      const now = yield* child
      if (now.state === "ended") {
        child = undefined
        yield* checkFailedStart(settings, now.log)
        yield* Effect.sleep(RESTART_DELAY)
      }
    } else if (found === "absent") child = yield* startServer(settings)
    yield* Effect.sleep(POLL_INTERVAL)
    return undefined
  })
  const loop: Effect.Effect<ServerReference, EmbeddedPostgresFailed, Scope.Scope> = Effect.flatMap(
    look,
    (held) => (held === undefined ? loop : Effect.succeed(held))
  )
  return yield* loop.pipe(
    // Nobody uses a server that has not answered yet: an interrupted start takes its own down again.
    Effect.onInterrupt(() => (child === undefined ? Effect.void : Effect.ignore(stopServer(settings)))),
    Effect.timeoutOrElse({
      duration: START_TIMEOUT,
      orElse: () =>
        new EmbeddedPostgresFailed({
          phrase: `PostgreSQL in ${settings.cluster.directory} did not answer within ${START_TIMEOUT}: see ${settings.logFile}, ${OTHER_OPTIONS}`
        })
    })
  )
})

/**
 * Holds a share in the server until the scope closes, and the last share stops it. Where the server dies in between,
 * it is started again, with growing pauses and no end: the service is of no use without its store. Done when the server
 * answers for the first time; the first start alone fails.
 */
export const superviseServer = Effect.fn("EmbeddedPostgres.keepRunning")(function* (
  settings: ServerSettings
): Effect.fn.Return<void, EmbeddedPostgresFailed, Scope.Scope> {
  const ready = yield* Deferred.make<void, EmbeddedPostgresFailed>()
  const untilLost = Effect.scoped(
    Effect.gen(function* () {
      const held = yield* Effect.acquireRelease(
        acquireServer(settings),
        (held) => releaseServer(settings, held),
        {
          interruptible: true
        }
      )
      if (!(yield* Deferred.succeed(ready, undefined)))
        yield* Effect.logInfo("the embedded PostgreSQL answers again")
      yield* held.lost
      yield* Effect.logWarning("the embedded PostgreSQL is gone; starting it again")
    })
  )
  yield* untilLost.pipe(
    Effect.tapError((error) =>
      Effect.flatMap(Deferred.fail(ready, error), (first) =>
        first ? Effect.void : Effect.logError(error.phrase)
      )
    ),
    Effect.retry(RECOVERY_SCHEDULE),
    Effect.forever,
    Effect.forkScoped
  )
  yield* Effect.forkScoped(Effect.repeat(trimLog(settings.logFile), Schedule.spaced("1 hour")))
  yield* Deferred.await(ready)
})
