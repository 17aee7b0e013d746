import { Duration } from "effect"
import type { CompletedProviderCall } from "../../../domain/telemetry/SpanConventions.ts"
import type { FinishedRun } from "./FinishedRun.ts"

/** The longest call that a client can report. */
const LONGEST = Duration.toMillis(Duration.days(1))

/**
 * The call to a model that a client reported with its answer, without its messages; undefined if it named neither provider nor model. It
 * ended before the answer was logged: a reported start that is later, or more than a day earlier, is ignored.
 */
export const toReportedCall = ({
  answered_by,
  created_at
}: Pick<FinishedRun, "answered_by" | "created_at">): Omit<CompletedProviderCall, "prompt"> | undefined => {
  if (answered_by === null) return undefined
  const { duration_ms: milliseconds = 0, model = null, provider = null, started_at, usage } = answered_by
  if (provider === null && model === null) return undefined
  const duration = Math.round(milliseconds)
  const logged = created_at.epochMilliseconds
  const reported = started_at?.epochMilliseconds
  const isPossible = reported !== undefined && reported <= logged && reported >= logged - LONGEST
  const start = isPossible ? reported : logged - duration
  return {
    provider,
    model,
    server: null,
    temperature: null,
    top_p: null,
    max_tokens: null,
    seed: null,
    start,
    end: Math.min(logged, start + duration),
    response:
      usage === undefined
        ? null
        : {
            id: null,
            model: null,
            finish_reason: null,
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cached_tokens: null,
            cache_creation_tokens: null,
            reasoning_tokens: null
          },
    error_type: null
  }
}
