/** Timers and abort signals. */
// Not from "effect": without a bundler, that would load the whole library.
import * as Duration from "effect/Duration"

/** The longest timer; a longer one would fire immediately. */
const MAX_TIMER_MILLIS = 2 ** 31 - 1

/** Milliseconds of a duration, at most the longest time of a timer. */
export const toMillis = (duration: Duration.Input): number =>
  Math.min(Duration.toMillis(Duration.fromInputUnsafe(duration)), MAX_TIMER_MILLIS)

/** A signal that ends calls early: an `AbortSignal`, or the {@link Closing} of a client. */
export interface AbortSource {
  readonly aborted: boolean
  readonly reason: unknown
  readonly addEventListener: (type: "abort", listener: () => void) => void
  readonly removeEventListener: (type: "abort", listener: () => void) => void
}

/** Ends every call of a client. Of an `AbortSignal` with more than ten listeners Node 20 warns, and every running call has one. */
export class Closing implements AbortSource {
  aborted = false
  reason: unknown
  private readonly listeners = new Set<() => void>()

  readonly addEventListener = (_type: "abort", listener: () => void): void => {
    this.listeners.add(listener)
  }

  readonly removeEventListener = (_type: "abort", listener: () => void): void => {
    this.listeners.delete(listener)
  }

  /** Aborts, once. */
  close(reason: unknown): void {
    if (this.aborted) return
    this.aborted = true
    this.reason = reason
    for (const listener of this.listeners) listener()
    this.listeners.clear()
  }
}

/** Resolves after the time; rejects with the signal's reason as soon as it aborts. */
export const sleep = (millis: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const finish = (settle: () => void) => () => {
      clearTimeout(timer)
      signal.removeEventListener("abort", abort)
      settle()
    }
    const abort = finish(() => reject(signal.reason))
    const timer = setTimeout(finish(resolve), Math.min(millis, MAX_TIMER_MILLIS))
    if (signal.aborted) abort()
    else signal.addEventListener("abort", abort)
  })

/** A signal that aborts with the first of others, and a function that removes its listeners. */
export interface LinkedSignal {
  readonly signal: AbortSignal
  readonly abort: (reason: unknown) => void
  readonly unlink: () => void
}

/** Links signals. Node has `AbortSignal.any` from 20.3 on only. */
export const linkSignals = (...signals: ReadonlyArray<AbortSource | undefined>): LinkedSignal => {
  const controller = new AbortController()
  const removals = signals.flatMap((signal) => {
    if (signal === undefined) return []
    const listener = () => controller.abort(signal.reason)
    if (signal.aborted) listener()
    signal.addEventListener("abort", listener)
    return [() => signal.removeEventListener("abort", listener)]
  })
  return {
    signal: controller.signal,
    abort: (reason) => controller.abort(reason),
    unlink: () => removals.forEach((remove) => remove())
  }
}
