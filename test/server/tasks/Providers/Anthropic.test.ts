import { assert, layer } from "@effect/vitest"
import { Array as Arr, DateTime, Effect, Layer, Redacted, Result } from "effect"
import { IpNetwork } from "effect/net"
import { SqlClient } from "effect/sql"
import { OrgId, TaskId } from "../../../../src/domain/Ids.ts"
import { compileSchema } from "../../../../src/domain/tasks/CompiledSchema.ts"
import {
  type AnthropicProvider,
  type NewAnthropicProvider,
  withProviderDefaults
} from "../../../../src/domain/tasks/Provider.ts"
import type { JsonSchema } from "../../../../src/domain/tasks/Task.ts"
import { ProviderEgress } from "../../../../src/server/egress/Egress.ts"
import { generateMasterKey, SecretBox } from "../../../../src/server/secrets/SecretBox.ts"
import { StoreClock } from "../../../../src/server/store/StoreClock.ts"
import { Anthropic } from "../../../../src/server/tasks/Providers/Anthropic.ts"
import { messagesRequest } from "../../../../src/server/tasks/Providers/messagesRequest.ts"
import { upsertProviderKey } from "../../../../src/server/tasks/Providers/providerKeys.ts"
import { transaction } from "../../../../src/server/store/transaction.ts"
import { TestDatabase } from "../../../support/postgres.ts"
import { type ScriptedReply, startScriptedServer } from "../../../support/scripted.ts"
import { sortingTask } from "../../../support/tasks.ts"

