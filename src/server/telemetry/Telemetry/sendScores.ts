import { Effect } from "effect"
import { promisify } from "node:util"
import { gunzip } from "node:zlib"
import { type SeparateScores, scoresUrl } from "../../../domain/telemetry/FeedbackConventions.ts"
import type { ExportOutcome } from "../../../domain/telemetry/OtlpResponse.ts"
import { classifyScoresResponse } from "../../../domain/telemetry/ScoresResponse.ts"
import type { Egress } from "../../egress/Egress.ts"
import { MAX_BATCH_BYTES } from "../Spans/SpanBuffer.ts"
import { type CollectorAddress, type RequestDestination, sendOnce } from "./sendSpans.ts"

const gunzipBytes = promisify(gunzip)

/** The tools that accept a compressed body of scores: OTLP requires it of every collector. */
const acceptsGzip = (scores: SeparateScores): boolean => scores === "log"

/** Sends one request with `count` scores once, and interprets the response. `payload` is gzipped. */
export const sendScores = Effect.fnUntraced(function* (
  egress: Egress["Service"],
  destination: RequestDestination,
  to: CollectorAddress,
  payload: Uint8Array,
  { count, scores }: { readonly count: number; readonly scores: SeparateScores },
  began?: number
) {
  const url = scoresUrl(to.url, scores)
  if (url === undefined) {
    const failed: ExportOutcome = { _tag: "Failed", error: "the URL has no address for scores", status: null }
    return failed
  }
  const isGzipped = acceptsGzip(scores)
  const body = isGzipped
    ? payload
    : yield* Effect.promise(() => gunzipBytes(payload, { maxOutputLength: MAX_BATCH_BYTES }))
  return yield* sendOnce(
    egress,
    destination,
    { ...to, url },
    { body, isGzipped },
    (response) => classifyScoresResponse(response, scores, count),
    began
  )
})
