/** The `webhooks` of the OpenAPI document: the requests that this service sends to webhook endpoints. */
import type { ReceivedEventType } from "../domain/approvals/ApprovalEvent.ts"
import {
  webhookApprovalExample,
  webhookChallengeExample,
  webhookDecisionExample,
  webhookExample
} from "./examples.ts"
import { SCHEMAS } from "./openApiDocument/node.ts"

/** An event type in the reference. */
interface EventDocs {
  readonly operationId: string
  readonly summary: string
  readonly says: string
  /** The status of the approval in the event; null: `approval` is null. */
  readonly status: string | null
}

const events: Record<ReceivedEventType, EventDocs> = {
  "approval.requested": {
    operationId: "onApprovalRequested",
    summary: "Approval requested",
    says: "A step waits for a decision.",
    status: "pending"
  },
  "approval.expiring": {
    operationId: "onApprovalExpiring",
    summary: "Approval expiring",
    says: "The open review window is about to end.",
    status: "pending"
  },
  "approval.escalated": {
    operationId: "onApprovalEscalated",
    summary: "Approval escalated",
    says: "The reviewers' window ended; the admins' escalation window is open.",
    status: "pending"
  },
  "approval.vote_recorded": {
    operationId: "onApprovalVoteRecorded",
    summary: "Approval vote recorded",
    says: "A person approved the step, and its quorum needs more approvals. Only endpoints that select this type get it.",
    status: "pending"
  },
  "approval.approved": {
    operationId: "onApprovalApproved",
    summary: "Approval approved",
    says: "The step was approved: its quorum was reached.",
    status: "approved"
  },
  "approval.rejected": {
    operationId: "onApprovalRejected",
    summary: "Approval rejected",
    says: "A person rejected the step.",
    status: "rejected"
  },
  "approval.expired": {
    operationId: "onApprovalExpired",
    summary: "Approval expired",
    says: "The approval closed without a decision: its last window ended, or its session was closed.",
    status: "expired"
  },
  test: {
    operationId: "onTest",
    summary: "Test event",
    says: "Sent on request, by `testNotificationEndpoint`. Its `approval` is null.",
    status: null
  },
  verification: {
    operationId: "onVerification",
    summary: "Verification challenge",
    says: 'Sent once on request, by `verifyNotificationEndpoint`. Respond with the `verification` object as JSON: `{"challenge": "…"}`. Check the signature first, so that you verify only your own endpoints.',
    status: null
  }
}

const verification = [
  "Verify the signature against the raw request body before parsing it. `X-Svc-Signature` is `t=<unix seconds>,v1=<hex>`: each `v1` is the HMAC-SHA256, in 64 lowercase hex digits, of the digits of `t`, a full stop and the body. The key is the UTF-8 text of the endpoint's secret exactly as it was returned, including `whsec_`.",
  "Compare in constant time and accept if any `v1` matches: for 24 hours after a rotation there are two. Ignore parts with other names. Reject the request if `t` is more than five minutes from your clock; each attempt is signed again.",
  "Or verify with any Standard Webhooks 1.0 library and the same secret: `webhook-signature` is a space-separated list of `v1,<base64>`, the HMAC-SHA256 of `<webhook-id>.<webhook-timestamp>.<body>`, keyed with the bytes that the base64 after `whsec_` decodes to.",
  "Respond with a 2xx status within five seconds, also for a `type` that you do not handle. Anything else is retried for about 16 hours; 410 disables the endpoint. Delivery is at least once and in any order: ignore an `id` that you have handled, and read the current state from the API."
].join("\n\n")

const text = (description: string, pattern?: string) => ({
  type: "string",
  description,
  ...(pattern === undefined ? {} : { pattern })
})
const id = (prefix: string, description: string) => text(description, `^${prefix}_[0-9a-f]{32}$`)
const time = (description: string) => ({ type: "string", format: "date-time", description })
const count = (description: string) => ({ type: "integer", format: "int32", minimum: 0, description })
const orNull = ({ description, ...schema }: { readonly description: string; readonly $ref?: string }) => ({
  description,
  anyOf: [schema, { type: "null" }]
})
const component = (name: string) => `${SCHEMAS}${name}`

/** An open object: it can gain members, and all members of `properties` are required. */
const object = (
  description: string,
  properties: Readonly<Record<string, object>>,
  optional: Readonly<Record<string, object>> = {}
) => ({
  type: "object",
  description,
  properties: { ...properties, ...optional },
  required: Object.keys(properties)
})

