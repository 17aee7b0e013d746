/** The scenario of scripts/clients.ts with the types that openapi-typescript generates. Arguments: base URL, admin key. */
import assert from "node:assert/strict"
import createClient from "openapi-fetch"
import type { paths } from "./schema.js"

const [, , baseUrl = "", adminKey = ""] = process.argv

const connect = (key: string) => createClient<paths>({ baseUrl, headers: { authorization: `Bearer ${key}` } })

/** The data of a successful response. */
const ok = <A>({ data, error }: { data?: A; error?: unknown }): A => {
  assert.ok(data !== undefined, JSON.stringify(error))
  return data
}

const admin = connect(adminKey)
const started = Date.now() - 60_000
const text = { type: "object" as const, properties: { text: { type: "string" } }, required: ["text"] }

const task = ok(
  await admin.POST("/v1/tasks", { body: { name: "TypeScript", input_schema: text, answer_schema: text } })
)
const task_id = task.id
const { provider } = ok(await admin.GET("/v1/tasks/{id}", { params: { path: { id: task_id } } }))
assert.equal(provider.kind === "openai" ? provider.base_url : provider.model, "nearest")
assert.equal(ok(await admin.GET("/v1/tasks", { params: { query: { limit: 1 } } })).tasks.length, 1)
const missing = await admin.GET("/v1/tasks/{id}", {
  params: { path: { id: `tsk_${"0".repeat(32)}` } }
})
assert.ok(missing.error?.code === "NOT_FOUND" && missing.error.request_id !== "")

const run = ok(
  await admin.POST("/v1/tasks/{id}/run", {
    params: { path: { id: task_id } },
    body: { input: { text: "a" }, answer: { text: "b" } }
  })
)
const feedback = ok(
  await admin.POST("/v1/feedback", {
    body: { inference_log_id: run.trace_id, score: -1, correction: { text: "c" } }
  })
)
const listed = ok(
  await admin.GET("/v1/feedback", {
    params: { query: { task_id, created_after: new Date(started).toISOString() } }
  })
)
assert.deepEqual(
  listed.feedback.map(({ id }) => id),
  [feedback.id]
)
const path = { id: feedback.id }
assert.equal(ok(await admin.POST("/v1/feedback/{id}/stage", { params: { path } })).status, "staged")
const preview = ok(await admin.GET("/v1/tasks/{id}/feedback/preview", { params: { path: { id: task_id } } }))
const { dataset } = ok(
  await admin.POST("/v1/tasks/{id}/feedback/promote", {
    params: { path: { id: task_id } },
    body: { base_dataset_id: null, expected_feedback_revision: preview.feedback_revision }
  })
)
const examples = ok(await admin.GET("/v1/datasets/{id}/examples", { params: { path: { id: dataset.id } } }))
assert.deepEqual(examples.examples[0]?.answer, { text: "c" })
const lines = ok(
  await admin.GET("/v1/datasets/{id}/export", { params: { path: { id: dataset.id } }, parseAs: "text" })
)
assert.ok(lines.endsWith("}\n"))

const expires_at = new Date(Date.now() + 3_600_000).toISOString()
const created = ok(
  await admin.POST("/v1/api-keys", {
    body: { name: `TypeScript agent ${task_id}`, preset: "runtime", expires_at }
  })
)
assert.equal(created.key.expires_at, expires_at)
const agent = connect(created.secret)
const { session_id } = ok(await agent.POST("/v1/agent-sessions", { body: { task_id } }))
const step = ok(
  await agent.POST("/v1/agent-sessions/{id}/steps", {
    params: { path: { id: session_id } },
    body: { step_id: "one", tool: "mail", action_class: "write", arguments: { to: "ada" } }
  })
)
assert.equal(step.decision, "pending")
const approval = { id: step.approval_id ?? "" }
const pending = ok(
  await admin.GET("/v1/agent-approvals", { params: { query: { status: "pending", session_id } } })
)
assert.deepEqual(
  pending.approvals.map(({ approval_id }) => approval_id),
  [step.approval_id]
)
const refused = await agent.POST("/v1/agent-approvals/{id}/decide", {
  params: { path: approval },
  body: { decision: "approve" }
})
assert.ok(refused.error?.code === "INSUFFICIENT_SCOPE" && refused.error.required_scope === "approvals.decide")
const decided = ok(
  await admin.POST("/v1/agent-approvals/{id}/decide", {
    params: { path: approval },
    body: { decision: "approve" }
  })
)
assert.ok(decided.status === "approved" && Date.parse(decided.decided_at ?? "") > started)
assert.equal(ok(await agent.GET("/v1/agent-approvals/{id}", { params: { path: approval } })).outcome, "allow")
ok(
  await agent.POST("/v1/agent-sessions/{id}/steps/{step_id}/outcome", {
    params: { path: { id: session_id, step_id: "one" } },
    body: { status: "succeeded", result: { sent: true } }
  })
)
const session = { id: session_id }
assert.equal(
  ok(await agent.POST("/v1/agent-sessions/{id}/close", { params: { path: session } })).status,
  "closed"
)
const events = ok(
  await agent.GET("/v1/agent-sessions/{id}/events/stream", {
    params: { path: session, query: { after: 0 } },
    parseAs: "text"
  })
)
assert.ok(events.split("event: ").length > 4 && events.includes("event: session:closed"))
console.log("TypeScript: the scenario succeeded")
