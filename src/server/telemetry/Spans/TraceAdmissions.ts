import type { TraceId } from "../../../domain/Ids.ts"

/** Traces of one generation; two are kept of each kind. With 32 digits each that is some 10 MB at most. */
const GENERATION = 16_384

/** Remembers trace ids, the latest thousands of them: when one generation is full, the one before it is forgotten. */
const makeGenerations = () => {
  let young = new Set<TraceId>()
  let old = new Set<TraceId>()
  return {
    has: (trace_id: TraceId): boolean => young.has(trace_id) || old.has(trace_id),
    add: (trace_id: TraceId): void => {
      if (young.size >= GENERATION) {
        old = young
        young = new Set()
      }
      young.add(trace_id)
    }
  }
}

/** What the limits made of a trace. */
type Admission = "admitted" | "refused"

/**
 * Which traces the limits let in and which they kept out, so that one is whole or is not there: its later spans go the way of its first,
 * as far back as this reaches. Four kinds are remembered apart, or a flood of one would push out the others: those let in and those kept
 * out, and of each those that were whole, which feedback may follow, and those that go on.
 */
export const makeTraceAdmissions = () => {
  const kinds = () => ({ admitted: makeGenerations(), refused: makeGenerations() })
  const parts = kinds()
  const wholes = kinds()
  return {
    decisionFor: (trace_id: TraceId): Admission | undefined =>
      parts.admitted.has(trace_id) || wholes.admitted.has(trace_id)
        ? "admitted"
        : parts.refused.has(trace_id) || wholes.refused.has(trace_id)
          ? "refused"
          : undefined,
    remember: (trace_id: TraceId, fate: Admission, whole: boolean): void =>
      (whole ? wholes : parts)[fate].add(trace_id)
  }
}
