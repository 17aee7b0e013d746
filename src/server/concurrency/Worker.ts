/**
 * Background workers: every loop of the service has this one shape, so that every loop logs, measures and retries in the same way.
 *
 * ```
 *   ┌──────────────┐  ok: `next`, else `every`   ┌───────────────────────────┐
 *   │   runOnce    │────────────────────────────▶│ pause, ended by `wakeUp`  │
 *   │ (in a span)  │◀────────────────────────────│ or by the timer           │
 *   └──────┬───────┘                             └───────────────────────────┘
 *          │ failure: logged and counted, then a pause of `retryAfter`, which `wakeUp` does not shorten
 *          └──────────────▶ runOnce
 * ```
 */
import { type Cause, type Clock, Duration, Effect, Fiber, Layer, Metric, Queue, type Scope } from "effect"
import { logFailure } from "../observability/DatabaseOutage.ts"
import { workerFailures, workerLastSuccess } from "../observability/metricDefinitions.ts"

/** Default pause after a failed run. */
export const RETRY_MILLIS = 500

/** The result of a run; `undefined` stands for no counts and the usual pause. */
export interface WorkerRun {
  /** Amounts of work done, by noun (`{ removed: 200 }`): attributes of the run's span, as `worker.removed`. */
  readonly counts?: Readonly<Record<string, number>>
  /** Pause before the next run, instead of `every`. Zero: the next run follows without waiting for, or consuming, a wake-up. */
  readonly next?: Duration.Input | undefined
}

/** A background loop. */
export interface Worker<E, R> {
  /** Lower snake case (`audit_retention`): the label of both metrics, and the name in logs and spans. */
  readonly name: string
  /** Does the work that is due now. Bounded: a run that leaves work returns a short `next`. */
  readonly runOnce: Effect.Effect<WorkerRun | void, E, R>
  /** Pause between two runs. Without it, the worker runs each time `wakeUp` completes. */
  readonly every?: Duration.Input
  /** Completes when there is work to do, and ends the pause early. `runOnce` resets it. */
  readonly wakeUp?: Effect.Effect<unknown, never, R>
  /** Default `immediately`. A worker without `every` always waits for its first `wakeUp`. */
  readonly firstRun?: "immediately" | "after_pause"
  /**
   * The clock of the pauses between runs, for work that becomes due by another clock than the process's. If it is moved
   * during a run, the next run follows at once, because more may be due by then. A failed run is retried by the
   * process's clock.
   */
  readonly clock?: Clock.Clock
  /** Pause after a failed run. Default 500 ms. */
  readonly retryAfter?: Duration.Input
  /** Runs after a failure is logged and counted, before the pause: for state that must not outlive a failed run. */
  readonly onFailure?: (cause: Cause.Cause<E>) => Effect.Effect<void, never, R>
}

/**
 * Logs and counts a failure of a worker. A run that goes on after the failure of one part, such as an organization, reports it by this: an
 * operator is alerted by the count.
 */
export const reportFailure = (worker: string, message: string, cause: Cause.Cause<unknown>) =>
  Effect.andThen(logFailure(message, cause), Metric.update(workerFailures(worker), 1))

