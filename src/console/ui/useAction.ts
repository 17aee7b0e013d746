/** Something that a person has the service do: at most one at a time, with what it is doing and why it failed. */
import { Effect, Exit } from "effect"
import { useRef, useState } from "react"
import { type Failure, failureOfAction } from "./Failure.ts"

export interface Action<Args extends ReadonlyArray<unknown>, A> {
  /** Answers with what came of it; undefined where it failed, or one is under way. */
  readonly run: (...args: Args) => Promise<A | undefined>
  /** The same, for what answers with nothing. */
  readonly runResult: (...args: Args) => Promise<{ readonly value: A } | undefined>
  readonly pending: boolean
  readonly failure: Failure | undefined
  readonly reset: () => void
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
