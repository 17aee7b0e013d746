/** What the document tells of the requests that this service sends: OpenAPI 3.1, `webhooks`. */
import type { WebhookEventType } from "../domain/approvals/ApprovalEvent.ts"

/** Each type with what it tells, and the status that its approval has then. */
const events: Record<WebhookEventType, readonly [says: string, status: string | null]> = {
  "approval.requested": ["A step waits for a person.", "pending"],
  "approval.expiring": ["The window to decide in is nearly over.", "pending"],
  "approval.escalated": ["The reviewers' window is over, and the admins' is open.", "pending"],
  "approval.approved": ["A person approved the step.", "approved"],
  "approval.rejected": ["A person rejected the step.", "rejected"],
  "approval.expired": [
    "The approval closed without a person: its time was over, or its session was closed.",
    "expired"
  ],
  test: ["Sent where the endpoint's owner asked for it. Its `approval` is null.", null]
}

const verifying = [
  "Believe nothing before the signature holds, over the bytes of the body as they came. `X-Svc-Signature` is `t=<unix seconds>,v1=<hex>`: each `v1` is, in 64 lowercase hex digits, the HMAC-SHA256 of the digits of `t`, a full stop and the body, keyed with the UTF-8 text of the endpoint's secret exactly as it was answered, its `whsec_` included.",
  "Compare in constant time; one `v1` that fits is enough, and for 24 hours after a rotation there are two; pass over parts of other names. Refuse where `t` lies more than five minutes from your clock: each attempt is signed anew.",
  "Or verify by Standard Webhooks 1.0, with any of its libraries and the same secret: `webhook-signature` is a list, parted by spaces, of `v1,<base64>`, the HMAC-SHA256 of `<webhook-id>.<webhook-timestamp>.<body>` keyed with the bytes that the base64 after `whsec_` stands for.",
  "Answer 2xx within five seconds, also to a `type` that you do not know. Anything else is sent again, for 15 hours; 410 switches the endpoint off. Deliveries come at least once and in any order: drop those whose `id` was handled. What stands now is read from the API."
].join("\n\n")

const text = (pattern?: string) => ({ type: "string", ...(pattern === undefined ? {} : { pattern }) })
const id = (prefix: string) => text(`^${prefix}_[0-9a-f]{32}$`)
const time = { type: "string", format: "date-time" }
const orNull = (schema: object) => ({ anyOf: [schema, { type: "null" }] })

/** An object that may gain members, those given all there. */
const object = (properties: Readonly<Record<string, object>>) => ({
  type: "object",
  properties,
  required: Object.keys(properties)
})

const approvalOf = (status: string) =>
  object({
    approval_id: id("apr"),
    session_id: id("ses"),
    step_id: text(),
    task_id: orNull(id("tsk")),
    status: { const: status },
    stage: { enum: ["reviewer", "admin"] },
    requested_at: time,
    review_deadline_at: time,
    escalation_deadline_at: orNull(time),
    expires_at: time,
    ...(status === "approved" || status === "rejected"
      ? { decided_at: time, decided_by: object({ id: id("key"), name: text() }) }
      : {})
  })

const bodyOf = (type: string, status: string | null) =>
  object({
    id: { ...id("evt"), description: "The same over attempts and replays: what duplicates are known by." },
    type: { const: type },
    org_id: id("org"),
    occurred_at: time,
    approval: status === null ? { type: "null" } : approvalOf(status)
  })

const header = (name: string, description: string, schema: object) => ({
  name,
  in: "header",
  required: true,
  description,
  schema
})

const headersOf = (type: string) => [
  header("X-Svc-Event-Id", "The event's `id`.", id("evt")),
  header("X-Svc-Event-Type", "The event's `type`. Not signed: go by the body.", { const: type }),
  header("X-Svc-Signature", "The signature, as described.", text("^t=[1-9][0-9]*(,v1=[0-9a-f]{64})+$")),
  header("webhook-id", "The event's `id`, as Standard Webhooks names it.", id("evt")),
  header("webhook-timestamp", "When this attempt was signed, in unix seconds.", text("^[1-9][0-9]*$")),
  header(
    "webhook-signature",
    "The signature of Standard Webhooks.",
    text("^v1,[0-9A-Za-z+/]{43}=( v1,[0-9A-Za-z+/]{43}=)*$")
  )
]

/** Every notification: its headers, its body, and how a receiver verifies it. */
export const webhookDocs = Object.fromEntries(
  Object.entries(events).map(([type, [says, status]]) => [
    type,
    {
      post: {
        operationId: `notification.${type}`,
        tags: ["Notification endpoints"],
        summary: says,
        description: verifying,
        // What comes in bears no key of this service: its signature says where it is from.
        security: [],
        parameters: headersOf(type),
        requestBody: {
          required: true,
          content: { "application/json": { schema: bodyOf(type, status) } }
        },
        responses: {
          "2XX": { description: "The event is taken." },
          "410": { description: "There is no such receiver any more: the endpoint is switched off." }
        }
      }
    }
  ])
)
