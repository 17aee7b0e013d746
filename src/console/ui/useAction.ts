/** Runs a request on a user's action: at most one at a time, with its pending state and failure. */
import { Effect, Exit } from "effect"
import { useRef, useState } from "react"
import { type Failure, failureOfAction } from "./Failure.ts"

export interface Action<Args extends ReadonlyArray<unknown>, A> {
  /** Resolves with the value; undefined if the request failed or another one is still running. */
  readonly run: (...args: Args) => Promise<A | undefined>
  /** Like `run`, with the value wrapped, so that a request without a result can be told from a failed one. */
  readonly runResult: (...args: Args) => Promise<{ readonly value: A } | undefined>
  readonly pending: boolean
  readonly failure: Failure | undefined
  /** Clears the failure. */ readonly reset: () => void
}

export const useAction = <Args extends ReadonlyArray<unknown>, A, E>(
  make: (...args: Args) => Effect.Effect<A, E>
): Action<Args, A> => {
  const [pending, setPending] = useState(false)
  const [failure, setFailure] = useState<Failure>()
  const busy = useRef(false)
  const runResult = async (...args: Args) => {
    if (busy.current) return undefined
    busy.current = true
    setPending(true)
    setFailure(undefined)
    const exit = await Effect.runPromiseExit(make(...args))
    busy.current = false
    setPending(false)
    if (Exit.isSuccess(exit)) return { value: exit.value }
    setFailure(failureOfAction(exit.cause))
    return undefined
  }
  const run = async (...args: Args) => (await runResult(...args))?.value
  const reset = () => setFailure(undefined)
  return { run, runResult, pending, failure, reset }
}
