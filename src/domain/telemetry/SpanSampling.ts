import type { TraceId } from "../Ids.ts"

/**
 * Consistent probability sampling (OpenTelemetry, "TraceState: Probability Sampling"). The last 56 bits of a trace id are its
 * randomness; a trace is kept where they are not below the rejection threshold. So each process that sees a span of a trace
 * decides alike without asking another, and a trace is whole or is not there. The threshold goes with each span as `ot=th:…`, so that
 * whoever counts spans knows how many each stands for.
 */
export interface Sampling {
  /** The threshold, 14 lowercase hex digits; null: nothing is kept. */
  readonly threshold: string | null
  /** The member of the trace state that tells it. */
  readonly traceState: string
}

/** 56 bits of randomness. */
const RANGE = 2n ** 56n

/** The hex digits of 56 bits, at the end of a trace id of 32. */
const DIGITS = 14
const RANDOMNESS_AT = 32 - DIGITS

/** Sampling at a ratio from 0, nothing, to 1, all. A ratio below 2^-56 keeps nothing: no threshold tells it. */
export const makeSampling = (ratio: number): Sampling => {
  const kept = BigInt(Math.round(Math.min(1, Math.max(0, ratio)) * Number(RANGE)))
  if (kept === 0n) return { threshold: null, traceState: "" }
  const threshold = (RANGE - kept).toString(16).padStart(DIGITS, "0")
  // Trailing zeros are not written; of 0 one is left.
  return { threshold, traceState: `ot=th:${threshold.replace(/0+$/, "") || "0"}` }
}

/** Whether a trace is kept. Hex digits of one length compare as the numbers they write. */
export const isSampled = ({ threshold }: Sampling, trace_id: TraceId): boolean =>
  threshold !== null && trace_id.slice(RANDOMNESS_AT) >= threshold

/**
 * The spans that may still be taken in at a moment, of so many a second: a bucket that holds a second's worth and fills as time
 * goes by. A trace that was let in goes on when it is empty, on credit: the traces after it wait the longer.
 */
export class SpanBudget {
  readonly #perSecond: number
  #left: number
  #at: number

  /** Full, at `now` in milliseconds on a clock that does not go back. */
  constructor(perSecond: number, now: number) {
    this.#perSecond = perSecond
    this.#left = perSecond
    this.#at = now
  }

  /** Takes a new trace's spans in, all or none; whether it did. */
  admit(spans: number, now: number): boolean {
    this.#fill(now)
    // One that is larger than a second's worth is let in alone: else it never could.
    if (this.#left < Math.min(spans, this.#perSecond)) return false
    this.#left -= spans
    return true
  }

  /** Takes the spans of a trace that was let in before. */
  charge(spans: number, now: number): void {
    this.#fill(now)
    this.#left = Math.max(-this.#perSecond, this.#left - spans)
  }

  #fill(now: number): void {
    this.#left = Math.min(this.#perSecond, this.#left + ((now - this.#at) * this.#perSecond) / 1000)
    this.#at = now
  }
}
