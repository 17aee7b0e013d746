import { Clock, Context, Duration, Effect, Layer, Option, Random, Redacted, Result } from "effect"
import { SqlClient } from "effect/sql"
import type { JsonObject } from "../../../domain/tasks/Dataset.ts"
import { addUsage, noUsage, type OpenAiProvider, type Usage } from "../../../domain/tasks/Provider.ts"
import { KnownValues } from "../../../domain/redaction/Redaction.ts"
import { redactFaults } from "../../../domain/redaction/Redaction/redactFaults.ts"
import { retryAfterMillis } from "../../egress/retryAfterMillis.ts"
import type { CompiledSchema, SchemaFault } from "../../../domain/tasks/CompiledSchema.ts"
import { ProviderEgress } from "../../egress/Egress.ts"
import type { EgressResponse } from "../../egress/Egress/Exchange.ts"
import type { EgressFailed, EgressReason } from "../../egress/Egress/EgressFailed.ts"
import { monotonicNow } from "../../concurrency/monotonicMillis.ts"
import { SecretBox } from "../../secrets/SecretBox.ts"
import { StoreClock } from "../../store/StoreClock.ts"
import {
  chatBody,
  type ChatMessage,
  type ParsedCompletion,
  initialMessages,
  parseAnswer,
  parseCompletion,
  repairMessages
} from "./chatCompletion.ts"
import { findProviderKey } from "./providerKeys.ts"
import { NoAnswer, type ProviderAnswer, type ProviderCall, type ProviderRequest } from "./ProviderRequest.ts"

/** How a server that is busy or broken is asked again. */
export interface OpenAiOptions {
  /** Calls for one turn of the conversation, the first included. Default 3. */
  readonly attempts?: number
  /** Before the second call; each further wait is twice as long, and each is stretched by up to half. Default 500 ms. */
  readonly firstWait?: Duration.Input
  /** The longest wait that a server may ask for by `Retry-After`; one that asks for more is not waited for. Default 20 s. */
  readonly longestWait?: Duration.Input
}

/** The most of an answer that is read. */
const MAX_ANSWER_BYTES = 4 * 2 ** 20

/** Failures without an answer that may pass by themselves. */
const PASSING: ReadonlySet<EgressReason> = new Set([
  "LookupFailed",
  "ConnectionRefused",
  "Unreachable",
  "ConnectTimedOut",
  "ConnectionClosed"
])

/** Asks servers that speak OpenAI's chat completions, under the rule for outgoing URLs that providers have. */
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
  const firstWait = Duration.fromInputUnsafe(options.firstWait ?? "500 millis")
  const longestWait = Duration.fromInputUnsafe(options.longestWait ?? "20 seconds")

  return OpenAi.of({
    answer: Effect.fn("OpenAi.answer")(function* ({
      answer,
      input,
      instructions,
      onCall,
      org_id,
      provider,
      task_id
    }) {
      const key = yield* findProviderKey(sql, box, org_id, task_id, provider.base_url)
      const schema = yield* answer.schema
      const began = yield* monotonicNow
      const until = began + provider.timeout_seconds * 1000
      const calls: Array<ProviderCall> = []
      let usage: Usage = noUsage

      const fail = (detail: string) => new NoAnswer({ detail, usage, calls })

      /** One call, noted whatever comes of it. */
      const call = Effect.fnUntraced(function* (messages: ReadonlyArray<ChatMessage>) {
        const started_at = yield* storeClock.now
        const start = yield* monotonicNow
        const note = (http_status: number | null, failure: string | null, used: Usage) =>
          Effect.map(monotonicNow, (end) => {
            usage = addUsage(usage, used)
            const done = {
              started_at,
              duration_ms: Math.round(end - start),
              usage: used,
              http_status,
              failure
            }
            calls.push(done)
            onCall?.(done)
          })
        return yield* egress
          .send({
            pool: task_id,
            url: `${provider.base_url}/chat/completions`,
            method: "POST",
            headers: {
              "content-type": "application/json",
              accept: "application/json",
              ...(Option.isSome(key) ? { authorization: `Bearer ${Redacted.value(key.value)}` } : {})
            },
            body: Buffer.from(chatBody(provider, messages, schema)),
            timeout: Duration.millis(Math.max(1, until - start)),
            maxResponseBytes: MAX_ANSWER_BYTES
          })
          .pipe(
            Effect.map(judge),
            Effect.catchTag("EgressFailed", (failed) => Effect.succeed(unanswered(failed))),
            Effect.tap((verdict) =>
              note(
                verdict.status,
                verdict._tag === "Completed" ? null : verdict.detail,
                verdict._tag === "Completed" ? verdict.completed.usage : noUsage
              )
            ),
            Effect.onInterrupt(() => note(null, "Nobody waited for the answer any more", noUsage))
          )
      })

      /** One turn of the conversation: calls until one is answered, or it is of no use to go on. */
      const turn = Effect.fnUntraced(function* (messages: ReadonlyArray<ChatMessage>) {
        let wait = Duration.toMillis(firstWait)
        for (let attempt = 1; ; attempt++) {
          const verdict = yield* call(messages)
          if (verdict._tag === "Completed") return verdict.completed
          if (verdict._tag === "Final" || attempt >= attempts) return yield* fail(verdict.detail)
          const asked =
            verdict.retryAfter === undefined
              ? null
              : // A date, if it is one, is on the wall.
                retryAfterMillis(verdict.retryAfter, yield* Clock.currentTimeMillis)
          const pause = Math.round(Math.max(asked ?? 0, wait * (1 + 0.5 * (yield* Random.next))))
          // Not worth waiting for: the caller would hear of it only later.
          if (pause > Duration.toMillis(longestWait) || (yield* monotonicNow) + pause >= until)
            return yield* fail(verdict.detail)
          yield* Effect.sleep(Duration.millis(pause))
          wait *= 2
        }
      })

      const conversation = initialMessages(instructions, input, schema)
      const first = yield* turn(conversation)
      if (first.stopped !== null) return yield* fail(first.stopped)
      const answered = fitting(first, answer.shape)
      if (Result.isSuccess(answered)) return { answer: answered.success, usage, calls }
      const second = yield* turn([...conversation, ...repairMessages(first.content, answered.failure)])
      if (second.stopped !== null) return yield* fail(second.stopped)
      const repaired = fitting(second, answer.shape)
      if (Result.isSuccess(repaired)) return { answer: repaired.success, usage, calls }
      return yield* fail(
        `The model's answer does not fit the answer shape, also after it was asked to repair it: ${describe(repaired.failure, key)}`
      )
    })
  })
})

