import { Schema } from "effect"
import type { TraceId } from "../Ids.ts"

/** 16 lowercase hex digits, not all zero: a W3C parent id, within one trace. */
export const SpanId = Schema.String.check(
  Schema.isPattern(/^(?!0{16})[0-9a-f]{16}$/, { expected: "16 lowercase hex digits, not all zero" })
).pipe(Schema.brand("SpanId"))
export type SpanId = typeof SpanId.Type

/** What a value may be. A whole number is a 64-bit integer on the wire; what is to be a fraction there says so. */
export type AttributeValue = string | boolean | number | { readonly double: number } | ReadonlyArray<string>

/** Attributes by name, in the order in which they are written. What is undefined is left out. */
export type Attributes = Readonly<Record<string, AttributeValue | undefined>>

/** What a span is about, as OpenTelemetry tells them apart. Ours are never producers or consumers. */
export type SpanKind = "internal" | "server" | "client"

/** Something that happened at one moment of a span. */
export interface SpanEvent {
  readonly name: string
  /** Milliseconds since the epoch. */
  readonly at: number
  readonly attributes: Attributes
}

/** Another span that this one has to do with, of another trace: what a caller sent in `traceparent`. */
export interface SpanLink {
  readonly trace_id: TraceId
  readonly span_id: SpanId
}

/** One thing that was done, from when to when, as it is exported. */
export interface Span {
  readonly trace_id: TraceId
  readonly span_id: SpanId
  /** Null at the top of its trace. */
  readonly parent_span_id: SpanId | null
  readonly name: string
  readonly kind: SpanKind
  /** Milliseconds since the epoch, whole. */
  readonly start: number
  /** The same, never before `start`. */
  readonly end: number
  readonly attributes: Attributes
  readonly events?: ReadonlyArray<SpanEvent>
  readonly links?: ReadonlyArray<SpanLink>
  /** Whether what it tells of failed. What went wrong is in `error.type`. */
  readonly failed?: boolean
}

/**
 * A span's id out of 16 hex digits that are as good as random within its trace: a piece of a digest, or of a random id. So the
 * spans of one thing find each other without a look-up, on whichever replica and however much later they are made.
 */
export const spanIdOf = (digits: string): SpanId => SpanId.make(digits, { disableChecks: true })
