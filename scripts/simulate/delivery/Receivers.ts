import type { RandomStream } from "../core/RandomStream.ts"
import type { Simulation } from "../core/Simulation.ts"
import type { ReceiverMode } from "./Plan.ts"

/** An answer of a receiver. */
export interface Answer {
  readonly status: number
  /** In milliseconds. */
  readonly retryAfter: number | null
}

/** The servers of users that receive deliveries, one for each destination. */
export class Receivers {
  readonly #simulation: Simulation
  readonly #random: RandomStream
  readonly #modes = new Map<number, ReceiverMode>()

  constructor(simulation: Simulation) {
    this.#simulation = simulation
    this.#random = simulation.random.fork("receivers")
  }

  setMode(destination: number, mode: ReceiverMode): void {
    this.#modes.set(destination, mode)
  }

  mode(destination: number): ReceiverMode {
    return this.#modes.get(destination) ?? { _tag: "Healthy" }
  }

  /** A request is on its way: `arrived` is called when the receiver has it, `answered` when its answer leaves. */
  request(destination: number, arrived: () => void, answered: (answer: Answer) => void): void {
    this.#simulation.schedule(this.#random.logarithmic(0.3, 30), () => {
      arrived()
      const answer = this.#answer(this.mode(destination))
      if (answer === undefined) return
      this.#simulation.schedule(answer.afterMillis, () => answered(answer))
    })
  }

  #answer(mode: ReceiverMode): (Answer & { readonly afterMillis: number }) | undefined {
    const afterMillis = this.#random.logarithmic(0.5, 80)
    const accepted = { status: 200, retryAfter: null, afterMillis }
    const failed = { status: 503, retryAfter: null, afterMillis }
    switch (mode._tag) {
      case "Healthy":
        return accepted
      case "Failing":
        return failed
      case "Hanging":
        return undefined
      case "Flapping":
        return Math.floor(this.#simulation.now / mode.periodMillis) % 2 === 0 ? accepted : failed
      case "RetryAfter":
        return { ...failed, status: 429, retryAfter: mode.millis }
      case "Slow":
        return { ...accepted, afterMillis: mode.millis }
      case "Rejecting":
        return this.#random.chance(0.5) ? { ...failed, status: 400 } : accepted
      case "Gone":
        return { ...failed, status: 410 }
    }
  }
}
