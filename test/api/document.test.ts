import { assert, describe, it } from "@effect/vitest"
import { openApiDocument } from "../../src/api/Api.ts"

const { components, paths } = openApiDocument()

/** Every pattern that a part of the document holds its texts to, built as JSON Schema 2020-12 asks (6.4: with Unicode). */
const patternsIn = (part: unknown): ReadonlyArray<RegExp> => {
  if (typeof part !== "object" || part === null) return []
  return Object.entries(part).flatMap(([key, inner]) =>
    key === "pattern" && typeof inner === "string" ? [new RegExp(inner, "u")] : patternsIn(inner)
  )
}

const parameter = (path: string, method: "get" | "post", name: string): unknown =>
  paths[path]?.[method]?.parameters?.find((one) => one.name === name)

const property = (schema: string, name: string): unknown => {
  const properties: unknown = components.schemas[schema]?.["properties"]
  return typeof properties === "object" && properties !== null ? Reflect.get(properties, name) : undefined
}

const outcome = "/v1/agent-sessions/{id}/steps/{step_id}/outcome"
const stream = "/v1/agent-sessions/{id}/events/stream"
const id = (prefix: string) => `${prefix}_${"0a".repeat(16)}`

const published: ReadonlyArray<readonly [what: string, part: unknown, taken: string, refused: string]> = [
  ["an id in a path", parameter(outcome, "post", "id"), id("ses"), id("apr")],
  ["an id in a body", property("StepRequest", "task_id"), id("tsk"), id("tsk").toUpperCase()],
  ["a step's name in a path", parameter(outcome, "post", "step_id"), "...", ".."],
  ["a step's name in a body", property("StepRequest", "step_id"), ".hidden", "."],
  ["a trace id", property("TaskRun", "trace_id"), "0a".repeat(16), "0A".repeat(16)],
  ["a time", property("ApiKey", "created_at"), "2026-11-21T02:33:05.123Z", "2026-11-21"],
  ["the header Idempotency-Key", parameter("/v1/tasks", "post", "idempotency-key"), "k-1", "k 1"],
  ["the header Last-Event-ID", parameter(stream, "get", "last-event-id"), "120", "0120"],
  ["where a stream goes on", parameter(stream, "get", "after"), "0", "-1"],
  ["an email address", property("NewApiKey", "email"), "ada@example.com", "ada"],
  ["a provider's URL", property("OpenAiProvider", "base_url"), "https://example.com/v1", "https://a.b?c"]
]

describe("the published document", () => {
  it.each(published)("has the pattern of %s", (_, part, taken, refused) => {
    const patterns = patternsIn(part)
    assert.isNotEmpty(patterns)
    assert.isTrue(patterns.every((pattern) => pattern.test(taken)))
    assert.isFalse(patterns.every((pattern) => pattern.test(refused)))
  })
})
