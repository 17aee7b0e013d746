import type { TraceId } from "../Ids.ts"

/**
 * Consistent probability sampling (OpenTelemetry, "TraceState: Probability Sampling"). The last 56 bits of a trace id are its randomness; a
 * trace is sampled if they are at or above the rejection threshold. So every process makes the same decision about a trace without
 * coordination, and a trace is exported whole or not at all. Each span carries the threshold as `ot=th:…`, from which a consumer computes
 * how many spans it represents.
 */
export interface Sampling {
  /** The rejection threshold, 14 lowercase hex digits; null: nothing is sampled. */
  readonly threshold: string | null
  /** The trace state member that carries the threshold. */
  readonly traceState: string
}

/** 56 bits of randomness. */
const RANGE = 2n ** 56n

/** The number of hex digits of 56 bits, and where they start in a trace id of 32. */
const DIGITS = 14
const RANDOMNESS_AT = 32 - DIGITS

/** The threshold that rejects no trace. */
const EVERYTHING = "0".repeat(DIGITS)

/**
 * Makes a sampling with a ratio from 0 (nothing) to 1 (everything). A ratio below 2^-56 samples nothing, since no threshold represents it.
 */
export const makeSampling = (ratio: number): Sampling => {
  const kept = BigInt(Math.round(Math.min(1, Math.max(0, ratio)) * Number(RANGE)))
  if (kept === 0n) return { threshold: null, traceState: "" }
  const threshold = (RANGE - kept).toString(16).padStart(DIGITS, "0")
  // Trailing zeros are omitted; a threshold of zero keeps one.
  return { threshold, traceState: `ot=th:${threshold.replace(/0+$/, "") || "0"}` }
}

/** Whether a trace is sampled. Hex digits of equal length compare like the numbers they represent. */
export const isSampled = ({ threshold }: Sampling, trace_id: TraceId): boolean =>
  threshold !== null && (threshold === EVERYTHING || trace_id.slice(RANDOMNESS_AT) >= threshold)