/** The schemas of the bodies, as components: a receiver gets every type at one URL, so that one schema describes them all. */
export const webhookSchemas = {
  WebhookEvent: object(
    "The body of a webhook.",
    {
      id: id("evt", "The event's ID, the same in every attempt and replay. Use it to ignore duplicates."),
      type: text(
        `The event's type: ${Object.keys(events)
          .map((type) => `\`${type}\``)
          .join(", ")}. There can be more types later.`
      ),
      org_id: id("org", "The organization's ID."),
      occurred_at: time("When it happened."),
      approval: orNull({
        description: "The approval. Null in events of the types `test` and `verification`.",
        $ref: component("WebhookApproval")
      })
    },
    {
      verification: {
        description: "Respond with this object. Only in events of the type `verification`.",
        $ref: component("WebhookChallenge")
      }
    }
  ),
  WebhookApproval: object(
    "The approval when the event was recorded, without the arguments of its step.",
    {
      approval_id: id("apr", "The approval's ID."),
      session_id: id("ses", "The agent session of the step."),
      step_id: text("The step, by the ID that the agent chose."),
      task_id: orNull(id("tsk", "The task of the step. Null if it names none.")),
      status: { $ref: component("ApprovalStatus"), description: "The approval's status." },
      stage: {
        $ref: component("ApprovalStage"),
        description: "Whose window is open, or was open last. `admin` means that it was escalated."
      },
      requested_at: time("When the agent submitted the step."),
      review_deadline_at: time("When the reviewers' window ends."),
      escalation_deadline_at: orNull(
        time("When the admins' escalation window ends. Null if the rule grants none.")
      ),
      expires_at: time("When the open window ends."),
      approvals_required: count("How many approvals the step needs."),
      approvals_given: count("How many of them were given.")
    },
    {
      decided_at: time("When the person decided. Absent unless a person did."),
      decided_by: {
        $ref: component("Actor"),
        description: "The API key that decided. Absent unless a person did."
      }
    }
  ),
  WebhookChallenge: object("A challenge that verifies an endpoint.", {
    challenge: text("A random value.", "^[0-9A-Za-z_-]{43}$")
  })
}

const isChallenge = (type: string) => type === "verification"

const isDecision = (status: string) => status === "approved" || status === "rejected"

const exampleOf = (type: string, status: string | null) => ({
  ...webhookExample,
  type,
  approval:
    status === null
      ? null
      : { ...webhookApprovalExample, status, ...(isDecision(status) ? webhookDecisionExample : {}) },
  ...(isChallenge(type) ? { verification: webhookChallengeExample } : {})
})

const header = (
  name: string,
  description: string,
  { description: _, ...schema }: Record<string, unknown>
) => ({
  name,
  in: "header",
  required: true,
  description,
  schema
})

const headersOf = (type: string) => [
  header("X-Svc-Event-Id", "The event's `id`.", id("evt", "")),
  header("X-Svc-Event-Type", "The event's `type`. Not signed: use the one in the body.", {
    type: "string",
    const: type
  }),
  header("X-Svc-Signature", "The signature, as described.", text("", "^t=[1-9][0-9]*(,v1=[0-9a-f]{64})+$")),
  header("webhook-id", "The event's `id`, as Standard Webhooks names it.", id("evt", "")),
  header("webhook-timestamp", "When this attempt was signed, in Unix seconds.", text("", "^[1-9][0-9]*$")),
  header(
    "webhook-signature",
    "The signature by Standard Webhooks.",
    text("", "^v1,[0-9A-Za-z+/]{43}=( v1,[0-9A-Za-z+/]{43}=)*( v1a,[0-9A-Za-z+/]{86}==)?$")
  )
]

/** Every webhook by its event type: its headers, its body, and how to verify it. */
export const webhookDocs = Object.fromEntries(
  Object.entries(events).map(([type, { operationId, says, status, summary }]) => [
    type,
    {
      post: {
        operationId,
        tags: ["Webhooks"],
        summary,
        description: `${says}\n\n${verification}`,
        // Authenticated by its signature, not by an API key of this service.
        security: [],
        parameters: headersOf(type),
        requestBody: {
          required: true,
          description: "The event.",
          content: {
            "application/json": {
              schema: { $ref: component("WebhookEvent") },
              example: exampleOf(type, status)
            }
          }
        },
        responses: {
          "2XX": { description: "The event was received." },
          "410": { description: "The receiver no longer exists: the endpoint is disabled." }
        }
      }
    }
  ])
)
