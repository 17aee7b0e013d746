import type { Clock } from "effect"

/** A worker that pauses on the clock of `StoreClock`. */
interface DueWorker {
  running: boolean
  /** When its next run is due. */
  dueAt: number
}

/**
 * Keeps account of the workers that pause on a clock which a test moves, so that the test can wait until they have done
 * all work that has become due.
 */
export class DueWork {
  readonly #clock: Clock.Clock
  readonly #workers = new Set<DueWorker>()

  constructor(clock: Clock.Clock) {
    this.#clock = clock
  }

  /** Adds a worker. Its runs report when they start, and when they end with the pause that follows. */
  add(): {
    readonly started: () => void
    readonly ended: (pauseMillis: number) => void
    readonly remove: () => void
  } {
    const now = () => this.#clock.currentTimeMillisUnsafe()
    const worker: DueWorker = { running: false, dueAt: now() }
    let startedAt = now()
    this.#workers.add(worker)
    return {
      started: () => {
        worker.running = true
        startedAt = now()
      },
      ended: (pauseMillis) => {
        worker.running = false
        // If the clock was moved during the run, another one follows at once.
        worker.dueAt = now() === startedAt ? startedAt + pauseMillis : now()
      },
      remove: () => this.#workers.delete(worker)
    }
  }

  /** Whether every worker has done its due work. */
  isDone(): boolean {
    const now = this.#clock.currentTimeMillisUnsafe()
    for (const { dueAt, running } of this.#workers) if (running || dueAt <= now) return false
    return true
  }
}