/** What came of a call. */
type Verdict =
  | { readonly _tag: "Completed"; readonly status: number; readonly completed: ParsedCompletion }
  /** Another call may do better. */
  | {
      readonly _tag: "Passing"
      readonly status: number | null
      readonly detail: string
      readonly retryAfter: string | undefined
    }
  | { readonly _tag: "Final"; readonly status: number | null; readonly detail: string }

const judge = (answer: EgressResponse): Verdict => {
  const { body, complete, retryAfter, status } = answer
  if (status < 200 || status > 299) {
    const detail = refusal(status)
    return status === 408 || status === 429 || status >= 500
      ? { _tag: "Passing", status, detail, retryAfter }
      : { _tag: "Final", status, detail }
  }
  if (!complete) {
    return body.length >= MAX_ANSWER_BYTES
      ? { _tag: "Final", status, detail: "The model server's answer is larger than 4 MiB" }
      : { _tag: "Passing", status, detail: "The model server's answer broke off", retryAfter: undefined }
  }
  const completed = parseCompletion(body)
  return completed === undefined
    ? { _tag: "Final", status, detail: "The model server's answer is no chat completion" }
    : { _tag: "Completed", status, completed }
}

const unanswered = ({ phrase, reason }: EgressFailed): Verdict => {
  const detail = `The model server did not answer: ${phrase}`
  return PASSING.has(reason)
    ? { _tag: "Passing", status: null, detail, retryAfter: undefined }
    : { _tag: "Final", status: null, detail }
}

/** What a status says, in our words, and what to do about it. */
const refusal = (status: number): string => {
  switch (status) {
    case 401:
    case 403:
      return `The model server refused the key (${status}): give the task another with \`provider.api_key\``
    case 404:
      return "The model server answered 404: check `base_url` and `model`"
    case 400:
    case 422:
      return `The model server refused the request (${status}): it may not know the model, or \`structured_output\` as it is set`
    case 429:
      return "The model server is busy (429)"
    default:
      return `The model server answered ${status}`
  }
}

/** The answer in a completion, if it fits the shape; else what is wrong with it. */
const fitting = (
  { content }: ParsedCompletion,
  shape: CompiledSchema
): Result.Result<JsonObject, ReadonlyArray<SchemaFault>> =>
  Result.flatMap(
    Result.mapError(parseAnswer(content), (fault) => [fault]),
    (answer) => {
      const faults = shape.check(answer)
      return faults.length === 0 ? Result.succeed(answer) : Result.fail(faults)
    }
  )

/** The places that a failure names. */
const MAX_NAMED = 3

/** Where an answer does not fit. Its fields are named by the server, which knows the key. */
const describe = (faults: ReadonlyArray<SchemaFault>, key: Option.Option<Redacted.Redacted>): string =>
  redactFaults(faults.slice(0, MAX_NAMED), new KnownValues(Option.toArray(Option.map(key, Redacted.value))))
    .map(({ detail, pointer }) => `${pointer} ${detail}`)
    .join("; ")
