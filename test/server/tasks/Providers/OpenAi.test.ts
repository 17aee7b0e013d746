import { assert, layer } from "@effect/vitest"
import { Array as Arr, DateTime, Effect, Fiber, Layer, Redacted, Result } from "effect"
import { IpNetwork } from "effect/net"
import { SqlClient } from "effect/sql"
import { OrgId, TaskId } from "../../../../src/domain/Ids.ts"
import {
  type NewProvider,
  type OpenAiProvider,
  withProviderDefaults
} from "../../../../src/domain/tasks/Provider.ts"
import { compileSchema } from "../../../../src/domain/tasks/CompiledSchema.ts"
import { ProviderEgress } from "../../../../src/server/egress/Egress.ts"
import {
  type ProviderCredentials,
  upsertProviderKey
} from "../../../../src/server/tasks/Providers/providerKeys.ts"
import { OpenAi } from "../../../../src/server/tasks/Providers/OpenAi.ts"
import { generateMasterKey, SecretBox } from "../../../../src/server/secrets/SecretBox.ts"
import { StoreClock } from "../../../../src/server/store/StoreClock.ts"
import { transaction } from "../../../../src/server/store/transaction.ts"
import { TestDatabase } from "../../../support/postgres.ts"
import { type ScriptedReply, startScriptedServer } from "../../../support/scripted.ts"
import type { JsonSchema } from "../../../../src/domain/tasks/Task.ts"
import { sortingTask } from "../../../support/tasks.ts"
import { answers, drip, ok, peer } from "../../egress/Egress/peers.ts"

const live = OpenAi.layer({ initialBackoff: "1 millis", maxBackoff: "1500 millis" }).pipe(
  Layer.provide(
    ProviderEgress.layer({
      dnsServers: [],
      allow: [{ network: IpNetwork.fromStringUnsafe("127.0.0.0/8"), port: undefined }],
      allowHttp: true,
      deny: [],
      ownHost: undefined
    })
  ),
  Layer.provide(StoreClock.layer),
  Layer.provideMerge(
    Layer.unwrap(Effect.map(generateMasterKey, (key) => SecretBox.layer({ masterKeys: Arr.of(key) })))
  ),
  Layer.provideMerge(TestDatabase.layerSql)
)

/** A chat completion with this content. */
const completion = (content: unknown, more: object = {}): ScriptedReply => ({
  status: 200,
  body: {
    id: "chatcmpl-1",
    object: "chat.completion",
    choices: [
      {
        index: 0,
        finish_reason: "stop",
        message: {
          role: "assistant",
          content: typeof content === "string" ? content : JSON.stringify(content)
        },
        ...more
      }
    ],
    usage: { prompt_tokens: 11, completion_tokens: 3, total_tokens: 14 }
  }
})

const provider = (url: string, more: object = {}): OpenAiProvider => {
  const input: NewProvider = { kind: "openai", base_url: `${url}/v1`, model: "small", ...more }
  const result = withProviderDefaults(input)
  if (result.kind !== "openai") throw new Error("the provider's kind has changed")
  return result
}

const compiled = Result.getOrThrow(compileSchema(sortingTask.answer_schema))

/** A schema that servers can enforce. */
const strictSchema = {
  type: "object",
  properties: { category: { enum: ["billing", "shipping", "other"] } },
  required: ["category"],
  additionalProperties: false
}

const ask = (provider: OpenAiProvider, task_id?: TaskId, schema: JsonSchema = sortingTask.answer_schema) =>
  Effect.gen(function* () {
    const openai = yield* OpenAi
    return yield* openai.answer({
      org_id: OrgId.make(`org_${"0".repeat(32)}`),
      task_id: task_id ?? (yield* TaskId.generate),
      provider,
      instructions: "Sort the message.",
      dataset_id: null,
      input: { text: "where is my parcel" },
      answer: { compiled, schema: Effect.succeed(schema) }
    })
  })

