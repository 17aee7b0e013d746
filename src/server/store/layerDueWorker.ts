import { Duration, Effect, Layer, type Scope } from "effect"
import { layerWorker, type Worker } from "../concurrency/Worker.ts"
import type { DueWork } from "./DueWork.ts"
import { StoreClock } from "./StoreClock.ts"

/** A worker with a pause between its runs. */
type DueWorker<E, R> = Worker<E, R> & { readonly every: Duration.Input }

/** A layer that runs a worker whose work becomes due by the service's time: it pauses on the clock of `StoreClock`. */
export const layerDueWorker = <E, R>(
  worker: DueWorker<E, R>
): Layer.Layer<never, never, StoreClock | Exclude<R, Scope.Scope>> =>
  Layer.unwrap(
    Effect.map(StoreClock, ({ clock, dueWork }) =>
      dueWork === undefined ? layerWorker({ ...worker, clock }) : layerObserved({ ...worker, clock }, dueWork)
    )
  )

/** Reports the runs of a worker to a test. */
const layerObserved = <E, R>(
  worker: DueWorker<E, R>,
  dueWork: DueWork
): Layer.Layer<never, never, Exclude<R, Scope.Scope>> =>
  Layer.unwrap(
    Effect.map(
      Effect.acquireRelease(
        Effect.sync(() => dueWork.add()),
        ({ remove }) => Effect.sync(remove)
      ),
      ({ ended, started }) =>
        layerWorker({
          ...worker,
          runOnce: Effect.andThen(
            Effect.sync(started),
            Effect.tap(worker.runOnce, (run) =>
              Effect.sync(() => ended(Duration.toMillis(Duration.fromInputUnsafe(run?.next ?? worker.every))))
            )
          )
        })
    )
  )
