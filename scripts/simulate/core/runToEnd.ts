import type { Simulation } from "./Simulation.ts"
import type { Store } from "./Store.ts"

/** The most events of one run. A run that needs more does not come to an end. */
const MAX_STEPS = 3_000_000

/** The result of a run. */
export interface Outcome {
  /** The broken invariant; undefined if all hold. */
  readonly broken: string | undefined
  readonly steps: number
  /** In milliseconds of virtual time. */
  readonly lasted: number
  /** Identifies the course of the run: the same for each run of a plan. */
  readonly fingerprint: string
  readonly counts: Readonly<Record<string, number>>
}

/** A run of a plan. */
export interface Run {
  readonly simulation: Simulation
  readonly store: Store
  readonly checks: {
    readonly broken: string | undefined
    readonly counts: Readonly<Record<string, number>>
    readonly fail: (broken: string) => void
  }
  readonly isFinished: () => boolean
  readonly faults: number
}

/** Takes steps until the run is finished or an invariant is broken. An exception is a broken invariant. */
export const runToEnd = ({ checks, faults, isFinished, simulation, store }: Run): Outcome => {
  try {
    while (!isFinished() && checks.broken === undefined && simulation.steps < MAX_STEPS && simulation.step());
  } catch (error) {
    checks.fail(error instanceof Error ? (error.stack ?? error.message) : String(error))
  }
  if (simulation.steps >= MAX_STEPS) checks.fail(`More than ${MAX_STEPS} events`)
  return {
    broken: checks.broken,
    steps: simulation.steps,
    lasted: simulation.now,
    fingerprint: `${simulation.steps} ${simulation.now} ${simulation.random.next()} ${store.random.next()}`,
    counts: { ...checks.counts, ...store.counts, faults }
  }
}
