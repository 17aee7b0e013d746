import { Duration, Effect, Schedule } from "effect"
import { SqlError } from "effect/sql"

/** How long feedback waits for the deletion of its run: as long as a statement waits for a lock. */
const WAIT = Duration.seconds(2)

const retryLocked = Schedule.exponential("10 millis").pipe(
  Schedule.modifyDelay(({ duration }) => Effect.succeed(Duration.min(duration, Duration.millis(100)))),
  Schedule.upTo({ duration: WAIT })
)

/** Answered with 503, like the lock time-out of a statement. */
const runLocked = new SqlError.SqlError({
  reason: new SqlError.LockTimeoutError({
    cause: undefined,
    message: "Timed out waiting for the deletion of the run that feedback is on",
    operation: "insertFeedback"
  })
})

/**
 * Repeats an insertion of feedback while a deletion has locked its run, because the run stays if the deletion fails. Returns
 * false if the run was deleted. Fails if it is still locked after two seconds.
 *
 * The inserting statement itself does not wait, because it inserts feedback on other runs too.
 */
export const insertOrWait = <E, R>(
  insert: Effect.Effect<boolean, E, R>,
  hasRun: Effect.Effect<boolean, E, R>
): Effect.Effect<boolean, E | SqlError.SqlError, R> =>
  Effect.flatMap(insert, (isInserted) =>
    isInserted
      ? Effect.succeed(true)
      : Effect.flatMap(hasRun, (exists) => (exists ? Effect.fail(runLocked) : Effect.succeed(false)))
  ).pipe(Effect.retry({ while: (error) => error === runLocked, schedule: retryLocked }))
