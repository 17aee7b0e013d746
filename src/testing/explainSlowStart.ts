import { Clock, Duration, Effect, type Fiber, type Scope } from "effect"
import { processClock } from "../server/concurrency/processClock.ts"

/** Less than the time that vitest gives a hook by default. */
const SLOW_START = Duration.seconds(8)

/**
 * Explains a slow start on standard error, unless the fiber that it returns is interrupted before: a test runner that ends its hook would
 * name only the time that has passed. It waits by the process's clock, also under a `TestClock`.
 */
export const explainSlowStart = (
  after: Duration.Duration = SLOW_START
): Effect.Effect<Fiber.Fiber<void>, never, Scope.Scope> =>
  Effect.sync(() => {
    process.stderr.write(
      `countersign/testing: the service is still starting after ${Duration.format(after)}. vitest ends a hook after 10 s: allow more ` +
        'time, as in layer(Countersign.layer(), { timeout: "60 seconds" }), or by hookTimeout in its configuration.\n'
    )
  }).pipe(Effect.delay(after), Effect.provideService(Clock.Clock, processClock), Effect.forkScoped)
