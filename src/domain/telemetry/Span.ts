import { Schema } from "effect"
import type { TraceId } from "../Ids.ts"

/** 16 lowercase hex digits, not all zero: a W3C parent id, unique within its trace. */
export const SpanId = Schema.String.check(
  Schema.isPattern(/^(?!0{16})[0-9a-f]{16}$/, { expected: "16 lowercase hex digits, not all zero" })
).pipe(Schema.brand("SpanId"))
export type SpanId = typeof SpanId.Type

/**
 * The value of an attribute. An integer is a 64-bit integer on the wire; `double` marks a number that must be a floating-point value there.
 */
export type AttributeValue = string | boolean | number | { readonly double: number } | ReadonlyArray<string>

/** Attributes by name, in the order they are written. Undefined values are omitted. */
export type Attributes = Readonly<Record<string, AttributeValue | undefined>>

/** A subset of OpenTelemetry's span kinds: this service exports no producer or consumer spans. */
export type SpanKind = "internal" | "server" | "client"

/** An event at one moment of a span. */
export interface SpanEvent {
  readonly name: string
  /** Milliseconds since the epoch. */
  readonly at: number
  readonly attributes: Attributes
}

/** A related span of another trace: the caller's, from `traceparent`. */
export interface SpanLink {
  readonly trace_id: TraceId
  readonly span_id: SpanId
}

/** A span of another service that this service was called in: from the caller's `traceparent`. */
export interface TraceContext extends SpanLink {
  /** The W3C trace flags: sampled (bit 0), a random trace id (bit 1). */
  readonly flags: number
}

/** A span, as it is exported. */
export interface Span {
  readonly trace_id: TraceId
  readonly span_id: SpanId
  /** Null for the root span of a trace. */
  readonly parent_span_id: SpanId | null
  readonly name: string
  readonly kind: SpanKind
  /** In whole milliseconds since the epoch. */
  readonly start: number
  /** In whole milliseconds since the epoch, never before `start`. */
  readonly end: number
  readonly attributes: Attributes
  readonly events?: ReadonlyArray<SpanEvent>
  readonly links?: ReadonlyArray<SpanLink>
  /** Whether the operation failed. `error.type` has the cause. */
  readonly failed?: boolean
  /** Set in a trace that another service began: this service knows only its flags. */
  readonly joined?: {
    /** The W3C trace flags of the caller. */
    readonly flags: number
    /** Whether the parent is the caller's span. */
    readonly isParentRemote: boolean
  }
}

/**
 * Makes a span id from 16 hex digits that are as good as random within the trace: part of a digest or of a random id. The spans of one
 * operation thus find each other without a lookup, on any replica and at any later time.
 */
export const spanIdOf = (digits: string): SpanId => SpanId.make(digits, { disableChecks: true })