/** Runs a worker until it is interrupted. Failures and defects, of a run or of `wakeUp`, never end it. */
export const runWorker = <E, R>(worker: Worker<E, R>): Effect.Effect<never, never, R> => {
  const { every, name, wakeUp = Effect.never } = worker
  const retryAfter = worker.retryAfter ?? RETRY_MILLIS
  const lastSuccess = workerLastSuccess(name)

  const pause = (next: Duration.Input | undefined): Effect.Effect<unknown, never, R> => {
    if (next === undefined) return wakeUp
    if (Duration.toMillis(next) <= 0) return Effect.void
    const elapsed =
      worker.clock === undefined ? Effect.sleep(next) : worker.clock.sleep(Duration.fromInputUnsafe(next))
    return worker.wakeUp === undefined ? elapsed : Effect.raceFirst(wakeUp, elapsed)
  }

  /** Whether the worker's clock stands still unless it is moved, and was moved since. */
  const wasMovedSince = (startedAt: number | undefined, processClock: Clock.Clock): boolean =>
    worker.clock !== undefined &&
    worker.clock !== processClock &&
    worker.clock.currentTimeMillisUnsafe() !== startedAt

  const failed = (cause: Cause.Cause<E>): Effect.Effect<unknown, never, R> =>
    reportFailure(
      name,
      `Worker ${name} failed; retrying in ${Duration.format(Duration.fromInputUnsafe(retryAfter))}`,
      cause
    ).pipe(
      Effect.andThen(Effect.suspend(() => worker.onFailure?.(cause) ?? Effect.void)),
      Effect.catchDefect((defect) => Effect.logError(`Worker ${name}: its failure hook failed`, defect)),
      Effect.andThen(Effect.sleep(retryAfter))
    )

  const succeeded = (
    run: WorkerRun | void,
    startedAt: number | undefined
  ): Effect.Effect<unknown, never, R> =>
    Effect.clockWith((clock) =>
      Effect.andThen(
        Metric.update(lastSuccess, clock.currentTimeMillisUnsafe() / 1000),
        Effect.suspend(() => (wasMovedSince(startedAt, clock) ? Effect.void : pause(run?.next ?? every)))
      )
    )

  const run = Effect.tap(worker.runOnce, (done) =>
    Effect.forEach(
      Object.entries(done?.counts ?? {}),
      ([noun, count]) => Effect.annotateCurrentSpan(`worker.${noun}`, count),
      { discard: true }
    )
  ).pipe(Effect.withSpan(`Worker.${name}`, { root: true }))

  // The pause is inside the handler too: a defect of `wakeUp` would otherwise end this worker, and with it all that were started beside it.
  const loop = Effect.suspend(() => {
    const startedAt = worker.clock?.currentTimeMillisUnsafe()
    return Effect.flatMap(run, (done) => succeeded(done, startedAt))
  }).pipe(Effect.catchCause(failed), Effect.forever)
  const waitsFirst = worker.firstRun === "after_pause" || every === undefined
  const first = waitsFirst ? Effect.catchCause(pause(every), failed) : Effect.void
  // A counter that appears only with its first failure cannot be alerted on.
  return Metric.update(workerFailures(name), 0).pipe(Effect.andThen(first), Effect.andThen(loop))
}

/** Starts workers side by side. They end when the scope closes. */
export const startWorkers = <R>(
  workers: ReadonlyArray<Effect.Effect<never, never, R>>
): Effect.Effect<void, never, R | Scope.Scope> =>
  Effect.asVoid(Effect.forkScoped(Effect.all(workers, { concurrency: "unbounded", discard: true })))

/** A layer that runs a worker for as long as it is built. */
export const layerWorker = <E, R>(worker: Worker<E, R>): Layer.Layer<never, never, Exclude<R, Scope.Scope>> =>
  Layer.effectDiscard(startWorkers([runWorker(worker)]))

/** Workers of one replica that claim work by leases in the database. */
export interface WorkerPool<E, R> extends Pick<Worker<E, R>, "name" | "runOnce" | "retryAfter"> {
  /** How many there are. */
  readonly workers: number
  /** Counts the work that can be claimed, up to a limit. */
  readonly countClaimable: (limit: number) => Effect.Effect<number, E, R>
  /** The name of the worker that counts it. */
  readonly pollName: string
  /** How often it counts: for work that other replicas created, or were doing when they crashed. One poll serves all workers. */
  readonly pollEvery: Duration.Input
}

/** Makes a pool. `wake` wakes one worker; `start` runs them until the scope closes, woken also by the poll. */
export const makeWorkerPool = <E, R>(pool: WorkerPool<E, R>) =>
  Effect.map(Queue.sliding<void>(pool.workers), (wakeUps) => {
    const { name, retryAfter = RETRY_MILLIS, runOnce, workers } = pool
    const worker = runWorker({ name, retryAfter, runOnce, wakeUp: Queue.take(wakeUps) })
    const poll = runWorker({
      name: pool.pollName,
      runOnce: Effect.gen(function* () {
        const claimable = yield* pool.countClaimable(workers)
        yield* Queue.offerAll(wakeUps, Array<void>(claimable).fill(undefined))
        return { counts: { claimable } }
      }),
      every: pool.pollEvery,
      retryAfter
    })
    return {
      wake: Effect.asVoid(Queue.offer(wakeUps, undefined)),
      start: startWorkers([poll, ...Array.from({ length: workers }, () => worker)])
    }
  })

/** Renews a lease at an interval. Ends when another replica has claimed it. */
export const renewLeaseEvery = <E, R>(
  interval: Duration.Input,
  renew: Effect.Effect<boolean, E, R>
): Effect.Effect<boolean, E, R> =>
  Effect.repeat(Effect.andThen(Effect.sleep(interval), renew), { while: (isOwner) => isOwner })

/**
 * Runs `last` to its end when the scope closes. It runs in a fiber of its own: the fiber that closes the scope may itself have been
 * interrupted, and would cut short every wait in `last`.
 */
export const onShutdown = <R>(
  last: Effect.Effect<void, never, R>
): Effect.Effect<void, never, R | Scope.Scope> =>
  Effect.addFinalizer(() =>
    Effect.flatMap(Effect.forkDetach(Effect.interruptible(last)), (fiber) => Fiber.await(fiber))
  )
