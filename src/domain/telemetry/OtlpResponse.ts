import { Option, Schema } from "effect"
import type { AttemptOutcome } from "../delivery/DeliveryState.ts"

/** What a collector answered, as far as it was read. */
export interface CollectorResponse {
  readonly status: number
  /** The parsed `Retry-After` header; null if the header is absent or malformed. */
  readonly retryAfterMillis: number | null
  readonly body: Uint8Array
  /** Whether `body` is all of it. */
  readonly isComplete: boolean
}

/** How an attempt to export ended: what it means for the batch, in words of ours. */
export type ExportOutcome = Extract<
  AttemptOutcome,
  { readonly _tag: "Delivered" | "Partial" | "Retry" | "Failed" }
>

/** OTLP/HTTP, "Retryable Response Codes". Any other client or server error must not be retried. */
const retryable: ReadonlySet<number> = new Set([429, 502, 503, 504])

/** The longest of an answer that is read, in bytes: OTLP 1.11 wants a limit, and what it has to say fits many times. */
export const MAX_RESPONSE_BYTES = 64 * 1024

/** What usually lies behind a status, to be tried next. */
const hints: Readonly<Record<number, string>> = {
  400: "does it take OTLP/HTTP in JSON?",
  401: "are the headers that authenticate right?",
  403: "are the headers that authenticate right?",
  404: "is the path right? That of OTLP/HTTP ends in /v1/traces",
  405: "is the path right? That of OTLP/HTTP ends in /v1/traces",
  413: "it takes no request of this size",
  415: "it does not take OTLP/HTTP in JSON"
}

const phraseOf = (status: number): string => {
  if (status >= 300 && status < 400) return `HTTP ${status}: redirects are not followed`
  const hint = hints[status]
  return hint === undefined ? `HTTP ${status}` : `HTTP ${status}: ${hint}`
}

/**
 * `ExportTraceServiceResponse`, JSON encoding: a 64-bit integer is a decimal string, and a number is taken too. What else there
 * is, is ignored, as OTLP demands.
 */
const Answer = Schema.fromJsonString(
  Schema.Struct({
    partialSuccess: Schema.optional(
      Schema.NullOr(
        Schema.Struct({
          rejectedSpans: Schema.optional(
            Schema.NullOr(
              Schema.Union([
                Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)),
                Schema.String.check(Schema.isPattern(/^\d{1,15}$/))
              ])
            )
          )
        })
      )
    )
  })
)
const decodeAnswer = Schema.decodeUnknownOption(Answer)

/**
 * Judges an answer to a batch of `spans` by OTLP/HTTP 1.x: a 2xx is success, also where it warns; spans that it rejects make it partial,
 * and since it does not say which they are, nothing is sent again; 429, 502, 503 and 504 are tried again, and so is an answer that breaks
 * off, as one that did not come; any other status is the end. What a 2xx says must be OTLP's or nothing: a page in HTML was sent by no
 * collector. Nothing of the answer is in the outcome but its status and the count.
 */
export const classifyResponse = (response: CollectorResponse, spans: number): ExportOutcome => {
  const { status } = response
  if (status < 200 || status >= 300) {
    const error = phraseOf(status)
    if (!retryable.has(status)) return { _tag: "Failed", status, error }
    return { _tag: "Retry", status, error, retryAfter: response.retryAfterMillis }
  }
  if (!response.isComplete) {
    return response.body.length >= MAX_RESPONSE_BYTES
      ? {
          _tag: "Failed",
          status,
          error: `HTTP ${status} with an answer of over 64 KiB: is this a collector?`
        }
      : { _tag: "Retry", status, error: `HTTP ${status}, but the answer broke off`, retryAfter: null }
  }
  if (response.body.length === 0) return { _tag: "Delivered", status }
  const read = decodeAnswer(new TextDecoder().decode(response.body))
  if (Option.isNone(read)) {
    return {
      _tag: "Failed",
      status,
      error: `HTTP ${status} with an answer that is not OTLP/HTTP in JSON: is the path right? That of OTLP/HTTP ends in /v1/traces`
    }
  }
  // More than were sent cannot have been rejected.
  const rejected = Math.min(spans, Number(read.value.partialSuccess?.rejectedSpans ?? 0))
  return rejected === 0
    ? { _tag: "Delivered", status }
    : { _tag: "Partial", status, rejected, error: `the collector rejected ${rejected} of ${spans} spans` }
}
