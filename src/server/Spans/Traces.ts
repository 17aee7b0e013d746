import type { TraceId } from "../../domain/Ids.ts"

/** Traces of one generation; two are kept. With 32 digits each that is some 10 MB at most. */
const GENERATION = 16_384

/** Remembers trace ids, the latest thousands of them: when one generation is full, the one before it is forgotten. */
const remembered = () => {
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

/**
 * Which traces the limits let in and which they kept out, so that one is whole or is not there: its later spans go the way of its first.
 * The two are remembered apart, or a flood of traces that are kept out would push out those that go on.
 */
export const makeTraces = () => {
  const admitted = remembered()
  const refused = remembered()
  return {
    known: (trace_id: TraceId): "admitted" | "refused" | undefined =>
      admitted.has(trace_id) ? "admitted" : refused.has(trace_id) ? "refused" : undefined,
    admit: admitted.add,
    refuse: refused.add
  }
}
