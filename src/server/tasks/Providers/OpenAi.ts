import {
  Clock,
  Context,
  Duration,
  Effect,
  JsonPointer,
  Layer,
  Random,
  Redacted,
  Result,
  type Schema
} from "effect"
import { SqlClient } from "effect/sql"
import type { JsonSchema } from "../../../domain/tasks/Task.ts"
import { addUsage, noUsage, type OpenAiProvider, type Usage } from "../../../domain/tasks/Provider.ts"
import { KnownValues } from "../../../domain/redaction/Redaction.ts"
import { redactFaults } from "../../../domain/redaction/Redaction/redactFaults.ts"
import { retryAfterMillis } from "../../egress/retryAfterMillis.ts"
import type { SchemaFault } from "../../../domain/tasks/CompiledSchema.ts"
import { ProviderEgress } from "../../egress/Egress.ts"
import type { EgressResponse } from "../../egress/EgressResponse.ts"
import type { EgressFailed, EgressReason } from "../../egress/EgressFailed.ts"
import { monotonicNow } from "../../concurrency/monotonicMillis.ts"
import { SecretBox } from "../../secrets/SecretBox.ts"
import { StoreClock } from "../../store/StoreClock.ts"
import { chatBody, type ChatMessage, initialMessages, repairMessages } from "./chatRequest.ts"
import { parseCompletion, type ParsedCompletion } from "./chatResponse.ts"
import { findAnswer } from "./findAnswer.ts"
import { findPromptExamples } from "./promptExamples.ts"
import { findProviderKey } from "./providerKeys.ts"
import {
  type ModelResponse,
  NoAnswer,
  type ProviderAnswer,
  type ProviderCall,
  type ProviderRequest
} from "./ProviderRequest.ts"

/** Retries of calls to a model server that is busy or failing. */
export interface OpenAiOptions {
  /** Calls for one completion, including the first. Default 3. */
  readonly attempts?: number
  /** Backoff before the second call. Each further backoff is twice as long; jitter adds up to half. Default 500 ms. */
  readonly initialBackoff?: Duration.Input
  /** The longest backoff, also of a `Retry-After` header. The run fails instead of waiting longer. Default 20 s. */
  readonly maxBackoff?: Duration.Input
}

/** Bytes of a response body. */
const MAX_RESPONSE_BYTES = 4 * 2 ** 20

/** Failures without a response that a retry may overcome. */
const RETRYABLE: ReadonlySet<EgressReason> = new Set([
  "LookupFailed",
  "ConnectionRefused",
  "Unreachable",
  "ConnectTimedOut",
  "ConnectionClosed"
])

/** Calls servers with OpenAI's chat completions API, within the egress rules for provider URLs. */
export class OpenAi extends Context.Service<
  OpenAi,
  {
    readonly answer: (request: ProviderRequest<OpenAiProvider>) => Effect.Effect<ProviderAnswer, NoAnswer>
  }
>()("countersign/server/tasks/Providers/OpenAi") {
  static readonly layer = (options: OpenAiOptions = {}) => Layer.effect(OpenAi, make(options))
}

