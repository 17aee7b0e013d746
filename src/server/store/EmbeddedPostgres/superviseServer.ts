import { Deferred, Effect, Exit, Schedule, Scope } from "effect"
import { OTHER_OPTIONS, EmbeddedPostgresFailed, explainPostgresOutput } from "./EmbeddedPostgresFailed.ts"
import { type ServerReference, releaseServer, tryAcquireServer } from "./ServerReference.ts"
import {
  readLogFrom,
  removeStalePidFile,
  type ServerSettings,
  sizeOfLog,
  type StartState,
  startServer,
  stopServer,
  trimLog
} from "./Postmaster.ts"
import { runWorker, startWorkers } from "../../concurrency/Worker.ts"

/** Longest start. Crash recovery replays at most `max_wal_size`: seconds, or a minute on a slow disk. */
const START_TIMEOUT = "3 minutes"

/** Interval between polls of a starting server, and how many polls later the longer one follows: each poll forks a process of the server. */
const POLL_INTERVAL = "15 millis"
const FREQUENT_POLLS = 100
const LATER_POLL_INTERVAL = "150 millis"

/** Pause after a server that exited immediately. The processes of a killed server take about 0.4 s to exit. */
const RESTART_DELAY = "100 millis"

/**
 * Backoff between attempts to restart a server that died under a running service, at most 5 s, so that the service is
 * back well within 15 s after a full disk has space again.
 */
const RECOVERY_SCHEDULE = Schedule.min([Schedule.exponential("250 millis"), Schedule.spaced("5 seconds")])

/**
 * Checks the log of a server that exited instead of starting. It succeeds if a retry helps: another server uses the
 * directory, or processes of a killed server have not exited yet. Otherwise it fails with a phrase for the operator.
 */
const checkFailedStart = Effect.fn("EmbeddedPostgres.checkFailedStart")(function* (
  settings: ServerSettings,
  log: string
) {
  if (/lock file .* (already exists|is empty)/.test(log)) {
    if (yield* removeStalePidFile(settings.cluster))
      yield* Effect.logWarning("Removed a stale postmaster.pid")
    return
  }
  const known = explainPostgresOutput(log)
  if (
    known === undefined &&
    /pre-existing shared memory block .* is still in use|could not bind|database system is shut down/.test(
      log
    )
  )
    return
  const fatal = log.split("\n").find((line) => /FATAL|PANIC/.test(line)) ?? log.trim()
  const why = known ?? `it reported "${fatal.trim().slice(0, 300)}" (${settings.logFile}): fix the cause`
  return yield* new EmbeddedPostgresFailed({
    phrase: `PostgreSQL does not start in ${settings.cluster.directory}: ${why}, ${OTHER_OPTIONS}`
  })
})

/** Tries once to acquire a reference, in a scope of its own, so that a failed attempt closes its connection immediately. */
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

/** Acquires a reference to the running server, or starts one, and waits until it accepts connections. */
const acquireServer = Effect.fn("EmbeddedPostgres.acquireServer")(function* (settings: ServerSettings) {
  let child: Effect.Effect<StartState> | undefined
  let polls = 0
  const poll = Effect.gen(function* () {
    const found = yield* attemptAcquire(settings)
    if (typeof found !== "string") return found
    if (child !== undefined) {
      const now = yield* child
      if (now.state === "ended") {
        child = undefined
        yield* checkFailedStart(settings, now.log)
        yield* Effect.sleep(RESTART_DELAY)
      }
    } else if (found === "absent") {
      child = yield* startServer(settings)
    }
    yield* Effect.sleep(polls++ < FREQUENT_POLLS ? POLL_INTERVAL : LATER_POLL_INTERVAL)
    return undefined
  })
  const loop: Effect.Effect<ServerReference, EmbeddedPostgresFailed, Scope.Scope> = Effect.flatMap(
    poll,
    (reference) => (reference === undefined ? loop : Effect.succeed(reference))
  )
  return yield* loop.pipe(
    // An interrupted start stops the server that it started: no service uses it yet.
    Effect.onInterrupt(() => (child === undefined ? Effect.void : Effect.ignore(stopServer(settings)))),
    Effect.timeoutOrElse({
      duration: START_TIMEOUT,
      orElse: () =>
        new EmbeddedPostgresFailed({
          phrase: `PostgreSQL in ${settings.cluster.directory} did not accept connections within ${START_TIMEOUT}: see ${settings.logFile}, ${OTHER_OPTIONS}`
        })
    })
  )
})

/**
 * Keeps a reference to the server until the scope closes; releasing the last reference stops the server. If the server
 * dies, it is restarted with backoff, forever, because the service is useless without its database. Completes when the
 * server first accepts connections. Only the first start can fail.
 */
export const superviseServer = Effect.fn("EmbeddedPostgres.superviseServer")(function* (
  settings: ServerSettings
): Effect.fn.Return<void, EmbeddedPostgresFailed, Scope.Scope> {
  const ready = yield* Deferred.make<void, EmbeddedPostgresFailed>()
  /** Why the server does not start again: logged when it changes, and not at every attempt. */
  let logged: string | undefined
  const untilLost = Effect.scoped(
    Effect.gen(function* () {
      const reference = yield* Effect.acquireRelease(
        acquireServer(settings),
        (reference) => releaseServer(settings, reference),
        {
          interruptible: true
        }
      )
      if (!(yield* Deferred.succeed(ready, undefined)))
        yield* Effect.logInfo("The embedded PostgreSQL is available again")
      logged = undefined
      const start = yield* sizeOfLog(settings.logFile)
      yield* reference.lost
      const why = explainPostgresOutput(yield* readLogFrom(settings.logFile, start))
      yield* Effect.logWarning(
        `The embedded PostgreSQL has ended${why === undefined ? "" : ` (${why})`}; restarting it`
      )
    })
  )
  yield* untilLost.pipe(
    Effect.tapError((error) =>
      Effect.flatMap(Deferred.fail(ready, error), (first) =>
        Effect.suspend(() => {
          if (first || logged === error.phrase) return Effect.void
          logged = error.phrase
          return Effect.logError(error.phrase)
        })
      )
    ),
    Effect.retry(RECOVERY_SCHEDULE),
    Effect.forever,
    Effect.forkScoped
  )
  yield* startWorkers([
    runWorker({ name: "postgres_log_trim", runOnce: trimLog(settings.logFile), every: "1 hour" })
  ])
  yield* Deferred.await(ready)
})
