import { Clock, Duration, Effect, Random, Redacted, Result } from "effect"
import { SqlClient } from "effect/sql"
import { type ModelProvider, noUsage, sumUsage, unknownUsage } from "../../../domain/tasks/Provider.ts"
import type { ProviderFailureReason } from "../../../domain/tasks/ProviderFailure.ts"
import { renderInstructions } from "../../../domain/tasks/InstructionTemplate.ts"
import { VERSION } from "../../../domain/Version.ts"
import type { ModelResponse } from "../../../domain/telemetry/SpanConventions.ts"
import { monotonicNow } from "../../concurrency/monotonicMillis.ts"
import { ProviderEgress } from "../../egress/Egress.ts"
import { retryAfterMillis } from "../../egress/retryAfterMillis.ts"
import { SecretBox } from "../../secrets/SecretBox.ts"
import { StoreClock } from "../../store/StoreClock.ts"
import { type CallResult, classifyFailure, classifyResponse, MAX_RESPONSE_BYTES } from "./classifyResponse.ts"
import { describeFaults } from "./describeFaults.ts"
import { parseModelAnswer } from "./parseModelAnswer.ts"
import { runInSteps } from "./inSteps.ts"
import type { Conversation, ModelApi, ModelRequest } from "./ModelApi.ts"
import { findPromptExamples } from "./promptExamples.ts"
import { findProviderKey } from "./providerKeys.ts"
import { NoAnswer, type ProviderAnswer, type ProviderCall, type ProviderRequest } from "./ProviderRequest.ts"

/** Retries of calls to a model server that is busy or failing. */
export interface ModelOptions {
  /** Calls for one completion, including the first. Default 3. */
  readonly attempts?: number
  /** Backoff before the second call. Each further backoff is twice as long; jitter adds up to half. Default 500 ms. */
  readonly initialBackoff?: Duration.Input
  /** The longest backoff, also of a `Retry-After` header. The run fails instead of waiting longer. Default 20 s. */
  readonly maxBackoff?: Duration.Input
}

/** A shorter header, such as an application's name, is no secret, and occurs in other words. */
const MIN_SECRET_HEADER = 8

const stoppedDetails = {
  refused: "The model refused to answer.",
  truncated: "The model's answer was truncated at its token limit."
}

