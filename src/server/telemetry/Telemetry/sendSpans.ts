import { Clock, Effect, Redacted, Schema } from "effect"
import { promisify } from "node:util"
import { gunzip } from "node:zlib"
import type { OrgId } from "../../../domain/Ids.ts"
import {
  type CollectorResponse,
  type ExportOutcome,
  classifyResponse,
  MAX_RESPONSE_BYTES
} from "../../../domain/telemetry/OtlpResponse.ts"
import type { Compression } from "../../../domain/telemetry/TelemetryDestination.ts"
import { VERSION } from "../../../domain/Version.ts"
import type { Egress } from "../../egress/Egress.ts"
import { retryAfterMillis } from "../../egress/retryAfterMillis.ts"
import type { EgressReason } from "../../egress/EgressFailed.ts"
import type { SecretBox } from "../../secrets/SecretBox.ts"
import { logFailure } from "../../observability/DatabaseOutage.ts"
import { MAX_BATCH_BYTES } from "../Spans/SpanBuffer.ts"
import { type SealedAddress, destinationPlace } from "./rows.ts"

/** Longest request to a collector, in milliseconds: DNS, connect, TLS, request and response. */
export const EXPORT_MILLIS = 10_000

/** Headers in the form in which they are sealed. */
const Headers = Schema.fromJsonString(Schema.Record(Schema.String, Schema.String))
export const encodeHeaders = Schema.encodeEffect(Headers)
const decodeHeaders = Schema.decodeEffect(Headers)

/** The unsealed URL and headers of a collector. Kept in memory only while a request is sent. */
export interface CollectorAddress {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
}

/** Unseals the address of a collector. */
export const unsealAddress = Effect.fnUntraced(function* (
  box: SecretBox["Service"],
  org_id: OrgId,
  destination_id: string,
  { headers, url }: SealedAddress
) {
  const unsealedUrl = yield* box.unseal(destinationPlace(org_id, destination_id, "url"), url)
  const text = yield* box.unseal(destinationPlace(org_id, destination_id, "headers"), headers)
  return {
    url: Redacted.value(unsealedUrl),
    headers: yield* decodeHeaders(Redacted.value(text))
  } satisfies CollectorAddress
})

/**
 * Failures that are not retried: the egress rules refuse the URL, the request cannot be written, or there was a
 * response that violates HTTP. OTLP lists the responses to retry, and those are not among them.
 */
const notRetried: ReadonlySet<EgressReason> = new Set([
  "RefusedUrl",
  "RefusedAddress",
  "RefusedRequest",
  "HeadersTooLarge",
  "MalformedResponse"
])

/** The likely cause of a failure, for the operator. */
const hints: Partial<Record<EgressReason, string>> = {
  MalformedResponse: ": if this is a port for gRPC, use the one for OTLP/HTTP, usually 4318"
}

/** Identifies the destination of a request. */
export interface RequestDestination {
  readonly destination_id: string
  readonly org_id: string
}

/** Decompresses a stored batch. */
export const gunzipBatch = (payload: Uint8Array): Effect.Effect<Buffer> =>
  Effect.promise(() => gunzipBytes(payload, { maxOutputLength: MAX_BATCH_BYTES }))

const gunzipBytes = promisify(gunzip)

/** A batch to send, and how. */
export interface SpanRequest {
  /** As it is stored: gzipped. */
  readonly payload: Uint8Array
  /** Its spans, or its scores. */
  readonly spans: number
  /** Whether it is sent compressed. */
  readonly isGzipped: boolean
  readonly began?: number | undefined
}

/** Sends one batch once, and interprets the response. */
export const sendSpans = (
  egress: Egress["Service"],
  destination: RequestDestination,
  to: CollectorAddress,
  { began, isGzipped, payload, spans }: SpanRequest
): Effect.Effect<ExportOutcome> =>
  Effect.flatMap(isGzipped ? Effect.succeed(payload) : gunzipBatch(payload), (body) =>
    sendOnce(
      egress,
      destination,
      to,
      { body, isGzipped },
      (response) => classifyResponse(response, spans),
      began
    )
  )

/** Statuses of a collector that cannot decompress a request. */
const REFUSES_GZIP: ReadonlySet<number | null> = new Set([400, 415])

/**
 * Sends a request with the compression of its destination. With `auto`, a request that is refused is sent once more without compression, and
 * `remember` runs if the collector takes it.
 */
export const sendCompressed = (
  { compression, gzip_refused }: { readonly compression: Compression; readonly gzip_refused: boolean },
  send: (isGzipped: boolean) => Effect.Effect<ExportOutcome>,
  remember: Effect.Effect<void>
): Effect.Effect<ExportOutcome> => {
  if (compression !== "auto" || gzip_refused) return send(compression === "gzip")
  return Effect.flatMap(send(true), (outcome) =>
    outcome._tag === "Failed" && REFUSES_GZIP.has(outcome.status)
      ? Effect.tap(send(false), ({ _tag }) =>
          _tag === "Delivered" || _tag === "Partial"
            ? // Its failure must not fail an attempt that succeeded, which would be repeated.
              Effect.catchCause(remember, (cause) =>
                logFailure("Could not remember that a collector takes no compressed requests", cause)
              )
            : Effect.void
        )
      : Effect.succeed(outcome)
  )
}

/** Sends one request once, and interprets the response. */
export const sendOnce = (
  egress: Egress["Service"],
  { destination_id, org_id }: RequestDestination,
  to: CollectorAddress,
  {
    body,
    contentType = "application/json",
    isGzipped
  }: { readonly body: Uint8Array; readonly isGzipped: boolean; readonly contentType?: string },
  classify: (response: CollectorResponse) => ExportOutcome,
  began?: number
): Effect.Effect<ExportOutcome> =>
  egress
    .send({
      organization: org_id,
      pool: destination_id,
      url: to.url,
      method: "POST",
      headers: {
        ...to.headers,
        "content-type": contentType,
        ...(isGzipped ? { "content-encoding": "gzip" } : {}),
        "user-agent": `Countersign/${VERSION}`
      },
      body,
      timeout: EXPORT_MILLIS,
      began,
      maxResponseBytes: MAX_RESPONSE_BYTES
    })
    .pipe(
      Effect.matchEffect({
        onSuccess: (response) =>
          Effect.map(Clock.currentTimeMillis, (now) =>
            classify({
              status: response.status,
              retryAfterMillis:
                response.retryAfter === undefined ? null : retryAfterMillis(response.retryAfter, now),
              body: response.body,
              isComplete: response.complete
            })
          ),
        onFailure: ({ phrase, reason }) =>
          Effect.succeed<ExportOutcome>(
            notRetried.has(reason)
              ? { _tag: "Failed", error: `${phrase}${hints[reason] ?? ""}`, status: null }
              : { _tag: "Retry", error: phrase, status: null, retryAfter: null }
          )
      })
    )
