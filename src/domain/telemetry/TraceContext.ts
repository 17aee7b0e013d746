import { TraceId } from "../Ids.ts"
import { type SpanId, spanIdOf, type TraceContext } from "./Span.ts"

/**
 * Parses a `traceparent` of W3C Trace Context that was validated before (`parseTraceparent`): version, trace id, span id, flags. Null if
 * there is none.
 */
export const parseTraceContext = (traceparent: string | null): TraceContext | null =>
  traceparent === null
    ? null
    : {
        trace_id: TraceId.make(traceparent.slice(3, 35), { disableChecks: true }),
        span_id: spanIdOf(traceparent.slice(36, 52)),
        flags: Number.parseInt(traceparent.slice(53, 55), 16)
      }

/** Sampled, with a random trace id (W3C Trace Context Level 2). */
const OWN_FLAGS = 0b11

/** Formats a `traceparent`. `flags`: the caller's in its trace; by default the flags of a trace that this service begins. */
export const formatTraceparent = (trace_id: TraceId, span_id: SpanId, flags: number = OWN_FLAGS): string =>
  `00-${trace_id}-${span_id}-${flags.toString(16).padStart(2, "0")}`
