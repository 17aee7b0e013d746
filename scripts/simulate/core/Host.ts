import { Clock, Context, Duration, Effect, type Fiber, Random, References, Scheduler } from "effect"
import type { RandomStream } from "./RandomStream.ts"
import type { Simulation } from "./Simulation.ts"

/** The time on 2026-01-01, in milliseconds since the Unix epoch. */
export const BEGINNING = Date.UTC(2026, 0, 1)

/** How long a runnable fiber waits at most before it runs, in milliseconds. */
const SCHEDULING_MILLIS = 0.05

/** How late a timer fires at most on an idle machine, in milliseconds. */
const TIMER_LATENESS_MILLIS = 1

/**
 * A process of a machine: it has its own clock, and its fibers run as events of the simulation, in an order that the
 * seed decides. It can be frozen, like by SIGSTOP or a suspended virtual machine, and killed, like by SIGKILL.
 */
export class Host {
  readonly name: string
  readonly simulation: Simulation
  readonly random: RandomStream
  readonly clock: Clock.Clock
  /** Services of the fibers on this host: clock, scheduler, random numbers; no log. */
  readonly context: Context.Context<never>
  isAlive = true
  /** How far the wall clock is ahead of the simulation's time, in milliseconds. */
  wallSkewMillis = 0
  #isFrozen = false
  /** Since when the monotonic clock stands still, and for how long it has stood still before, in milliseconds. */
  #monotonicStopped: number | undefined
  #monotonicLost = 0
  #deferred: Array<() => void> = []
  readonly #onDeath: Array<() => void> = []

  constructor(simulation: Simulation, name: string, maxOpsBeforeYield: number) {
    this.simulation = simulation
    this.name = name
    this.random = simulation.random.fork(`host ${name}`)
    // The monotonic clock has an arbitrary origin.
    const origin = this.random.int(1_000, 1_000_000_000)
    const { random } = this
    const millis = () => Math.floor(BEGINNING + simulation.now + this.wallSkewMillis)
    const monotonic = () => {
      const running = this.#monotonicStopped ?? simulation.now
      return BigInt(Math.round((origin + running - this.#monotonicLost) * 1_000)) * 1_000n
    }
    const nanos = () => BigInt(millis()) * 1_000_000n
    this.clock = {
      currentTimeMillisUnsafe: millis,
      currentTimeMillis: Effect.sync(millis),
      currentTimeNanosUnsafe: nanos,
      currentTimeNanos: Effect.sync(nanos),
      monotonicTimeNanosUnsafe: monotonic,
      monotonicTimeNanos: Effect.sync(monotonic),
      sleep: (duration) => {
        const wait = Duration.toMillis(duration)
        if (wait <= 0) return Effect.yieldNow
        if (!Number.isFinite(wait)) return Effect.never
        return Effect.callback<void>((resume) => {
          const cancel = this.after(wait + random.next() * TIMER_LATENESS_MILLIS, () => resume(Effect.void))
          return Effect.sync(cancel)
        })
      }
    }
    this.context = Context.empty().pipe(
      Context.add(Clock.Clock, this.clock),
      Context.add(Scheduler.Scheduler, new HostScheduler(this)),
      Context.add(Scheduler.MaxOpsBeforeYield, maxOpsBeforeYield),
      Context.add(Random.Random, {
        nextIntUnsafe: () => random.int(Number.MIN_SAFE_INTEGER / 2, Number.MAX_SAFE_INTEGER / 2),
        nextDoubleUnsafe: () => random.next()
      }),
      Context.add(References.TracerEnabled, false),
      Context.add(References.MinimumLogLevel, "None")
    )
  }

  get isFrozen(): boolean {
    return this.#isFrozen
  }

  /** Schedules an event of this process: it waits while the process is frozen, and never happens once it is dead. */
  after(delayMillis: number, run: () => void): () => void {
    let cancelled = false
    const whenRunning = () => {
      if (cancelled || !this.isAlive) return
      if (this.#isFrozen) this.#deferred.push(whenRunning)
      else run()
    }
    const cancel = this.simulation.schedule(delayMillis, whenRunning)
    return () => {
      cancelled = true
      cancel()
    }
  }

  /** Runs an effect in a fiber of this process. */
  run<A, E>(effect: Effect.Effect<A, E>): Fiber.Fiber<A, E> {
    return Effect.runForkWith(this.context)(effect)
  }

  freeze(): void {
    this.#isFrozen = true
  }

  /** While it is frozen, the monotonic clock stands still too, as in a suspended virtual machine. */
  stopMonotonic(): void {
    this.#monotonicStopped = this.simulation.now
  }

  thaw(): void {
    if (!this.#isFrozen) return
    this.#isFrozen = false
    if (this.#monotonicStopped !== undefined) {
      this.#monotonicLost += this.simulation.now - this.#monotonicStopped
      this.#monotonicStopped = undefined
    }
    const deferred = this.#deferred
    this.#deferred = []
    // Timers that expired and answers that arrived meanwhile are handled in any order.
    for (const run of deferred) this.simulation.schedule(this.random.next(), run)
  }

  /** Ends the process at once: its fibers never run again, and no finalizer does. */
  kill(): void {
    if (!this.isAlive) return
    this.isAlive = false
    this.#deferred = []
    for (const react of this.#onDeath) react()
  }

  /** Calls `react` when the process dies: its operating system closes its connections. */
  onDeath(react: () => void): void {
    this.#onDeath.push(react)
  }
}

/** Lets the seed decide which of the runnable fibers runs next. */
class HostScheduler implements Scheduler.Scheduler {
  readonly executionMode = "async"
  readonly #host: Host

  constructor(host: Host) {
    this.#host = host
  }

  shouldYield(fiber: Fiber.Fiber<unknown, unknown>): boolean {
    return fiber.currentOpCount >= fiber.cache.maxOpsBeforeYield
  }

  makeDispatcher(): Scheduler.SchedulerDispatcher {
    return new HostDispatcher(this.#host)
  }
}

/** The runnable tasks of one fiber, which run in order. */
class HostDispatcher implements Scheduler.SchedulerDispatcher {
  readonly #host: Host
  #tasks: Array<{ readonly task: () => void; readonly priority: number }> = []
  #isScheduled = false

  constructor(host: Host) {
    this.#host = host
  }

  scheduleTask(task: () => void, priority: number): void {
    this.#tasks.push({ task, priority })
    if (this.#isScheduled) return
    this.#isScheduled = true
    this.#host.after(this.#host.random.next() * SCHEDULING_MILLIS, () => {
      this.#isScheduled = false
      this.#runTasks()
    })
  }

  flush(): void {
    while (this.#tasks.length > 0) this.#runTasks()
  }

  #runTasks(): void {
    const tasks = this.#tasks
    this.#tasks = []
    if (tasks.length > 1) tasks.sort((a, b) => a.priority - b.priority)
    for (const { task } of tasks) task()
  }
}
