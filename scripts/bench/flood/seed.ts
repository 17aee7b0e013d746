/** The data of the benchmark's tenants before it begins. */
import { create, send, type Tenant } from "./api.ts"

/** Entries of each list that is read. */
const ENTRIES = 100

/** Characters of the text in a correction, so that a hundred of them are more than a page. */
const LARGE_TEXT = 20_000

/** The resources that requests name. */
export interface Seed {
  readonly task: string
  /** A run to give feedback on. */
  readonly run: string
  readonly session: string
  readonly dataset: string
  /** A webhook endpoint with deliveries. */
  readonly endpoint: string
  /** A step that was allowed and has no outcome. */
  readonly step: string
}

/** Where no receiver listens. */
const CLOSED_PORT = "http://127.0.0.1:9"

const object = { type: "object" }
const input = { text: "Invoice 4711, total 129.90 EUR" }

/** Creates a task, a run, a session and a step. */
export const seedBasics = async (tenant: Tenant): Promise<Seed> => {
  await create(
    tenant,
    "PUT",
    "/v1/approval-rules",
    { rules: [{ tool: "read_*", effect: "allow" }] },
    "revision"
  )
  const task = await create(
    tenant,
    "POST",
    "/v1/tasks",
    { name: "Read invoices", input_schema: object, answer_schema: object },
    "id"
  )
  const run = await create(
    tenant,
    "POST",
    `/v1/tasks/${task}/run`,
    { input, answer: { total: 1 } },
    "trace_id"
  )
  const session = await create(tenant, "POST", "/v1/agent-sessions", {}, "session_id")
  const step = await create(
    tenant,
    "POST",
    `/v1/agent-sessions/${session}/steps`,
    { step_id: "allowed", tool: "read_file", action_class: "read" },
    "step_id"
  )
  const dataset = await create(
    tenant,
    "POST",
    `/v1/tasks/${task}/datasets`,
    {
      examples: Array.from({ length: ENTRIES }, (_, number) => ({
        input: { ...input, number },
        answer: { number, text: "x".repeat(1_000) }
      }))
    },
    "id"
  )
  const endpoint = await create(
    tenant,
    "POST",
    "/v1/notification-endpoints",
    { url: CLOSED_PORT, events: ["approval.requested"] },
    "endpoint.id"
  )
  return { task, run, session, dataset, endpoint, step }
}

/** Fills the lists of a tenant. */
export const seedLists = async (tenant: Tenant, { endpoint, run, session }: Seed): Promise<void> => {
  const entries = async (number: number) => {
    await create(tenant, "POST", "/v1/api-keys", { name: `Key ${number}`, preset: "runtime" }, "key.id")
    await create(
      tenant,
      "POST",
      "/v1/tasks",
      { name: `Task ${number}`, input_schema: object, answer_schema: object },
      "id"
    )
    await create(tenant, "POST", "/v1/agent-sessions", { metadata: { number } }, "session_id")
    await create(
      tenant,
      "POST",
      `/v1/agent-sessions/${session}/steps`,
      {
        step_id: `step ${number}`,
        tool: "send_payment",
        action_class: "write",
        arguments: { number, note: "x".repeat(2_000) }
      },
      "approval_id"
    )
    const id = await create(
      tenant,
      "POST",
      "/v1/feedback",
      { inference_log_id: run, score: -1, correction: { note: "Lorem ipsum. ".repeat(LARGE_TEXT / 13) } },
      "id"
    )
    await send(tenant, "POST", `/v1/feedback/${id}/stage`)
  }
  for (let number = 0; number < ENTRIES; number += 10) {
    await Promise.all(Array.from({ length: 10 }, (_, index) => entries(number + index)))
  }
  // No further deliveries: they would distort the measurement.
  await send(tenant, "PATCH", `/v1/notification-endpoints/${endpoint}`, '{"events":["approval.expired"]}')
}
