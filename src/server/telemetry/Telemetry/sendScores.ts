import { Effect } from "effect"
import { type SeparateScores, scoresUrl } from "../../../domain/telemetry/FeedbackConventions.ts"
import type { ExportOutcome } from "../../../domain/telemetry/OtlpResponse.ts"
import { classifyScoresResponse } from "../../../domain/telemetry/ScoresResponse.ts"
import type { Egress } from "../../egress/Egress.ts"
import {
  type CollectorAddress,
  gunzipBatch,
  type RequestDestination,
  sendOnce,
  type SpanRequest
} from "./sendSpans.ts"

/** The tools that accept a compressed body of scores: OTLP requires it of every collector. */
export const acceptsGzip = (scores: SeparateScores): boolean => scores === "log"

/** Sends one batch of scores once, and interprets the response. */
export const sendScores = Effect.fnUntraced(function* (
  egress: Egress["Service"],
  destination: RequestDestination,
  to: CollectorAddress,
  scores: SeparateScores,
  { began, isGzipped, payload, spans }: SpanRequest
) {
  const url = scoresUrl(to.url, scores)
  if (url === undefined) {
    const failed: ExportOutcome = { _tag: "Failed", error: "the URL has no address for scores", status: null }
    return failed
  }
  const body = isGzipped ? payload : yield* gunzipBatch(payload)
  return yield* sendOnce(
    egress,
    destination,
    { ...to, url },
    { body, isGzipped },
    (response) => classifyScoresResponse(response, scores, spans),
    began
  )
})
