import { Clock, Effect, Stream } from "effect"
import { processClock } from "../server/concurrency/processClock.ts"

/**
 * Wraps an object of functions, at any depth, that return effects and streams: these run on the process's clock. So a
 * `TestClock` that a test moves does not end their connections, and their retries need no move.
 */
export const withProcessClock = <A extends object>(target: A): A =>
  new Proxy(target, {
    get: (object, property, receiver) => onProcessClock(Reflect.get(object, property, receiver), object)
  })

const onProcessClock = (value: unknown, owner: object): unknown => {
  if (Stream.isStream(value)) return Stream.provideService(value, Clock.Clock, processClock)
  if (Effect.isEffect(value)) {
    // An operation that streams returns its stream in an effect.
    return Effect.provideService(value, Clock.Clock, processClock).pipe(
      Effect.map((result) => (Stream.isStream(result) ? onProcessClock(result, owner) : result))
    )
  }
  if (typeof value === "function") {
    return (...args: ReadonlyArray<unknown>): unknown =>
      onProcessClock(Reflect.apply(value, owner, args), owner)
  }
  return typeof value === "object" && value !== null ? withProcessClock(value) : value
}
