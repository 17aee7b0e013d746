/** The requests that one tenant, or a client without a key, sends as fast as it can. */
import { accepted, type Kind, unlimited, values } from "./bodies.ts"
import type { Seed } from "./seed.ts"

/** A request that is repeated. `*` in the path or body is replaced by a number that is different in each request. */
export interface Attack {
  readonly name: string
  readonly method: string
  readonly path: string
  readonly body?: string
  /** Default: the tenant's own. Empty: none. */
  readonly key?: string
}

const KIB = 1_024

/** Every attack, on the resources of a tenant. */
export const attacksOf = ({ dataset, endpoint, run, session, task }: Seed): ReadonlyArray<Attack> => {
  const list = (name: string, path: string): Attack => ({
    name,
    method: "GET",
    path: `${path}${path.includes("?") ? "&" : "?"}limit=100`
  })
  const post = (name: string, path: string, body: object | string): Attack => ({
    name,
    method: "POST",
    path,
    body: typeof body === "string" ? body : JSON.stringify(body)
  })
  const value = (kind: Kind, kibibytes: number) => values[kind](accepted(kibibytes * KIB))
  const object = { type: "object" }
  return [
    { name: "no key", method: "GET", path: "/v1/tasks", key: "" },
    { name: "unknown key", method: "GET", path: "/v1/tasks", key: `csk_${"0".repeat(65)}` },
    { name: "/nope", method: "GET", path: "/nope", key: "" },
    {
      name: "sign in, unknown key",
      method: "POST",
      path: "/console/session",
      key: "",
      body: JSON.stringify({ key: `csk_${"0".repeat(65)}` })
    },
    { name: "/docs", method: "GET", path: "/docs", key: "" },
    { name: "/openapi.json", method: "GET", path: "/openapi.json", key: "" },
    list("apiKeys.list", "/v1/api-keys"),
    list("tasks.list", "/v1/tasks"),
    list("sessions.list", "/v1/agent-sessions"),
    list("approvals.list", "/v1/agent-approvals"),
    list("feedback.list", "/v1/feedback"),
    list("feedback.previewPromotion", `/v1/tasks/${task}/feedback/preview`),
    list("audit.list", "/v1/audit-log"),
    list("examples", `/v1/datasets/${dataset}/examples`),
    list("releases", `/v1/tasks/${task}/releases`),
    list("datasets", `/v1/tasks/${task}/datasets`),
    { name: "deliveries", method: "GET", path: `/v1/notification-endpoints/${endpoint}/deliveries` },
    { name: "endpoints", method: "GET", path: "/v1/notification-endpoints" },
    { name: "export", method: "GET", path: `/v1/datasets/${dataset}/export` },
    post("apiKeys.create", "/v1/api-keys", { name: "Key *", preset: "runtime" }),
    post("tasks.create", "/v1/tasks", { name: "Task *", input_schema: object, answer_schema: object }),
    post("run", `/v1/tasks/${task}/run`, { input: { number: "*" }, answer: { total: 1 } }),
    post("run of 100 KiB", `/v1/tasks/${task}/run`, `{"input":{"a":${value("records", 100)}},"answer":{}}`),
    post(
      "run of 256 KiB of names",
      `/v1/tasks/${task}/run`,
      `{"input":${value("members", 256)},"answer":{}}`
    ),
    post("run of 4 MiB", `/v1/tasks/${task}/run`, `{"input":{"a":${value("records", 4_000)}},"answer":{}}`),
    post(
      "run of 4 MiB, refused",
      `/v1/tasks/${task}/run`,
      `{"input":${values.members(unlimited(4_000 * KIB))},"answer":{}}`
    ),
    post("sessions.create", "/v1/agent-sessions", { metadata: { number: "*" } }),
    post("step", `/v1/agent-sessions/${session}/steps`, {
      step_id: "flood *",
      tool: "send_payment",
      action_class: "write"
    }),
    post(
      "step of 1 MiB",
      `/v1/agent-sessions/${session}/steps`,
      `{"step_id":"flood *","tool":"send_payment","action_class":"write","arguments":${value("records", 1_000)}}`
    ),
    post("feedback", "/v1/feedback", { inference_log_id: run, score: 1, correction: { total: 2 } }),
    post(
      "feedback of 99,000 texts",
      "/v1/feedback",
      `{"inference_log_id":"${run}","score":1,"correction":{"a":${value("texts", 4_000)}}}`
    )
  ]
}