const make = Effect.fnUntraced(function* (options: OpenAiOptions) {
  const sql = yield* SqlClient.SqlClient
  const box = yield* SecretBox
  const egress = yield* ProviderEgress
  const storeClock = yield* StoreClock
  const attempts = options.attempts ?? 3
  const initialBackoff = Duration.fromInputUnsafe(options.initialBackoff ?? "500 millis")
  const maxBackoff = Duration.fromInputUnsafe(options.maxBackoff ?? "20 seconds")

  return OpenAi.of({
    answer: Effect.fn("OpenAi.answer")(function* (request) {
      const { answer, input, instructions, onCall, org_id, provider, task_id } = request
      const key = yield* findProviderKey(sql, box, org_id, task_id, provider.base_url)
      const schema = yield* answer.schema
      const near = yield* findPromptExamples(sql, request, provider.few_shot)
      const examples = near.map(({ id, score }) => ({ id, score }))
      const deadline = (yield* monotonicNow) + provider.timeout_seconds * 1000
      const calls: Array<ProviderCall> = []
      let usage: Usage = noUsage

      const fail = (detail: string) => new NoAnswer({ reason: "failed", detail, usage, calls, examples })

      /** Makes one call, and records it whether it succeeds, fails or is interrupted. */
      const call = Effect.fnUntraced(function* (
        messages: ReadonlyArray<ChatMessage>,
        recorded: ReadonlyArray<ChatMessage>
      ) {
        const started_at = yield* storeClock.now
        const start = yield* monotonicNow
        const traceparent = provider.send_traceparent ? request.traceparent?.(calls.length) : undefined
        const record = (http_status: number | null, failure: string | null, completion?: ParsedCompletion) =>
          Effect.map(monotonicNow, (end) => {
            const used = completion?.usage ?? noUsage
            usage = addUsage(usage, used)
            const finished = {
              started_at,
              duration_ms: Math.round(end - start),
              usage: used,
              messages: recorded,
              response: completion === undefined ? null : withoutKey(completion.response, key),
              http_status,
              failure
            }
            calls.push(finished)
            onCall?.(finished)
          })
        return yield* egress
          .send({
            organization: org_id,
            pool: task_id,
            url: `${provider.base_url}/chat/completions`,
            method: "POST",
            headers: {
              "content-type": "application/json",
              accept: "application/json",
              ...(traceparent === undefined ? {} : { traceparent }),
              ...(key === undefined ? {} : { authorization: `Bearer ${Redacted.value(key)}` })
            },
            body: Buffer.from(chatBody(provider, messages, schema)),
            timeout: Duration.millis(Math.max(1, deadline - start)),
            maxResponseBytes: MAX_RESPONSE_BYTES
          })
          .pipe(
            Effect.map(classifyResponse),
            Effect.catchTag("EgressFailed", (failure) => Effect.succeed(classifyFailure(failure))),
            Effect.tap((result) =>
              record(
                result.status,
                result._tag === "Completed" ? null : result.detail,
                result._tag === "Completed" ? result.completion : undefined
              )
            ),
            Effect.onInterrupt(() => record(null, "The run was canceled before the model answered."))
          )
      })

      /** Calls until a call is completed, with retries and exponential backoff. */
      const complete = Effect.fnUntraced(function* (
        messages: ReadonlyArray<ChatMessage>,
        recorded: ReadonlyArray<ChatMessage>
      ) {
        let backoff = Duration.toMillis(initialBackoff)
        for (let attempt = 1; ; attempt++) {
          const result = yield* call(messages, recorded)
          if (result._tag === "Completed") return result.completion
          if (result._tag === "Failed" || attempt >= attempts) return yield* fail(result.detail)
          const requested =
            result.retryAfter === undefined
              ? null
              : // On the wall clock, because the header may be a date.
                retryAfterMillis(result.retryAfter, yield* Clock.currentTimeMillis)
          const pause = Math.round(Math.max(requested ?? 0, backoff * (1 + 0.5 * (yield* Random.next))))
          // A retry after the deadline cannot succeed, so the caller gets the failure now.
          if (pause > Duration.toMillis(maxBackoff) || (yield* monotonicNow) + pause >= deadline)
            return yield* fail(result.detail)
          yield* Effect.sleep(Duration.millis(pause))
          backoff *= 2
        }
      })

      const messages = initialMessages(instructions, near, input, schema)
      const first = yield* complete(messages, messages)
      if (first.stopped !== null) return yield* fail(first.stopped)
      const parsed = findAnswer(first.content, answer.compiled)
      if (Result.isSuccess(parsed)) return { answer: parsed.success, usage, calls, examples }
      const second = yield* complete(
        [...messages, ...repairMessages(first.content, parsed.failure)],
        [...messages, recordedRepair]
      )
      if (second.stopped !== null) return yield* fail(second.stopped)
      const repaired = findAnswer(second.content, answer.compiled)
      if (Result.isSuccess(repaired)) return { answer: repaired.success, usage, calls, examples }
      return yield* fail(
        `The model's answer does not match the answer schema, even after one repair attempt: ${describe(repaired.failure, schema, key)}`
      )
    })
  })
})

/** Stands for the messages that ask for a repair, which quote an answer that is not valid: words of the model server are not recorded. */
const recordedRepair: ChatMessage = {
  role: "user",
  content: "[Asked to repair the answer, which did not match the answer schema.]"
}