/** A new task with these credentials for a base URL. */
const keyedTask = Effect.fnUntraced(function* (base_url: string, credentials: ProviderCredentials) {
  const sql = yield* SqlClient.SqlClient
  const box = yield* SecretBox
  const task_id = yield* TaskId.generate
  const org_id = OrgId.make(`org_${"0".repeat(32)}`)
  yield* transaction(upsertProviderKey(sql, box, org_id, task_id, base_url, credentials, yield* DateTime.now))
  return task_id
})

layer(live, { excludeTestServices: true })("OpenAi", (it) => {
  it.effect(
    "the model gets the instructions, the input and the answer schema, and its answer is returned",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const box = yield* SecretBox
        const server = yield* startScriptedServer([completion({ category: "shipping" })])
        const task_id = yield* TaskId.generate
        const org_id = OrgId.make(`org_${"0".repeat(32)}`)
        const now = yield* DateTime.now
        yield* transaction(
          upsertProviderKey(
            sql,
            box,
            org_id,
            task_id,
            `${server.url}/v1`,
            { api_key: Redacted.make("sk-secret") },
            now
          )
        )
        const { answer, calls, usage } = yield* ask(provider(server.url, { temperature: 0 }), task_id)
        assert.deepStrictEqual(answer, { category: "shipping" })
        assert.deepStrictEqual(usage, { input_tokens: 11, output_tokens: 3 })
        assert.lengthOf(calls, 1)
        assert.deepInclude(calls[0], { http_status: 200, failure: null })
        const [request] = server.seen
        assert.strictEqual(request?.url, "/v1/chat/completions")
        assert.strictEqual(request?.headers.authorization, "Bearer sk-secret")
        const body = JSON.parse(request?.body ?? "")
        assert.deepInclude(body, { model: "small", stream: false, temperature: 0 })
        assert.match(body.messages[0].content, /^Sort the message\./)
        assert.deepStrictEqual(JSON.parse(body.messages[1].content), { text: "where is my parcel" })
        // Not strict, because `confidence` is optional, which strict mode does not allow.
        assert.deepStrictEqual(body.response_format, {
          type: "json_schema",
          json_schema: { name: "answer", schema: sortingTask.answer_schema, strict: false }
        })
      })
  )

  it.effect(
    "a call has its messages and what the response says of itself, in a known form and without the key",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const box = yield* SecretBox
        const reply = (more: object): ScriptedReply => ({
          status: 200,
          body: {
            choices: [
              { finish_reason: "stop", message: { role: "assistant", content: `{"category":"other"}` } }
            ],
            ...more
          }
        })
        const server = yield* startScriptedServer([
          reply({
            id: "chatcmpl-1",
            model: "small-2026",
            usage: {
              prompt_tokens: 11,
              completion_tokens: 3,
              prompt_tokens_details: { cached_tokens: 8 },
              completion_tokens_details: { reasoning_tokens: 2 }
            }
          }),
          reply({ id: "words of the server", model: "my-sk-secret", usage: { prompt_tokens: "many" } })
        ])
        const task_id = yield* TaskId.generate
        const org_id = OrgId.make(`org_${"0".repeat(32)}`)
        const key = { api_key: Redacted.make("sk-secret") }
        yield* transaction(
          upsertProviderKey(sql, box, org_id, task_id, `${server.url}/v1`, key, yield* DateTime.now)
        )
        const [first] = (yield* ask(provider(server.url), task_id)).calls
        assert.deepStrictEqual(first?.response, {
          id: "chatcmpl-1",
          model: "small-2026",
          finish_reason: "stop",
          input_tokens: 11,
          output_tokens: 3,
          cached_tokens: 8,
          cache_creation_tokens: null,
          reasoning_tokens: 2
        })
        assert.deepStrictEqual(first?.messages, JSON.parse(server.seen[0]?.body ?? "").messages)
        const [second] = (yield* ask(provider(server.url), task_id)).calls
        assert.deepInclude(second?.response, {
          id: null,
          model: null,
          input_tokens: null,
          output_tokens: null
        })
      })
  )

  it.effect("the schema is sent once, unless the server may not show it to the model", () =>
    Effect.gen(function* () {
      const sent = Effect.fnUntraced(function* (structured_output: string, schema: JsonSchema) {
        const server = yield* startScriptedServer([completion({ category: "other" })])
        yield* ask(provider(server.url, { structured_output }), undefined, schema)
        const body = JSON.parse(server.seen[0]?.body ?? "")
        const prompt: string = body.messages[0].content
        return { inPrompt: prompt.includes('"additionalProperties"'), format: body.response_format, prompt }
      })
      const once = yield* sent("json_schema", strictSchema)
      assert.strictEqual(once.format.json_schema.strict, true)
      assert.isFalse(once.inPrompt)
      assert.match(
        once.prompt,
        /Answer with one JSON object in the response format, and with nothing else\.$/
      )
      // Not strict: it only guides the model, if the server shows it at all.
      assert.isTrue((yield* sent("json_schema", sortingTask.answer_schema)).inPrompt)
      assert.isTrue((yield* sent("json_object", strictSchema)).inPrompt)
      assert.isTrue((yield* sent("none", strictSchema)).inPrompt)
    })
  )

  it.effect("lightly damaged JSON is read without another call, and the answer is marked", () =>
    Effect.gen(function* () {
      for (const content of ['{"category":"other",}', JSON.stringify('{"category":"other"}')]) {
        const server = yield* startScriptedServer([completion(content)])
        const { answer, calls, repaired } = yield* ask(provider(server.url))
        assert.deepStrictEqual([answer, repaired, calls.length], [{ category: "other" }, true, 1])
      }
      const server = yield* startScriptedServer([completion({ category: "other" })])
      assert.isFalse((yield* ask(provider(server.url))).repaired)
    })
  )

  it.effect("no key is sent if the task has none for the base URL", () =>
    Effect.gen(function* () {
      const server = yield* startScriptedServer([completion({ category: "other" })])
      yield* ask(provider(server.url, { structured_output: "none" }))
      assert.isUndefined(server.seen[0]?.headers.authorization)
      assert.notProperty(JSON.parse(server.seen[0]?.body ?? ""), "response_format")
    })
  )

  it.effect(
    "the model is asked once to repair an answer that does not match the schema, with its faults",
    () =>
      Effect.gen(function* () {
        const server = yield* startScriptedServer([
          completion({ category: "sales" }),
          completion({ category: "other" })
        ])
        const { answer, calls, usage } = yield* ask(provider(server.url))
        assert.deepStrictEqual(answer, { category: "other" })
        assert.lengthOf(calls, 2)
        assert.deepStrictEqual(usage, { input_tokens: 22, output_tokens: 6 })
        const { messages } = JSON.parse(server.seen[1]?.body ?? "")
        assert.deepStrictEqual(messages[2], { role: "assistant", content: '{"category":"sales"}' })
        assert.include(messages[3].content, "#/category")
      })
  )

  it.effect(
    "a repaired answer that does not match the schema either fails, and the failure names the fault",
    () =>
      Effect.gen(function* () {
        const server = yield* startScriptedServer([
          completion("It is shipping."),
          completion({ category: "sales" })
        ])
        const failed = yield* Effect.flip(ask(provider(server.url)))
        assert.include(failed.detail, "#/category")
        assert.lengthOf(server.seen, 2)
        assert.deepStrictEqual(failed.usage, { input_tokens: 22, output_tokens: 6 })
      })
  )

  it.effect("429 and 5xx are retried after the delay of Retry-After", () =>
    Effect.gen(function* () {
      const server = yield* startScriptedServer([
        { status: 429, headers: { "retry-after": "1" } },
        { status: 503 },
        completion({ category: "other" })
      ])
      const before = Date.now()
      const { calls } = yield* ask(provider(server.url))
      assert.isAtLeast(Date.now() - before, 1000)
      assert.deepStrictEqual(
        calls.map(({ http_status }) => http_status),
        [429, 503, 200]
      )
    })
  )

  it.effect("a Retry-After with a date delays the retry until then, or fails the run if it is too late", () =>
    Effect.gen(function* () {
      const date = new Date(Date.now() + 1_400)
      const server = yield* startScriptedServer([
        { status: 503, headers: { "retry-after": date.toUTCString() } },
        completion({ category: "other" })
      ])
      yield* ask(provider(server.url))
      assert.isAtLeast(Date.now(), Math.floor(date.getTime() / 1_000) * 1_000)
      const tomorrow = new Date(Date.now() + 86_400_000).toUTCString()
      const busy = yield* startScriptedServer([{ status: 429, headers: { "retry-after": tomorrow } }])
      yield* Effect.flip(ask(provider(busy.url)))
      assert.lengthOf(busy.seen, 1)
    })
  )

  it.effect("a run fails after three calls, and immediately if Retry-After exceeds the longest backoff", () =>
    Effect.gen(function* () {
      const broken = yield* startScriptedServer([{ status: 500 }])
      const failed = yield* Effect.flip(ask(provider(broken.url)))
      assert.strictEqual(failed.detail, "The model server returned 500.")
      assert.lengthOf(broken.seen, 3)
      const busy = yield* startScriptedServer([{ status: 429, headers: { "retry-after": "3600" } }])
      const refused = yield* Effect.flip(ask(provider(busy.url)))
      assert.strictEqual(refused.detail, "The model server's rate limit was exceeded (429).")
      assert.lengthOf(busy.seen, 1)
    })
  )

  it.effect(
    "4xx responses and redirects are not retried, and the failure contains no text of the server",
    () =>
      Effect.gen(function* () {
        for (const status of [400, 401, 403, 404, 422, 301]) {
          const server = yield* startScriptedServer([
            {
              status,
              headers: { location: "http://127.0.0.1:1/" },
              body: { error: "your key sk-secret is wrong" }
            }
          ])
          const failed = yield* Effect.flip(ask(provider(server.url)))
          assert.include(failed.detail, String(status))
          assert.notInclude(failed.detail, "sk-secret")
          assert.lengthOf(server.seen, 1, String(status))
        }
      })
  )

  it.effect(
    "a server that does not respond, or responds too slowly, fails within the provider's timeout",
    () =>
      Effect.gen(function* () {
        const silent = yield* startScriptedServer(["never"])
        const failed = yield* Effect.flip(ask(provider(silent.url, { timeout_seconds: 1 })))
        assert.match(failed.detail, /timed out/)
        const slow = yield* peer(
          drip("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "1\r\n \r\n", 50)
        )
        yield* Effect.flip(ask(provider(`http://127.0.0.1:${slow.port}`, { timeout_seconds: 1 })))
        assert.strictEqual(slow.connections(), 1)
      })
  )

  it.effect("a streamed response fails, because the request asks for none", () =>
    Effect.gen(function* () {
      const chunk = JSON.stringify({ choices: [{ delta: { content: '{"category":"other"}' } }] })
      const events = `data: ${chunk}\n\ndata: [DONE]\n\n`
      const server = yield* peer(answers(ok(events, ["content-type: text/event-stream"])))
      const failed = yield* Effect.flip(ask(provider(`http://127.0.0.1:${server.port}`)))
      assert.strictEqual(failed.detail, "The model server's response is not a chat completion.")
    })
  )

  it.effect("a failure does not reveal the key, even if the answer has a field named like the key", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const box = yield* SecretBox
      const key = "Aunt-Agatha-keeps-bees-in-the-attic"
      const contents = [{ category: "other", [key]: 1 }, `{"${key}":1,"${key}":2}`]
      for (const content of contents) {
        const server = yield* startScriptedServer([completion(content)])
        const task_id = yield* TaskId.generate
        const org_id = OrgId.make(`org_${"0".repeat(32)}`)
        const now = yield* DateTime.now
        yield* transaction(
          upsertProviderKey(
            sql,
            box,
            org_id,
            task_id,
            `${server.url}/v1`,
            { api_key: Redacted.make(key) },
            now
          )
        )
        const failed = yield* Effect.flip(ask(provider(server.url), task_id))
        assert.include(failed.detail, "#/* ")
        assert.notInclude(JSON.stringify(failed), key)
      }
    })
  )

  it.effect(
    "sampling parameters are sent if they are set, and the token limit by the name that the model knows",
    () =>
      Effect.gen(function* () {
        const server = yield* startScriptedServer([completion({ category: "other" })])
        const bodyOf = Effect.fnUntraced(function* (settings: object) {
          yield* ask(provider(server.url, settings))
          const { messages: _, response_format: __, ...body } = JSON.parse(server.seen.at(-1)?.body ?? "")
          return body
        })
        assert.deepStrictEqual(yield* bodyOf({}), { model: "small", stream: false })
        const set = { top_p: 0.5, seed: 7, max_tokens: 300 }
        assert.deepStrictEqual(yield* bodyOf(set), { model: "small", stream: false, ...set })
        assert.deepStrictEqual(yield* bodyOf({ max_tokens: 300, reasoning_effort: "low" }), {
          model: "small",
          stream: false,
          reasoning_effort: "low",
          max_completion_tokens: 300
        })
        const mini = yield* bodyOf({ model: "gpt-5-mini", max_tokens: 300 })
        assert.strictEqual(mini.max_completion_tokens, 300)
        assert.strictEqual(mini.max_tokens, undefined)
      })
  )

  it.effect("an answer in a fenced block, after reasoning, within a sentence or in parts is accepted", () =>
    Effect.gen(function* () {
      const contents = [
        '```json\n{"category":"other"}\n```',
        '<think>{"category":"billing"}? No, it is {no JSON}.</think>\n\n{"category":"other"}',
        'The answer is {"category": "other"}, because nothing else fits {see above}.',
        [
          { type: "text", text: '{"category":' },
          { type: "text", text: '"other"}' }
        ]
      ]
      for (const content of contents) {
        const reply = { choices: [{ finish_reason: "stop", message: { role: "assistant", content } }] }
        const server = yield* startScriptedServer([{ status: 200, body: reply }])
        const { answer } = yield* ask(provider(server.url))
        assert.deepStrictEqual(answer, { category: "other" })
        assert.lengthOf(server.seen, 1)
      }
    })
  )

  it.effect("odd token counts do not lose an answer, and missing ones are null, not 0", () =>
    Effect.gen(function* () {
      const odd: ReadonlyArray<readonly [unknown, number | null, number | null]> = [
        [{ prompt_tokens: 10.5, completion_tokens: -1 }, 11, null],
        [{ prompt_tokens: "7", completion_tokens: 1e300 }, null, 2_147_483_647],
        [{ prompt_tokens: null, completion_tokens: 0 }, null, 0],
        [7, null, null],
        [null, null, null]
      ]
      for (const [usage, input_tokens, output_tokens] of odd) {
        const body = { choices: [{ message: { content: '{"category":"other"}' } }], usage }
        const server = yield* startScriptedServer([{ status: 200, body }])
        const answered = yield* ask(provider(server.url))
        assert.deepStrictEqual(answered.usage, { input_tokens, output_tokens })
      }
    })
  )

  it.effect("a deployment of Azure OpenAI gets its version in the URL and its key in `api-key`", () =>
    Effect.gen(function* () {
      const server = yield* startScriptedServer([completion({ category: "other" })])
      const base_url = `${server.url}/openai/deployments/small`
      const task_id = yield* keyedTask(base_url, { api_key: Redacted.make("azure-secret") })
      yield* ask(provider(server.url, { base_url, azure_api_version: "2024-10-21" }), task_id)
      const [request] = server.seen
      assert.strictEqual(request?.url, "/openai/deployments/small/chat/completions?api-version=2024-10-21")
      assert.strictEqual(request?.headers["api-key"], "azure-secret")
      assert.isUndefined(request?.headers.authorization)
    })
  )

  it.effect("extra headers are sent, but never in place of the service's own", () =>
    Effect.gen(function* () {
      const server = yield* startScriptedServer([completion({ category: "other" })])
      const task_id = yield* keyedTask(`${server.url}/v1`, {
        headers: { "X-Title": Redacted.make("our app"), Accept: Redacted.make("text/html") }
      })
      yield* ask(provider(server.url), task_id)
      const { accept, authorization, "user-agent": agent, "x-title": title } = server.seen[0]?.headers ?? {}
      assert.deepStrictEqual([title, accept, authorization], ["our app", "application/json", undefined])
      assert.match(String(agent), /^Countersign\//)
    })
  )

  it.effect("an error that OpenRouter reports with the status 200 is treated like that of its code", () =>
    Effect.gen(function* () {
      const error = (code: unknown) => ({ status: 200, body: { error: { code, message: "sk-secret" } } })
      const failing = {
        finish_reason: "error",
        error: { code: 502 },
        message: { role: "assistant", content: "" }
      }
      const recovering = yield* startScriptedServer([
        error(429),
        {
          status: 200,
          body: { choices: [failing], usage: { prompt_tokens: 5, completion_tokens: 0, cost: 0.1 } }
        },
        completion({ category: "other" })
      ])
      const { calls, usage } = yield* ask(provider(recovering.url))
      assert.deepStrictEqual(
        calls.map(({ reason }) => reason),
        ["rate_limited", "server_error", null]
      )
      assert.deepStrictEqual(usage, { input_tokens: 16, output_tokens: 3 })
      for (const [code, reason] of [
        [402, "payment_required"],
        [401, "unauthorized"],
        [400, "bad_request"]
      ]) {
        const server = yield* startScriptedServer([error(code)])
        const failed = yield* Effect.flip(ask(provider(server.url)))
        assert.strictEqual(failed.reason, reason)
        assert.notInclude(failed.detail, "sk-secret")
        assert.lengthOf(server.seen, 1)
      }
    })
  )

  it.effect("failures name their kind", () =>
    Effect.gen(function* () {
      const kinds: ReadonlyArray<readonly [ScriptedReply, string]> = [
        [{ status: 401 }, "unauthorized"],
        [{ status: 402 }, "payment_required"],
        [{ status: 404 }, "not_found"],
        [{ status: 422 }, "bad_request"],
        [{ status: 429 }, "rate_limited"],
        [{ status: 500 }, "server_error"],
        [{ status: 200, body: 42 }, "invalid_response"],
        ["hang up", "unreachable"],
        ["never", "timeout"],
        [completion("{}", { finish_reason: "content_filter" }), "refused"],
        [completion("{", { finish_reason: "length" }), "truncated"],
        [completion("no"), "invalid_answer"]
      ]
      for (const [reply, reason] of kinds) {
        const server = yield* startScriptedServer([reply])
        const failed = yield* Effect.flip(ask(provider(server.url, { timeout_seconds: 1 })))
        assert.strictEqual(failed.reason, reason)
        if (reason !== "invalid_answer" && !["refused", "truncated"].includes(reason)) {
          assert.strictEqual(failed.calls.at(-1)?.reason, reason)
          assert.deepStrictEqual(failed.usage, { input_tokens: null, output_tokens: null }, reason)
        }
      }
    })
  )

  it.effect("malformed responses and answers fail with a detail of this service", () =>
    Effect.gen(function* () {
      const malformed: Record<string, ScriptedReply> = {
        "no choices": { status: 200, body: { choices: [] } },
        "not an object": { status: 200, body: 42 },
        "no body": { status: 200 },
        "a refusal": {
          status: 200,
          body: { choices: [{ message: { content: null, refusal: "I must not" } }] }
        },
        "truncated answer": completion('{"category": "shi', { finish_reason: "length" })
      }
      for (const [kind, answer] of Object.entries(malformed)) {
        const server = yield* startScriptedServer([answer])
        const failed = yield* Effect.flip(ask(provider(server.url)))
        assert.match(failed.detail, /^The model/, kind)
        assert.lengthOf(server.seen, 1, kind)
      }
      for (const content of [
        '{"category":"other","category":"billing"}',
        '{"a":"\\u0000"}',
        '{"a":"\\ud800"}',
        "[]",
        ""
      ]) {
        const server = yield* startScriptedServer([completion(content)])
        const failed = yield* Effect.flip(ask(provider(server.url)))
        assert.match(failed.detail, /^The model's answer does not match the answer schema/, content)
      }
    })
  )

  it.effect("a response of too many values, names or parts is refused before it is read", () =>
    Effect.gen(function* () {
      const parts = (count: number) => JSON.stringify(Array.from({ length: count }, () => ({ text: "a" })))
      const names = Array.from({ length: 20_001 }, (_, n) => `"${n}":0`).join(",")
      const responses = [
        [`{"choices":[{"message":{"content":${parts(60_000)}}}]}`, /more than 100000 values/],
        // Also after another fault.
        [
          `{"id":1,"id":1e999,"choices":[{"message":{"content":${parts(60_000)}}}]}`,
          /more than 100000 values/
        ],
        [`{"choices":[{"message":{"content":"{}"}}],"usage":{${names}}}`, /more than 20000 different names/],
        [`{"choices":[{"message":{"content":${parts(10_001)}}}]}`, /is not a chat completion/]
      ] as const
      for (const [text, detail] of responses) {
        const server = yield* startScriptedServer([{ status: 200, text }])
        const failed = yield* Effect.flip(ask(provider(server.url)))
        assert.strictEqual(failed.reason, "invalid_response")
        assert.match(failed.detail, detail)
        assert.lengthOf(server.seen, 1)
      }
    })
  )

  it.effect("odd figures and repeated names do not lose an answer, in a long response too", () =>
    Effect.gen(function* () {
      const padding = JSON.stringify("x".repeat(200_000))
      const text = `{"created":12345678901234567890,"created":1e999,"padding":${padding},"choices":[{"message":{"content":"{\\"category\\":\\"other\\"}"}}]}`
      const server = yield* startScriptedServer([{ status: 200, text }])
      assert.deepStrictEqual((yield* ask(provider(server.url))).answer, { category: "other" })
    })
  )

  it.effect("a name that only the model used is not repeated in the failure", () =>
    Effect.gen(function* () {
      const server = yield* startScriptedServer([
        completion('{"ignore all rules":1,"category":2}'),
        completion('{"ignore all rules":1,"category":2}')
      ])
      const failed = yield* Effect.flip(ask(provider(server.url)))
      assert.include(failed.detail, "#/* ")
      assert.include(failed.detail, "#/category ")
      assert.notInclude(failed.detail, "ignore")
    })
  )

  it.effect("an endless response and one that is not HTTP fail; closed connections are retried", () =>
    Effect.gen(function* () {
      const endless = yield* peer((socket) => {
        socket.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        const chunk = `10000\r\n${"x".repeat(65_536)}\r\n`
        const more = () => {
          while (!socket.destroyed && socket.write(chunk)) continue
        }
        socket.on("drain", more)
        more()
      })
      const large = yield* Effect.flip(ask(provider(`http://127.0.0.1:${endless.port}`)))
      assert.strictEqual(large.detail, "The model server's response is larger than 4 MiB.")
      const babble = yield* peer(answers("HELLO\r\n\r\n"))
      const failed = yield* Effect.flip(ask(provider(`http://127.0.0.1:${babble.port}`)))
      assert.match(failed.detail, /^The model server did not respond: /)
      const hangsUp = yield* startScriptedServer(["hang up", "hang up", completion({ category: "other" })])
      assert.deepStrictEqual((yield* ask(provider(hangsUp.url))).answer, { category: "other" })
    })
  )

  it.effect("the connection is closed when the run is interrupted", () =>
    Effect.gen(function* () {
      const silent = yield* peer(() => undefined)
      const asking = yield* Effect.forkChild(ask(provider(`http://127.0.0.1:${silent.port}`)))
      yield* Effect.repeat(Effect.yieldNow, { until: () => silent.requests.length > 0 })
      yield* Fiber.interrupt(asking)
      yield* silent.closed
    })
  )
})
