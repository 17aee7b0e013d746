import { Effect, Layer, type Scope } from "effect"
import { layerWorker, type Worker } from "../concurrency/Worker.ts"
import { StoreClock } from "./StoreClock.ts"

/** A layer that runs a worker whose work becomes due by the service's time: it pauses on the clock of `StoreClock`. */
export const layerDueWorker = <E, R>(
  worker: Worker<E, R>
): Layer.Layer<never, never, StoreClock | Exclude<R, Scope.Scope>> =>
  Layer.unwrap(Effect.map(StoreClock, ({ clock }) => layerWorker({ ...worker, clock })))
