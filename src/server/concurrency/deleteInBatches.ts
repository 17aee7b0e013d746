import { Duration, Effect } from "effect"

/** What a job did in one run. */
export interface BatchRun {
  readonly removed: number
  /** Whether its steps ended before its work did: the rest is for the next run. */
  readonly more: boolean
}

/**
 * Repeats a bounded step, which answers with how many rows it removed, until it finds fewer than the `rows` that it may take, and `steps`
 * times at most. Short transactions, so that nobody waits for them; and a run that ends, however much there is.
 */
export const deleteInBatches = Effect.fnUntraced(function* <E, R>(
  step: Effect.Effect<number, E, R>,
  { rows, steps }: { readonly rows: number; readonly steps: number }
): Effect.fn.Return<BatchRun, E, R> {
  let removed = 0
  for (let count = 0; count < steps; count++) {
    const found = yield* step
    removed += found
    if (found < rows) return { removed, more: false }
  }
  return { removed, more: true }
})

/** Between two runs where the first left something: more may come than runs far apart would take away. */
const AGAIN = Duration.seconds(1)

/**
 * Runs a job at once and then `every` so often; where a run left something, it goes on after a second. `kept` is what was not removed where
 * one fails: that is logged, and the next run is its time away, so that a store that is away is waited for.
 */
export const repeatEvery = <E, R>(
  kept: string,
  runOnce: Effect.Effect<Pick<BatchRun, "more">, E, R>,
  every: Duration.Input
): Effect.Effect<never, never, R> =>
  runOnce.pipe(
    Effect.map(({ more }) => (more ? AGAIN : every)),
    Effect.catchCause((cause) => Effect.as(Effect.logWarning(`${kept} were not removed`, cause), every)),
    Effect.flatMap(Effect.sleep),
    Effect.forever
  )
