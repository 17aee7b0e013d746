import { Option, Schema } from "effect"
import type { SeparateScores } from "./FeedbackConventions.ts"
import { type CollectorResponse, classifyUnsuccessful, type ExportOutcome } from "./OtlpResponse.ts"

/** What each tool calls its address for scores, for the operator. */
const places: Readonly<Record<SeparateScores, string>> = {
  log: "OTLP logs at /v1/logs",
  langfuse: "Langfuse scores at /api/public/ingestion",
  phoenix: "Phoenix annotations at /v1/span_annotations"
}

/** Describes a status of a tool for scores, and its likely cause. */
export const describeScoreStatus =
  (scores: SeparateScores) =>
  (status: number): string => {
    if (status >= 300 && status < 400) return `HTTP ${status}: redirects are not followed`
    switch (status) {
      case 401:
      case 403:
        return `HTTP ${status}: check the authentication headers; ${places[scores]} needs permission to write`
      case 404:
      case 405:
        return `HTTP ${status}: check \`scores\`; this tool has no ${places[scores]}`
      default:
        return `HTTP ${status}`
    }
  }

/** `ExportLogsServiceResponse`, JSON encoding. */
const LogsResponse = Schema.fromJsonString(
  Schema.Struct({
    partialSuccess: Schema.optional(
      Schema.NullOr(
        Schema.Struct({
          rejectedLogRecords: Schema.optional(
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
const decodeLogs = Schema.decodeUnknownOption(LogsResponse)

/** The response of Langfuse's ingestion API: 207, with the accepted and the refused events. */
const IngestionResponse = Schema.fromJsonString(
  Schema.Struct({ errors: Schema.Array(Schema.Struct({ status: Schema.Int })) })
)
const decodeIngestion = Schema.decodeUnknownOption(IngestionResponse)

/** Statuses of an event that Langfuse may accept later. It stores an event once, by its id, so the whole batch is sent again. */
const isTransient = (status: number): boolean => status === 429 || status >= 500

/**
 * Classifies the response to a batch of `count` scores. The status counts as for spans; then the body tells how many scores were rejected.
 * The outcome contains nothing of the response except its status and the count.
 */
export const classifyScoresResponse = (
  response: CollectorResponse,
  scores: SeparateScores,
  count: number
): ExportOutcome => {
  const { status } = response
  const unsuccessful = classifyUnsuccessful(response, describeScoreStatus(scores))
  if (unsuccessful !== undefined) return unsuccessful
  const text = new TextDecoder().decode(response.body)
  const foreign: ExportOutcome = {
    _tag: "Failed",
    status,
    error: `HTTP ${status} with an unknown body: check \`scores\`; this tool has no ${places[scores]}`
  }
  const settle = (rejected: number): ExportOutcome =>
    rejected === 0
      ? { _tag: "Delivered", status }
      : { _tag: "Partial", status, rejected, error: `the tool rejected ${rejected} of ${count} scores` }
  switch (scores) {
    case "log": {
      if (text === "") return settle(0)
      const decoded = decodeLogs(text)
      if (Option.isNone(decoded)) return foreign
      return settle(Math.min(count, Number(decoded.value.partialSuccess?.rejectedLogRecords ?? 0)))
    }
    case "langfuse": {
      const decoded = decodeIngestion(text)
      if (Option.isNone(decoded)) return foreign
      const { errors } = decoded.value
      if (errors.some((error) => isTransient(error.status)))
        return { _tag: "Retry", status, error: "Langfuse could not store all scores yet", retryAfter: null }
      return settle(Math.min(count, errors.length))
    }
    case "phoenix":
      // Annotations are queued until their spans arrive, so the response names none.
      return Option.isNone(decodeObject(text)) ? foreign : settle(0)
  }
}

const decodeObject = Schema.decodeUnknownOption(
  Schema.fromJsonString(Schema.Struct({ data: Schema.Unknown }))
)
