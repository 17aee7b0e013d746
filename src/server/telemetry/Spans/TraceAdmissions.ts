import type { TraceId } from "../../../domain/Ids.ts"
import { Generations } from "../../concurrency/Generations.ts"

/** Traces in one generation; each kind keeps two. With 32 digits each that is some 10 MB at most. */
const GENERATION = 16_384

/** A bounded set of trace ids. */
const makeTraceIds = () => {
  const ids = new Generations<TraceId, true>()
  return {
    has: (trace_id: TraceId): boolean => ids.get(trace_id) === true,
    add: (trace_id: TraceId): void => {
      if (ids.size >= GENERATION) ids.rotate()
      ids.set(trace_id, true)
    }
  }
}

/** The decision of the limits on a trace. */
type Admission = "admitted" | "refused"

/**
 * Remembers which traces the limits admitted and which they refused, so that a trace is exported as a whole or not at
 * all. Its later spans get the decision of its first, as long as that is remembered. Four kinds are remembered
 * separately, or a flood of one would evict the others: admitted and refused traces, each split into traces recorded
 * whole (only feedback may follow) and traces that continue.
 */
export const makeTraceAdmissions = () => {
  const kinds = () => ({ admitted: makeTraceIds(), refused: makeTraceIds() })
  const parts = kinds()
  const wholes = kinds()
  return {
    /**
     * The remembered decision on a trace. A trace that is recorded as a whole is recorded once, so its decision is kept apart. Most traces
     * are whole, and a miss in their large sets costs as much as the rest of the admission.
     */
    decisionFor: (trace_id: TraceId, whole: boolean): Admission | undefined =>
      parts.admitted.has(trace_id) || (!whole && wholes.admitted.has(trace_id))
        ? "admitted"
        : parts.refused.has(trace_id) || (!whole && wholes.refused.has(trace_id))
          ? "refused"
          : undefined,
    remember: (trace_id: TraceId, admission: Admission, whole: boolean): void =>
      (whole ? wholes : parts)[admission].add(trace_id)
  }
}