/** Leaves out names that contain the API key, which the server knows. */
const withoutKey = (response: ModelResponse, key: Redacted.Redacted | undefined): ModelResponse => {
  if (key === undefined) return response
  const safe = (name: string | null) => (name?.includes(Redacted.value(key)) === true ? null : name)
  return { ...response, id: safe(response.id), model: safe(response.model) }
}

/** The result of a call. */
type CallResult =
  | { readonly _tag: "Completed"; readonly status: number; readonly completion: ParsedCompletion }
  /** A retry may succeed. */
  | {
      readonly _tag: "Retryable"
      readonly status: number | null
      readonly detail: string
      readonly retryAfter: string | undefined
    }
  | { readonly _tag: "Failed"; readonly status: number | null; readonly detail: string }

const classifyResponse = (response: EgressResponse): CallResult => {
  const { body, complete, retryAfter, status } = response
  if (status < 200 || status > 299) {
    const detail = describeStatus(status)
    return status === 408 || status === 429 || status >= 500
      ? { _tag: "Retryable", status, detail, retryAfter }
      : { _tag: "Failed", status, detail }
  }
  if (!complete) {
    return body.length >= MAX_RESPONSE_BYTES
      ? { _tag: "Failed", status, detail: "The model server's response is larger than 4 MiB." }
      : {
          _tag: "Retryable",
          status,
          detail: "The model server closed the connection before the response was complete.",
          retryAfter: undefined
        }
  }
  const completion = parseCompletion(body)
  return completion === undefined
    ? { _tag: "Failed", status, detail: "The model server's response is not a chat completion." }
    : { _tag: "Completed", status, completion }
}

const classifyFailure = ({ phrase, reason }: EgressFailed): CallResult => {
  const detail = `The model server did not respond: ${phrase}`
  return RETRYABLE.has(reason)
    ? { _tag: "Retryable", status: null, detail, retryAfter: undefined }
    : { _tag: "Failed", status: null, detail }
}

/** Describes an error status and its remedy. Never the server's own text, which may contain the key or the input. */
const describeStatus = (status: number): string => {
  switch (status) {
    case 401:
    case 403:
      return `The model server rejected the API key (${status}). Set a valid \`provider.api_key\` on the task.`
    case 404:
      return "The model server returned 404. Check `base_url` and `model`."
    case 400:
    case 422:
      return `The model server rejected the request (${status}). Check \`model\`, and whether it supports \`structured_output\` as configured.`
    case 429:
      return "The model server's rate limit was exceeded (429)."
    default:
      return `The model server returned ${status}.`
  }
}

/** Faults in a failure's text. */
const MAX_DESCRIBED_FAULTS = 3

/**
 * Describes faults without any text of the model server, which must not be stored or shown: a name that is not in the
 * schema is shown as `*`. The API key, which the server knows, is removed too.
 */
const describe = (
  faults: ReadonlyArray<SchemaFault>,
  schema: JsonSchema,
  key: Redacted.Redacted | undefined
): string => {
  const known = memberNames(schema)
  const described = faults.slice(0, MAX_DESCRIBED_FAULTS).map(({ detail, pointer }) => ({
    detail,
    pointer: [
      "#",
      ...(JsonPointer.parseUriFragment(pointer) ?? []).map((name) => maskForeign(name, known))
    ].join("/")
  }))
  return redactFaults(described, new KnownValues(key === undefined ? [] : [Redacted.value(key)]))
    .map(({ detail, pointer }) => `${pointer} ${detail}`)
    .join("; ")
}

const maskForeign = (name: string, known: ReadonlySet<string>): string => {
  if (/^\d{1,6}$/.test(name)) return name
  return known.has(name) ? JsonPointer.formatUriFragment([name]).slice(2) : "*"
}

/** The names of all members of a schema: keywords and the names of properties. Recurses: the depth of a body is limited. */
const memberNames = (schema: JsonSchema): ReadonlySet<string> => {
  const names = new Set<string>()
  const collect = (part: Schema.Json): void => {
    if (typeof part !== "object" || part === null) return
    if (!Array.isArray(part)) for (const name of Object.keys(part)) names.add(name)
    Object.values(part).forEach(collect)
  }
  collect(schema)
  return names
}
