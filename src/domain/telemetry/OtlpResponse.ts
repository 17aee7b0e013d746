import { Option, Schema } from "effect"
import type { AttemptOutcome } from "../delivery/DeliveryState.ts"

/** The part of a collector's response that was read. */
export interface CollectorResponse {
  readonly status: number
  /** The parsed `Retry-After` header; null if the header is absent or malformed. */
  readonly retryAfterMillis: number | null
  readonly body: Uint8Array
  /** Whether `body` is the complete body. */
  readonly isComplete: boolean
}

/** The outcome of an export attempt for its batch, in the service's own words. */
export type ExportOutcome = Extract<
  AttemptOutcome,
  { readonly _tag: "Delivered" | "Partial" | "Retry" | "Failed" }
>

/** OTLP/HTTP, "Retryable Response Codes". Any other client or server error must not be retried. */
const retryable: ReadonlySet<number> = new Set([429, 502, 503, 504])

/** Maximum length of a response body, in bytes: OTLP 1.11 requires a limit, and a valid response is far smaller. */
export const MAX_RESPONSE_BYTES = 64 * 1024

/** The likely cause of a status, for the operator. */
const hints: Readonly<Record<number, string>> = {
  400: "check that the collector accepts OTLP/HTTP in JSON",
  401: "check the authentication headers",
  403: "check the authentication headers",
  404: "check the path; OTLP/HTTP paths end in /v1/traces",
  405: "check the path; OTLP/HTTP paths end in /v1/traces",
  413: "the collector does not accept requests of this size",
  415: "the collector does not accept OTLP/HTTP in JSON"
}

const describeStatus = (status: number): string => {
  if (status >= 300 && status < 400) return `HTTP ${status}: redirects are not followed`
  const hint = hints[status]
  return hint === undefined ? `HTTP ${status}` : `HTTP ${status}: ${hint}`
}

/** A 64-bit integer in JSON: a decimal string, and a number is accepted too. */
const Count = Schema.NullOr(
  Schema.Union([
    Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)),
    Schema.String.check(Schema.isPattern(/^\d{1,15}$/))
  ])
)

/**
 * `ExportTraceServiceResponse`, JSON encoding. Unknown fields are ignored, as OTLP requires. Names in snake case are from the Protobuf
 * definition, and parsers of its JSON form accept them too.
 */
const PartialSuccess = Schema.Struct({
  rejectedSpans: Schema.optional(Count),
  rejected_spans: Schema.optional(Count)
})
const ExportResponse = Schema.Struct({
  partialSuccess: Schema.optional(Schema.NullOr(PartialSuccess)),
  partial_success: Schema.optional(Schema.NullOr(PartialSuccess))
})
const decodeResponse = Schema.decodeUnknownOption(ExportResponse)

/** How many spans a response of a success rejects; 0 if it is a text that says nothing about it. Undefined: it is not a collector's. */
const rejectedIn = (text: string): number | undefined => {
  if (text.trimStart().startsWith("<")) return undefined
  const parsed = Option.liftThrowable((json: string): unknown => JSON.parse(json))(text)
  if (Option.isNone(parsed) || typeof parsed.value !== "object") return 0
  const decoded = decodeResponse(parsed.value)
  if (Option.isNone(decoded)) return undefined
  const { partialSuccess, partial_success } = decoded.value
  const partial = partialSuccess ?? partial_success
  return Number(partial?.rejectedSpans ?? partial?.rejected_spans ?? 0)
}

/**
 * Classifies the response to a batch of `spans` by OTLP/HTTP 1.x.
 *
 * - 2xx: success, even with a warning. Rejected spans make it partial; the response does not identify them, so nothing is resent. A body
 *   that is a page, or whose count of rejected spans cannot be read, is a failure: no collector sent it. Another text is a success, as for the
 *   exporters of OpenTelemetry: some backends answer `OK`.
 * - 429, 502, 503, 504, or a truncated response: a retry.
 * - Any other status: a failure.
 *
 * The outcome contains nothing of the response except its status and the count.
 */
export const classifyResponse = (response: CollectorResponse, spans: number): ExportOutcome => {
  const { status } = response
  const unsuccessful = classifyUnsuccessful(response, describeStatus)
  if (unsuccessful !== undefined) return unsuccessful
  if (response.body.length === 0) return { _tag: "Delivered", status }
  const found = rejectedIn(new TextDecoder().decode(response.body))
  if (found === undefined) {
    return {
      _tag: "Failed",
      status,
      error: `HTTP ${status} with a body that is not OTLP/HTTP in JSON: check the path; OTLP/HTTP paths end in /v1/traces`
    }
  }
  // A collector cannot have rejected more spans than were sent.
  const rejected = Math.min(spans, found)
  return rejected === 0
    ? { _tag: "Delivered", status }
    : { _tag: "Partial", status, rejected, error: `the collector rejected ${rejected} of ${spans} spans` }
}

/** Classifies a response that is no success by its status, or that is truncated; undefined if its body decides. */
export const classifyUnsuccessful = (
  response: CollectorResponse,
  describe: (status: number) => string
): ExportOutcome | undefined => {
  const { status } = response
  if (status < 200 || status >= 300) {
    const error = describe(status)
    if (!retryable.has(status)) return { _tag: "Failed", status, error }
    return { _tag: "Retry", status, error, retryAfter: response.retryAfterMillis }
  }
  if (response.isComplete) return undefined
  return response.body.length >= MAX_RESPONSE_BYTES
    ? {
        _tag: "Failed",
        status,
        error: `HTTP ${status} with a body over 64 KiB: check that the URL is a collector's`
      }
    : { _tag: "Retry", status, error: `HTTP ${status}, but the response was truncated`, retryAfter: null }
}