const live = Anthropic.layer({ initialBackoff: "1 millis", maxBackoff: "1500 millis" }).pipe(
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

const org_id = OrgId.make(`org_${"0".repeat(32)}`)

/** A message with this content. */
const message = (content: ReadonlyArray<object>, more: object = {}): ScriptedReply => ({
  status: 200,
  body: {
    id: "msg_1",
    type: "message",
    role: "assistant",
    content,
    stop_reason: "end_turn",
    usage: { input_tokens: 11, output_tokens: 3 },
    ...more
  }
})

/** A message that calls the tool. */
const answered = (input: unknown, more: object = {}) =>
  message([{ type: "tool_use", id: "toolu_1", name: "answer", input }], { stop_reason: "tool_use", ...more })

const says = (text: string, more: object = {}) => message([{ type: "text", text }], more)

const provider = (url: string, settings: Partial<NewAnthropicProvider> = {}): AnthropicProvider => {
  const result = withProviderDefaults({
    kind: "anthropic",
    base_url: `${url}/v1`,
    model: "small",
    timeout_seconds: 5,
    ...settings
  })
  if (result.kind !== "anthropic") throw new Error("the provider's kind has changed")
  return result
}

const ask = Effect.fnUntraced(function* (
  provider: AnthropicProvider,
  { schema = sortingTask.answer_schema, task_id }: { schema?: JsonSchema; task_id?: TaskId } = {}
) {
  const anthropic = yield* Anthropic
  return yield* anthropic.answer({
    org_id,
    task_id: task_id ?? (yield* TaskId.generate),
    provider,
    instructions: "Sort the message.",
    dataset_id: null,
    input: { text: "where is my parcel" },
    answer: { compiled: Result.getOrThrow(compileSchema(schema)), schema: Effect.succeed(schema) }
  })
})

layer(live, { excludeTestServices: true })("Anthropic", (it) => {
  it.effect("the model is forced to answer by a tool whose input has the answer schema", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const box = yield* SecretBox
      const server = yield* startScriptedServer([answered({ category: "shipping" })])
      const task_id = yield* TaskId.generate
      yield* transaction(
        upsertProviderKey(
          sql,
          box,
          org_id,
          task_id,
          `${server.url}/v1`,
          {
            api_key: Redacted.make("sk-ant-secret"),
            headers: { "anthropic-beta": Redacted.make("one-2026-01-01") }
          },
          yield* DateTime.now
        )
      )
      const { answer, usage } = yield* ask(provider(server.url, { temperature: 0 }), { task_id })
      assert.deepStrictEqual(answer, { category: "shipping" })
      assert.deepStrictEqual(usage, { input_tokens: 11, output_tokens: 3 })
      const [request] = server.seen
      assert.strictEqual(request?.url, "/v1/messages")
      assert.deepInclude(request?.headers, {
        "x-api-key": "sk-ant-secret",
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "one-2026-01-01"
      })
      assert.isUndefined(request?.headers.authorization)
      const { system, ...body } = JSON.parse(request?.body ?? "")
      assert.match(system, /^Sort the message\./)
      assert.deepStrictEqual(body, {
        model: "small",
        max_tokens: 4_096,
        temperature: 0,
        messages: [{ role: "user", content: [{ type: "text", text: '{"text":"where is my parcel"}' }] }],
        tools: [
          {
            name: "answer",
            description: "Gives the answer to the user's last input.",
            input_schema: sortingTask.answer_schema
          }
        ],
        tool_choice: { type: "tool", name: "answer", disable_parallel_tool_use: true }
      })
    })
  )

  it.effect("examples are earlier calls of the tool, the nearest last, each followed by its result", () =>
    Effect.sync(() => {
      const example = (text: string) => ({ input: { text }, answer: { category: text } })
      const { body } = messagesRequest(
        provider("http://127.0.0.1"),
        {
          instructions: "",
          examples: [example("near"), example("far")],
          input: { text: "new" },
          schema: sortingTask.answer_schema
        },
        undefined
      )
      const call = (id: string, category: string) => ({
        role: "assistant",
        content: [{ type: "tool_use", id, name: "answer", input: { category } }]
      })
      const ask = (text: string, ...before: ReadonlyArray<object>) => ({
        role: "user",
        content: [...before, { type: "text", text: JSON.stringify({ text }) }]
      })
      const result = (tool_use_id: string) => ({ type: "tool_result", tool_use_id, content: "Right." })
      assert.deepStrictEqual(JSON.parse(body).messages, [
        ask("far"),
        call("toolu_1", "far"),
        ask("near", result("toolu_1")),
        call("toolu_3", "near"),
        ask("new", result("toolu_3"))
      ])
    })
  )

  it.effect("an answer that does not match is sent back as the tool's error, once", () =>
    Effect.gen(function* () {
      const server = yield* startScriptedServer([
        answered({ category: "sales" }),
        answered({ category: "other" })
      ])
      const { answer, usage } = yield* ask(provider(server.url))
      assert.deepStrictEqual(answer, { category: "other" })
      assert.deepStrictEqual(usage, { input_tokens: 22, output_tokens: 6 })
      const [, call, result] = JSON.parse(server.seen[1]?.body ?? "").messages
      assert.deepInclude(call.content[0], { type: "tool_use", name: "answer", input: { category: "sales" } })
      assert.deepInclude(result.content[0], {
        type: "tool_result",
        tool_use_id: call.content[0].id,
        is_error: true
      })
      assert.include(result.content[0].content, "#/category")
    })
  )

  it.effect(
    "a schema that cannot be a tool's is sent in the prompt, and the answer is read from the text",
    () =>
      Effect.gen(function* () {
        const wide = {
          type: "object",
          properties: { "a field": { type: "string" } },
          required: ["a field"]
        } satisfies JsonSchema
        const either = {
          type: "object",
          anyOf: [{ required: ["category"] }, { required: ["note"] }]
        } satisfies JsonSchema
        for (const [schema, answer] of [
          [wide, { "a field": "x" }],
          [either, { category: "x" }]
        ] as const) {
          const server = yield* startScriptedServer([
            says("", {}),
            says(`Here it is:\n\n\`\`\`json\n${JSON.stringify(answer)}\n\`\`\``)
          ])
          const got = yield* ask(provider(server.url), { schema })
          assert.deepStrictEqual(got.answer, answer)
          const body = JSON.parse(server.seen[1]?.body ?? "")
          assert.include(body.system, JSON.stringify(schema))
          assert.notProperty(body, "tools")
          // The API rejects an empty text.
          assert.deepStrictEqual(body.messages[1].content, [{ type: "text", text: "{}" }])
        }
        const plain = yield* startScriptedServer([says('{"category":"other"}')])
        yield* ask(provider(plain.url, { structured_output: "none" }))
        assert.notProperty(JSON.parse(plain.seen[0]?.body ?? ""), "tools")
      })
  )

  it.effect("an answer that is truncated or refused fails, and says why", () =>
    Effect.gen(function* () {
      for (const [stop_reason, reason] of [
        ["max_tokens", "truncated"],
        ["refusal", "refused"]
      ]) {
        const server = yield* startScriptedServer([answered({}, { stop_reason })])
        const failed = yield* Effect.flip(ask(provider(server.url)))
        assert.strictEqual(failed.reason, reason)
        assert.deepStrictEqual(failed.usage, { input_tokens: 11, output_tokens: 3 })
        assert.lengthOf(server.seen, 1)
      }
    })
  )

  it.effect("429 and 529 are retried after the delay of Retry-After, and 400 is not retried", () =>
    Effect.gen(function* () {
      const error = (type: string) => ({ type: "error", error: { type, message: "sk-ant-secret" } })
      const server = yield* startScriptedServer([
        { status: 429, headers: { "retry-after": "1" }, body: error("rate_limit_error") },
        { status: 529, body: error("overloaded_error") },
        answered({ category: "other" })
      ])
      const { calls } = yield* ask(provider(server.url))
      assert.deepStrictEqual(
        calls.map(({ reason }) => reason),
        ["rate_limited", "server_error", null]
      )
      const refused = yield* startScriptedServer([{ status: 400, body: error("invalid_request_error") }])
      const failed = yield* Effect.flip(ask(provider(refused.url)))
      assert.strictEqual(failed.reason, "bad_request")
      assert.notInclude(failed.detail, "sk-ant-secret")
      assert.lengthOf(refused.seen, 1)
      // A gateway may send an error with the status 200.
      const gateway = yield* startScriptedServer([{ status: 200, body: error("authentication_error") }])
      assert.strictEqual((yield* Effect.flip(ask(provider(gateway.url)))).reason, "unauthorized")
    })
  )

  it.effect("cached input counts as input, and missing counts are null", () =>
    Effect.gen(function* () {
      const usages: ReadonlyArray<readonly [unknown, number | null, number | null]> = [
        [
          {
            input_tokens: 4,
            cache_creation_input_tokens: 10,
            cache_read_input_tokens: 100,
            output_tokens: 2
          },
          114,
          2
        ],
        [{ output_tokens: 2 }, null, 2],
        [null, null, null]
      ]
      for (const [usage, input_tokens, output_tokens] of usages) {
        const server = yield* startScriptedServer([answered({ category: "other" }, { usage })])
        assert.deepStrictEqual((yield* ask(provider(server.url))).usage, { input_tokens, output_tokens })
      }
    })
  )

  it.effect("a number that JavaScript cannot hold is sent back for repair, not rounded", () =>
    Effect.gen(function* () {
      const schema = {
        type: "object",
        properties: { id: { type: "integer" } },
        required: ["id"]
      } satisfies JsonSchema
      const server = yield* startScriptedServer([
        {
          status: 200,
          text: '{"type":"message","content":[{"type":"tool_use","id":"a","name":"answer","input":{"id":9007199254740993}}]}'
        },
        answered({ id: 7 })
      ])
      assert.deepStrictEqual((yield* ask(provider(server.url), { schema })).answer, { id: 7 })
      assert.lengthOf(server.seen, 2)
    })
  )

  it.effect("the input of the tool can be a string of JSON, which is read and marked", () =>
    Effect.gen(function* () {
      const server = yield* startScriptedServer([answered('{"category":"other"}')])
      const { answer, repaired } = yield* ask(provider(server.url))
      assert.deepStrictEqual([answer, repaired], [{ category: "other" }, true])
      assert.lengthOf(server.seen, 1)
    })
  )

  it.effect(
    "a provider without a base URL calls Anthropic, and has the token limit that the API requires",
    () =>
      Effect.sync(() => {
        const stored = withProviderDefaults({ kind: "anthropic", model: "small" })
        assert.deepInclude(stored, { base_url: "https://api.anthropic.com/v1", max_tokens: 4_096 })
      })
  )

  it.effect("a response of too many values, names or blocks is refused before it is read", () =>
    Effect.gen(function* () {
      const block = { type: "text", text: "a" }
      const blocks = (count: number) => message(Array.from({ length: count }, () => block))
      const names = (count: number) =>
        Object.fromEntries(Array.from({ length: count }, (_, n) => [`k${n}`, n]))
      const responses = [
        [blocks(40_000), /more than 100000 values/],
        [answered(names(20_001)), /more than 20000 different names/],
        [blocks(10_001), /is not a message/]
      ] as const
      for (const [response, detail] of responses) {
        const server = yield* startScriptedServer([response])
        const failed = yield* Effect.flip(ask(provider(server.url)))
        assert.strictEqual(failed.reason, "invalid_response")
        assert.match(failed.detail, detail)
        assert.lengthOf(server.seen, 1)
      }
    })
  )

  it.effect("malformed responses fail with a detail of this service", () =>
    Effect.gen(function* () {
      for (const body of [42, {}, { content: "text" }, { choices: [] }]) {
        const server = yield* startScriptedServer([{ status: 200, body }])
        const failed = yield* Effect.flip(ask(provider(server.url)))
        assert.strictEqual(failed.detail, "The model server's response is not a message.")
        assert.strictEqual(failed.reason, "invalid_response")
      }
    })
  )
})
