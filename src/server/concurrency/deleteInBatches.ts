import { Effect } from "effect"
import type { WorkerRun } from "./Worker.ts"

/** The result of one bounded run of a deletion. */
export interface BatchRun {
  /** Rows deleted. */
  readonly removed: number
  /** Whether the run reached its limit of batches before the work was done. */
  readonly more: boolean
}

/**
 * Repeats `deleteBatch`, which deletes at most `rows` rows and returns how many, until it finds fewer, at most `steps` times. The batches
 * are short transactions, so that no other transaction waits long for their locks, and the run is bounded however many rows there are.
 */
export const deleteInBatches = Effect.fnUntraced(function* <E, R>(
  deleteBatch: Effect.Effect<number, E, R>,
  { rows, steps }: { readonly rows: number; readonly steps: number }
): Effect.fn.Return<BatchRun, E, R> {
  let removed = 0
  for (let count = 0; count < steps; count++) {
    const found = yield* deleteBatch
    removed += found
    if (found < rows) return { removed, more: false }
  }
  return { removed, more: true }
})

/** Pause after a run that left rows: a worker that runs once an hour would otherwise fall behind a steady inflow. */
const NEXT_BATCHES = "1 second"

/** A bounded deletion as the run of a worker: the next run follows after a second if rows are left. */
export const toWorkerRun = ({ more, removed }: BatchRun): WorkerRun => ({
  counts: { removed },
  next: more ? NEXT_BATCHES : undefined
})
