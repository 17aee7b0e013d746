import { Deferred, Effect, Exit, Schedule, Scope } from "effect"
import { chooseAnother, EmbeddedPostgresFailed, knownTrouble } from "./EmbeddedPostgresFailed.ts"
import { type Held, leave, tryHold } from "./Holder.ts"
import { removeStaleClaim, type Settings, type Start, start, stop, trimLog } from "./Postmaster.ts"

/** Longest start. Recovery after a crash replays at most `max_wal_size`, which takes seconds, on a slow disk a minute. */
const START_LIMIT = "3 minutes"

/** Between two looks at a server that is on its way. */
const LOOK_EVERY = "15 millis"

/** After a server that ended at once, before the next. Processes of a killed server take about 0.4 s to be gone. */
const START_AGAIN_AFTER = "100 millis"

/** Between attempts to bring back a server that died under a running service, at the longest. */
const RECOVER_EVERY = Schedule.min([Schedule.exponential("250 millis"), Schedule.spaced("15 seconds")])

/**
 * What to do about a server that ended instead of starting: another one has the directory (which is what we want), or
 * processes of one that was killed still hold its memory (they are on their way out). Everything else is for a person.
 */
const whyEnded = Effect.fn("EmbeddedPostgres.whyEnded")(function* (settings: Settings, log: string) {
  if (/lock file .* (already exists|is empty)/.test(log)) {
    if (yield* removeStaleClaim(settings.cluster)) yield* Effect.logWarning("removed a stale postmaster.pid")
    return
  }
  if (
    /pre-existing shared memory block .* is still in use|could not bind|database system is shut down/.test(
      log
    )
  )
    return
  const fatal = log.split("\n").find((line) => /FATAL|PANIC/.test(line)) ?? log.trim()
  const why = knownTrouble(log) ?? `it said "${fatal.trim().slice(0, 300)}" (${settings.logFile}): see to it`
  return yield* new EmbeddedPostgresFailed({
    phrase: `PostgreSQL does not start in ${settings.cluster.directory}: ${why}, ${chooseAnother}`
  })
})

/** One attempt to take a share, in a scope of its own: a connection that came to nothing is closed at once. */
const attemptHold = (settings: Settings) =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function* () {
      const outer = yield* Effect.scope
      const inner = yield* Scope.fork(outer)
      const exit = yield* Effect.exit(restore(Scope.provide(tryHold(settings), inner)))
      if (Exit.isFailure(exit) || typeof exit.value === "string") yield* Scope.close(inner, Exit.void)
      return yield* exit
    })
  )

/** Uses the server that runs, or starts one, and waits until it answers. */
const hold = Effect.fn("EmbeddedPostgres.hold")(function* (settings: Settings) {
  let child: Effect.Effect<Start> | undefined
  const look = Effect.gen(function* () {
    const found = yield* attemptHold(settings)
    if (typeof found !== "string") return found
    if (child !== undefined) {
      const now = yield* child
      if (now.state === "ended") {
        child = undefined
        yield* whyEnded(settings, now.log)
        yield* Effect.sleep(START_AGAIN_AFTER)
      }
    } else if (found === "absent") child = yield* start(settings)
    yield* Effect.sleep(LOOK_EVERY)
    return undefined
  })
  const loop: Effect.Effect<Held, EmbeddedPostgresFailed, Scope.Scope> = Effect.flatMap(look, (held) =>
    held === undefined ? loop : Effect.succeed(held)
  )
  return yield* loop.pipe(
    // Nobody uses a server that has not answered yet: an interrupted start takes its own down again.
    Effect.onInterrupt(() => (child === undefined ? Effect.void : Effect.ignore(stop(settings)))),
    Effect.timeoutOrElse({
      duration: START_LIMIT,
      orElse: () =>
        new EmbeddedPostgresFailed({
          phrase: `PostgreSQL in ${settings.cluster.directory} did not answer within ${START_LIMIT}: see ${settings.logFile}, ${chooseAnother}`
        })
    })
  )
})

/**
 * Holds a share in the server until the scope closes, and the last share stops it. Where the server dies in between,
 * it is started again, with growing pauses and no end: the service is of no use without its store. Done when the server
 * answers for the first time; the first start alone fails.
 */
export const keepRunning = Effect.fn("EmbeddedPostgres.keepRunning")(function* (
  settings: Settings
): Effect.fn.Return<void, EmbeddedPostgresFailed, Scope.Scope> {
  const ready = yield* Deferred.make<void, EmbeddedPostgresFailed>()
  const untilLost = Effect.scoped(
    Effect.gen(function* () {
      const held = yield* Effect.acquireRelease(hold(settings), (held) => leave(settings, held), {
        interruptible: true
      })
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
    Effect.retry(RECOVER_EVERY),
    Effect.forever,
    Effect.forkScoped
  )
  yield* Effect.forkScoped(Effect.repeat(trimLog(settings.logFile), Schedule.spaced("1 hour")))
  yield* Deferred.await(ready)
})
