import { assert, describe, it } from "@effect/vitest"
import { Ajv2020 } from "ajv/dist/2020.js"
import { Redacted, Result } from "effect"
import type { OpenApi } from "effect/http-api"
import { Api } from "../../src/api/Api.ts"
import { openApiDocument } from "../../src/api/openApiDocument.ts"
import { webhookDocs } from "../../src/api/webhookDocs.ts"
import { signatureHeaders, makeSigningKey } from "../../src/domain/delivery/WebhookSignature.ts"
import { validatorOf } from "./openApiDocument/validation.ts"
import * as Events from "../webhook/events.ts"

const { components, paths } = openApiDocument()

const operations = Object.values(paths).flatMap((item) =>
  Object.values(item).filter((one): one is OpenApi.OpenAPISpecOperation => "responses" in one)
)

const operation = (id: string) => operations.find(({ operationId }) => operationId === id)

const parameter = (path: string, method: "get" | "post", name: string): unknown =>
  paths[path]?.[method]?.parameters?.find((one) => one.name === name)?.schema

const property = (schema: string, name: string): unknown => {
  const properties: unknown = components.schemas[schema]?.["properties"]
  return typeof properties === "object" && properties !== null ? Reflect.get(properties, name) : undefined
}

const outcome = "/v1/agent-sessions/{id}/steps/{step_id}/outcome"
const stream = "/v1/agent-sessions/{id}/events/stream"
const id = (prefix: string) => `${prefix}_${"0a".repeat(16)}`

const constrained: ReadonlyArray<
  readonly [name: string, schema: unknown, valid: string | number, invalid: string | number]
> = [
  ["an id in a path", parameter(outcome, "post", "id"), id("ses"), id("apr")],
  ["an id in a body", property("StepRequest", "task_id"), id("tsk"), id("tsk").toUpperCase()],
  ["a step's name in a path", parameter(outcome, "post", "step_id"), "...", ".."],
  ["a step's name in a body", property("StepRequest", "step_id"), ".hidden", "."],
  ["a trace id", property("TaskRun", "trace_id"), "0a".repeat(16), "0A".repeat(16)],
  ["a time", property("ApiKey", "created_at"), "2026-11-21T02:33:05.123Z", "2026-11-21"],
  ["the header Idempotency-Key", parameter("/v1/tasks", "post", "idempotency-key"), "k-1", "k 1"],
  ["the header Last-Event-ID", parameter(stream, "get", "last-event-id"), 120, -1],
  ["the query parameter `after` of a stream", parameter(stream, "get", "after"), 0, 0.5],
  ["an email address", property("NewApiKey", "email"), "ada@example.com", "ada"],
  ["a provider's URL", property("OpenAiProvider", "base_url"), "https://example.com/v1", "https://a.b?c"],
  ["a receiver's URL", property("NewNotificationEndpoint", "url"), "https://example.com/hooks", ""],
  ["a collector's URL", property("NewTelemetryDestination", "url"), "https://example.com", "example"],
  ["the limit of a list", parameter("/v1/tasks", "get", "limit"), 100, 0],
  ["a score", property("NewFeedback", "score"), -1, 2],
  ["a revision", property("ReplaceApprovalRules", "revision"), 0, 2 ** 53]
]

describe("openApiDocument", () => {
  it.each(constrained)("the document has the constraints of %s", (_, schema, valid, invalid) => {
    const isValid = validatorOf(schema)
    assert.isTrue(isValid(valid))
    assert.isFalse(isValid(invalid))
  })

  it("every operation names the scope that it requires, or takes a feedback token", () => {
    const endpoints = Object.values(Api.groups).flatMap(({ endpoints }) => Object.keys(endpoints))
    assert.strictEqual(operations.length, endpoints.length + 1)
    assert.deepStrictEqual(operation("submitEndUserFeedback")?.security, [{ feedback_token: [] }])
    for (const { description, operationId, security } of operations) {
      if (operationId === "submitEndUserFeedback") continue
      assert.match(description ?? "", /^.{10,}\n\nScope: `[a-z_.]+`( or `[a-z_.]+`)?\.$/s, operationId)
      assert.isNotEmpty(security, operationId)
    }
    assert.deepStrictEqual(operation("decideApproval")?.security, [{ api_key: ["approvals.decide"] }])
    assert.deepStrictEqual(operation("previewPromotion")?.security, [
      { api_key: ["feedback.read"] },
      { api_key: ["datasets.write"] }
    ])
  })

  it("an operation lists 413 and 415 exactly if it has a body", () => {
    for (const { operationId, requestBody, responses } of operations) {
      for (const status of ["413", "415"]) {
        assert.strictEqual(status in responses, requestBody !== undefined, `${operationId} ${status}`)
      }
    }
  })
})

describe("webhookDocs", () => {
  const secret = Redacted.make(`whsec_${"A".repeat(43)}=`)
  const key = Result.getOrThrow(makeSigningKey(secret))
  const ajv = new Ajv2020({ strict: false, formats: { "date-time": true } })
  const isEvent = validatorOf({ $ref: "#/components/schemas/WebhookEvent" })

  it("every webhook that is sent matches its documented schema and headers", () => {
    assert.strictEqual(Object.keys(webhookDocs).length, Events.all.length)
    for (const body of Events.all.map(Object)) {
      const type = String(body.type)
      const post = webhookDocs[type]?.post
      assert.isTrue(isEvent(body), JSON.stringify(isEvent.errors))
      for (const name of ["id", "type", "org_id", "occurred_at", "approval"]) {
        assert.isFalse(isEvent({ ...body, [name]: 0 }), `${type} ${name}`)
      }
      const sent = signatureHeaders(
        { current: key, previous: key },
        { eventId: Events.test.id, eventType: type, timestamp: 1_795_228_385, body: JSON.stringify(body) }
      )
      assert.sameMembers(
        (post?.parameters ?? []).map(({ name }) => name),
        Object.keys(sent)
      )
      const headers: Readonly<Record<string, string>> = sent
      for (const { name, schema } of post?.parameters ?? []) {
        assert.isTrue(ajv.validate(schema, headers[name]), name)
      }
    }
  })
})
