/** Timers and abort signals. */
import { ClientClosed } from "./ClientClosed.ts"
import { MAX_TIMER_MILLIS } from "./Duration.ts"

/** A signal that ends calls early: an `AbortSignal`, or that of a {@link Closing}. */
export interface AbortSource {
  readonly aborted: boolean
  readonly reason: unknown
  readonly addEventListener: (type: "abort", listener: () => void) => void
  readonly removeEventListener: (type: "abort", listener: () => void) => void
}

/** Ends every call of a client. Of an `AbortSignal` with more than ten listeners Node 20 warns, and every running call has one. */
export class Closing {
  private isClosed = false
  private readonly listeners = new Set<() => void>()

  /** The signal of a call, whose reason names it. */
  during(operation: string): AbortSource {
    const isClosed = () => this.isClosed
    return {
      get aborted() {
        return isClosed()
      },
      get reason() {
        return new ClientClosed(operation)
      },
      addEventListener: (_type, listener) => void this.listeners.add(listener),
      removeEventListener: (_type, listener) => void this.listeners.delete(listener)
    }
  }

  /** Aborts, once. */
  close(): void {
    this.isClosed = true
    for (const listener of this.listeners) listener()
    this.listeners.clear()
  }
}

/** A signal that never aborts. */
export const never = new AbortController().signal

/** The clock and the random numbers of waits, from JavaScript or from the Effect program that waits. */
export interface Clock {
  /** Milliseconds since any time, on a clock that is never set. */
  readonly now: () => number
  /** A number from 0 to 1. */
  readonly random: () => number
  /** Resolves after the time; rejects as soon as the signal aborts. */
  readonly sleep: (millis: number, signal: AbortSignal) => Promise<void>
}

/** Resolves after the time; rejects with the signal's reason as soon as it aborts. `isBackground`: the timer does not keep Node running. */
export const sleep = (
  millis: number,
  signal: AbortSignal,
  { isBackground = false }: { readonly isBackground?: boolean } = {}
): Promise<void> =>
  new Promise((resolve, reject) => {
    const finish = (settle: () => void) => () => {
      clearTimeout(timer)
      signal.removeEventListener("abort", abort)
      settle()
    }
    const abort = finish(() => reject(signal.reason))
    const timer = setTimeout(finish(resolve), Math.min(millis, MAX_TIMER_MILLIS))
    // A number in browsers.
    if (isBackground && typeof timer === "object") timer.unref()
    if (signal.aborted) abort()
    else signal.addEventListener("abort", abort)
  })

export const systemClock = {
  now: () => performance.now(),
  random: () => Math.random(),
  sleep
} satisfies Clock

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