/** Makes a provider that calls model servers by an API, within the egress rules for provider URLs. */
export const makeModelProvider = <P extends ModelProvider>(api: ModelApi<P>, options: ModelOptions) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const box = yield* SecretBox
    const egress = yield* ProviderEgress
    const storeClock = yield* StoreClock
    const attempts = options.attempts ?? 3
    const initialBackoff = Duration.fromInputUnsafe(options.initialBackoff ?? "500 millis")
    const maxBackoff = Duration.fromInputUnsafe(options.maxBackoff ?? "20 seconds")

    return Effect.fn("Providers.callModel")(function* (
      request: ProviderRequest<P>
    ): Effect.fn.Return<ProviderAnswer, NoAnswer> {
      const { answer, hasVariables = true, input, instructions, onCall, org_id, provider, task_id } = request
      const { api_key, headers } = yield* findProviderKey(sql, box, org_id, task_id, provider.base_url)
      const schema = yield* answer.schema
      const rendered = hasVariables ? renderInstructions(instructions, input) : Result.succeed(instructions)
      if (Result.isFailure(rendered)) {
        return yield* new NoAnswer({
          reason: "prompt_too_large",
          detail: rendered.failure,
          usage: noUsage,
          calls: [],
          examples: []
        })
      }
      const near = yield* findPromptExamples(sql, request, provider.few_shot)
      const examples = near.map(({ id, score }) => ({ id, score }))
      const secrets = [
        ...(api_key === undefined ? [] : [api_key]),
        ...Object.values(headers).filter((value) => Redacted.value(value).length >= MIN_SECRET_HEADER)
      ]
      const deadline = (yield* monotonicNow) + provider.timeout_seconds * 1000
      const calls: Array<ProviderCall> = []

      const outcome = () => ({ usage: sumUsage(calls.map(({ usage }) => usage)), calls, examples })
      const fail = (reason: ProviderFailureReason, detail: string) =>
        new NoAnswer({ reason, detail, ...outcome() })

      /** Makes one call, and records it whether it succeeds, fails or is interrupted. */
      const call = Effect.fnUntraced(function* ({ body, headers: own, messages, url }: ModelRequest) {
        const started_at = yield* storeClock.now
        const start = yield* monotonicNow
        const traceparent = provider.send_traceparent ? request.traceparent?.(calls.length) : undefined
        const record = (result: Omit<ProviderCall, "started_at" | "duration_ms" | "messages">) =>
          Effect.map(monotonicNow, (end) => {
            const finished = { started_at, duration_ms: Math.round(end - start), messages, ...result }
            calls.push(finished)
            onCall?.(finished)
          })
        return yield* egress
          .send({
            organization: org_id,
            pool: task_id,
            url,
            method: "POST",
            headers: {
              ...Object.fromEntries(
                Object.entries(headers).map(([name, value]) => [name, Redacted.value(value)])
              ),
              "content-type": "application/json",
              accept: "application/json",
              "user-agent": `Countersign/${VERSION}`,
              ...(traceparent === undefined ? {} : { traceparent }),
              ...own
            },
            body: Buffer.from(body),
            timeout: Duration.millis(Math.max(1, deadline - start)),
            maxResponseBytes: MAX_RESPONSE_BYTES
          })
          .pipe(
            Effect.flatMap((response) => runInSteps(response.body.length, classifyResponse(response, api))),
            Effect.catchTag("EgressFailed", (failure) =>
              Effect.succeed<CallResult>(classifyFailure(failure))
            ),
            Effect.tap((result) =>
              record({
                usage: result.usage,
                response:
                  result._tag === "Completed" ? withoutSecrets(result.completion.response, secrets) : null,
                http_status: result.status,
                failure: result._tag === "Completed" ? null : result.detail,
                reason: result._tag === "Completed" ? null : result.reason
              })
            ),
            Effect.onInterrupt(() =>
              record({
                usage: unknownUsage,
                response: null,
                http_status: null,
                failure: "The run was canceled before the model answered.",
                reason: "cancelled"
              })
            )
          )
      })

      /** Calls until a call is completed, with retries and exponential backoff. Returns the content of the answer. */
      const complete = Effect.fnUntraced(function* (conversation: Conversation) {
        const prompt = api.request(provider, conversation, api_key)
        let backoff = Duration.toMillis(initialBackoff)
        for (let attempt = 1; ; attempt++) {
          const result = yield* call(prompt)
          if (result._tag === "Completed") {
            const { content, stopped } = result.completion
            return stopped === null ? content : yield* fail(stopped, stoppedDetails[stopped])
          }
          const { detail, isRetryable, reason, retryAfter } = result
          if (!isRetryable || attempt >= attempts) return yield* fail(reason, detail)
          const requested =
            retryAfter === undefined
              ? null
              : // On the wall clock, because the header may be a date.
                retryAfterMillis(retryAfter, yield* Clock.currentTimeMillis)
          const pause = Math.round(Math.max(requested ?? 0, backoff * (1 + 0.5 * (yield* Random.next))))
          // A retry after the deadline cannot succeed, so the caller gets the failure now.
          if (pause > Duration.toMillis(maxBackoff) || (yield* monotonicNow) + pause >= deadline)
            return yield* fail(reason, detail)
          yield* Effect.sleep(Duration.millis(pause))
          backoff *= 2
        }
      })

      const conversation: Conversation = { instructions: rendered.success, examples: near, input, schema }
      const first = yield* complete(conversation)
      const parsed = yield* Effect.result(parseModelAnswer(first, answer.compiled))
      if (Result.isSuccess(parsed)) return { ...parsed.success, ...outcome() }
      const second = yield* complete({ ...conversation, repair: { answer: first, faults: parsed.failure } })
      const corrected = yield* Effect.result(parseModelAnswer(second, answer.compiled))
      if (Result.isSuccess(corrected)) return { ...corrected.success, ...outcome() }
      return yield* fail(
        "invalid_answer",
        `The model's answer does not match the answer schema, even after one repair attempt: ${describeFaults(corrected.failure, schema, secrets)}`
      )
    })
  })

/** Leaves out names that contain the API key or a header, which the server knows. */
const withoutSecrets = (
  response: ModelResponse,
  secrets: ReadonlyArray<Redacted.Redacted>
): ModelResponse => {
  const safe = (name: string | null) =>
    name !== null && secrets.some((secret) => name.includes(Redacted.value(secret))) ? null : name
  return { ...response, id: safe(response.id), model: safe(response.model) }
}
