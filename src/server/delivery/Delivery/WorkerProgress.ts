import { type Clock, Effect } from "effect"
import { monotonicMillis } from "../../concurrency/monotonicMillis.ts"
import type { Worker } from "../../concurrency/Worker.ts"

/**
 * Tracks whether the workers that read the queue and record results succeed.
 *
 * Leases are renewed over a connection of their own, so that they do not run out while the database is slow. That
 * connection may work while the pool's connections are lost or the database accepts no more. A replica in that state
 * must not keep its shards: it would deliver nothing from them, and no other replica could claim them.
 */
export interface WorkerProgress {
  /**
   * Wraps a worker. The engine counts as stuck if no run of it has succeeded for `limitMillis`, whether its runs fail
   * or do not end.
   */
  readonly track: <E, R>(worker: Worker<E, R>, limitMillis: number) => Worker<E, R>
  readonly isStuck: () => boolean
}

/** Starts without workers. */
export const makeWorkerProgress = (clock: Clock.Clock): WorkerProgress => {
  const tracked: Array<{ readonly limitMillis: number; unfinishedSince: number | undefined }> = []
  return {
    track: (worker, limitMillis) => {
      const progress: (typeof tracked)[number] = { limitMillis, unfinishedSince: undefined }
      tracked.push(progress)
      const runOnce = Effect.suspend(() => {
        progress.unfinishedSince ??= monotonicMillis(clock)
        return worker.runOnce
      })
      return {
        ...worker,
        runOnce: Effect.tap(runOnce, () =>
          Effect.sync(() => {
            progress.unfinishedSince = undefined
          })
        )
      }
    },
    isStuck: () => {
      const now = monotonicMillis(clock)
      return tracked.some(
        ({ limitMillis, unfinishedSince }) =>
          unfinishedSince !== undefined && now - unfinishedSince > limitMillis
      )
    }
  }
}
