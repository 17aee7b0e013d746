import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Redacted } from "effect"
import {
  toTaskChange,
  toTaskDraft,
  newTaskDraft,
  toNewTask
} from "../../../../src/console/pages/tasks/TaskDraft.ts"
import { KeyId, ReleaseId, TaskId } from "../../../../src/domain/Ids.ts"
import { withProviderDefaults } from "../../../../src/domain/tasks/Provider.ts"
import type { Task } from "../../../../src/domain/tasks/Task.ts"

const task: Task = {
  id: Effect.runSync(TaskId.generate),
  name: "sort messages",
  instructions: "Sort the message.",
  input_schema: { type: "object", properties: { text: { type: "string" } } },
  answer_schema: { type: "object" },
  provider: withProviderDefaults({
    kind: "openai",
    base_url: "https://api.example.com/v1",
    model: "small",
    temperature: 0,
    max_tokens: 300,
    few_shot: { examples: 3 },
    price: { input_per_million: 3, output_per_million: 0 }
  }),
  provider_key_set: true,
  provider_headers_set: false,
  self_review: true,
  live_release_id: Effect.runSync(ReleaseId.generate),
  canary_release_id: null,
  review_share: 0,
  dataset_id: null,
  created_at: DateTime.makeUnsafe(0),
  created_by: { id: Effect.runSync(KeyId.generate), name: "Ada" }
}

describe("TaskDraft", () => {
  it("a new task omits empty fields, so that the server applies its defaults", () => {
    const { provider, ...rest } = toNewTask({
      ...newTaskDraft,
      name: " sort ",
      provider: {
        ...newTaskDraft.provider,
        kind: "openai",
        base_url: "https://api.example.com/v1",
        model: "small"
      }
    })!
    assert.strictEqual(rest.name, "sort")
    assert.deepStrictEqual(provider, {
      kind: "openai",
      base_url: "https://api.example.com/v1",
      model: "small",
      structured_output: "json_schema"
    })
  })

  it("an Anthropic model keeps its settings, and new headers are sent as secrets", () => {
    const provider = withProviderDefaults({
      kind: "anthropic",
      model: "small",
      top_p: 0.5,
      max_tokens: 300,
      structured_output: "none"
    })
    const stored = { ...task, provider, provider_headers_set: true }
    const draft = toTaskDraft(stored)
    assert.deepStrictEqual(toTaskChange(stored, draft), {})
    const change = (headers: string, removes_headers = false) => {
      const edited = toTaskChange(stored, {
        ...draft,
        provider: { ...draft.provider, headers, removes_headers }
      })?.provider
      return edited?.kind === "anthropic" ? edited : assert.fail("no change of the provider")
    }
    const { headers, ...rest } = change("X-Title: our app: test\n\n  anthropic-beta: one ")
    assert.deepStrictEqual(
      Object.entries(headers ?? {}).map(([name, value]) => [name, Redacted.value(value)]),
      [
        ["X-Title", "our app: test"],
        ["anthropic-beta", "one"]
      ]
    )
    assert.deepStrictEqual(withProviderDefaults(rest), provider)
    assert.deepStrictEqual(change("", true).headers, {})
  })

  it("every setting of an OpenAI provider survives the form", () => {
    const provider = withProviderDefaults({
      kind: "openai",
      base_url: "https://acme.openai.azure.com/openai/deployments/small",
      azure_api_version: "2024-10-21",
      model: "small",
      top_p: 0.5,
      seed: 7,
      reasoning_effort: "low"
    })
    const stored = { ...task, provider }
    assert.deepStrictEqual(toTaskChange(stored, toTaskDraft(stored)), {})
  })

  it("a draft is not sent while a schema is not a JSON object", () => {
    assert.isUndefined(toNewTask({ ...newTaskDraft, answer_schema: "[]" }))
    assert.isUndefined(toNewTask({ ...newTaskDraft, input_schema: "{" }))
  })

  it("a change contains only the edited members, and is empty if nothing was edited", () => {
    const draft = toTaskDraft(task)
    assert.deepStrictEqual(toTaskChange(task, draft), {})
    // The same schema with its keys in another order.
    const reordered = '{"properties":{"text":{"type":"string"}},"type":"object"}'
    assert.deepStrictEqual(toTaskChange(task, { ...draft, input_schema: reordered }), {})
    assert.deepStrictEqual(toTaskChange(task, { ...draft, instructions: "" }), { instructions: "" })
    const change = toTaskChange(task, { ...draft, provider: { ...draft.provider, api_key: "sk-other" } })
    assert.deepStrictEqual(Object.keys(change ?? {}), ["provider"])
    const key = change?.provider?.kind === "openai" ? change.provider.api_key : undefined
    assert.strictEqual(key === undefined ? "" : Redacted.value(key), "sk-other")
  })
})
