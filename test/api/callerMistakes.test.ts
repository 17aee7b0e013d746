import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { StepId } from "../../src/domain/Ids.ts"
import type { Preset } from "../../src/domain/identity/Scope.ts"
import { Countersign } from "../../src/testing/index.ts"
import { send, service } from "../support/service.ts"

/** The complete answer, without its `type`, `title` and `request_id`. */
interface Answer {
  readonly status: number
  readonly code: string
  readonly detail: string
  readonly errors?: ReadonlyArray<{ readonly pointer: string; readonly detail: string }>
}

/** A request that somebody would send who has read the documents in haste. */
interface Mistake {
  readonly mistake: string
  /** Method and path. */
  readonly at: string
  /** An object is sent as JSON, a text as it is. */
  readonly body?: object | string
  /** The preset of the key; without it, the key has every scope. */
  readonly preset?: Preset
  /** Instead of the key as a bearer token. `KEY` stands for the key. */
  readonly headers?: Readonly<Record<string, string>>
  readonly answer: Answer
}

/** The answer that names these faults, each with its pointer: the first in its `detail`, all in its `errors`. */
const invalid = (part: "body" | "query", ...faults: ReadonlyArray<string>): Answer => ({
  status: 400,
  code: "INVALID_REQUEST",
  detail: `The ${part} is invalid: ${faults[0]?.replace(/^#: /, "")}`,
  errors: faults.map((fault) => {
    const [pointer = "", ...rest] = fault.replace(/\.$/, "").split(": ")
    const detail = rest.join(": ")
    return { pointer, detail: detail.charAt(0).toUpperCase() + detail.slice(1) }
  })
})

const invalidKey = (detail: string): Answer => ({ status: 401, code: "INVALID_API_KEY", detail })
const notFound = (detail: string): Answer => ({ status: 404, code: "NOT_FOUND", detail })

const none = "0".repeat(32)
const steps = `POST /v1/agent-sessions/ses_${none}/steps`
const decide = `POST /v1/agent-approvals/apr_${none}/decide`
const step = { step_id: "refund-1", tool: "payments.refund", action_class: "write" }
const task = { name: "Triage", input_schema: { type: "object" }, answer_schema: { type: "object" } }
const feedback = { inference_log_id: none }
const rules = (rule: object) => ({ rules: [{ tool: "payments.*", effect: "allow", ...rule }] })
const ops =
  '"equals", "not_equals", "less_than", "at_most", "greater_than", "at_least", "in", "not_in", "starts_with", "ends_with", "matches", "not_matches", "min_length", "max_length", "min_items", "max_items", "exists", "absent", "every" or "some"'
const eventTypes =
  '"approval.requested", "approval.expiring", "approval.escalated", "approval.vote_recorded", "approval.approved", "approval.rejected" or "approval.expired"'
const noKey = invalidKey("The request has no API key. Send the header `Authorization: Bearer csk_…`.")
const jsonTypes = 'must be one of "array","boolean","integer","null","number","object","string"'
const linearOnly =
  "The pattern cannot be matched in linear time (RE2 syntax: no look-around, no back-references, counts up to 1000)."
const noBearer = invalidKey(
  "The Authorization header has no bearer token. Write `Bearer ` before the key: `Authorization: Bearer csk_…`."
)
const mediaType =
  "Send JSON encoded in UTF-8, with the header `content-type: application/json`: forms and `curl -d` send another one by default."
const noKeyForm = invalidKey("Malformed API key. A key has the form csk_….")

const mistakes: ReadonlyArray<Mistake> = [
  // the key
  { mistake: "no key", at: "GET /v1/tasks", headers: {}, answer: noKey },
  { mistake: "the key in X-API-Key", at: "GET /v1/tasks", headers: { "x-api-key": "KEY" }, answer: noKey },
  {
    mistake: "a key without Bearer",
    at: "GET /v1/tasks",
    headers: { authorization: "KEY" },
    answer: noBearer
  },
  {
    mistake: "the scheme Token",
    at: "GET /v1/tasks",
    headers: { authorization: "Token KEY" },
    answer: noBearer
  },
  {
    mistake: "the scheme Basic",
    at: "GET /v1/tasks",
    headers: { authorization: "Basic S0VZOg==" },
    answer: noBearer
  },
  {
    mistake: "a placeholder",
    at: "GET /v1/tasks",
    headers: { authorization: "Bearer $KEY" },
    answer: noKeyForm
  },
  {
    mistake: "a key in quotes",
    at: "GET /v1/tasks",
    headers: { authorization: 'Bearer "KEY"' },
    answer: noKeyForm
  },
  {
    mistake: "a key with a letter too much",
    at: "GET /v1/tasks",
    headers: { authorization: "Bearer KEYx" },
    answer: noKeyForm
  },
  // JSON
  {
    mistake: "a comma after the last member",
    at: steps,
    body: '{\n  "step_id": "a",\n}',
    answer: invalid(
      "body",
      "#: not JSON at line 3, column 1: expected a name in double quotes; remove the comma before `}`."
    )
  },
  {
    mistake: "single quotes",
    at: steps,
    body: "{'step_id': 'a'}",
    answer: invalid("body", "#: not JSON at line 1, column 2: expected a name in double quotes or `}`.")
  },
  {
    mistake: "None of Python",
    at: steps,
    body: '{"step_id": None}',
    answer: invalid("body", "#: not JSON at line 1, column 13: expected a value.")
  },
  {
    mistake: "NaN",
    at: "POST /v1/feedback",
    body: '{"score": NaN}',
    answer: invalid("body", "#: not JSON at line 1, column 11: expected a value.")
  },
  {
    mistake: "a body that was cut off",
    at: steps,
    body: '{"step_id": "a"',
    answer: invalid("body", "#: not JSON at line 1, column 16: expected `,` or `}`.")
  },
  {
    mistake: "JSON within a JSON text",
    at: steps,
    body: JSON.stringify(JSON.stringify(step)),
    answer: invalid("body", "#: expected an object with step_id, tool and action_class.")
  },
  {
    mistake: "no body",
    at: `POST /v1/tasks/tsk_${none}/feedback/promote`,
    body: "",
    answer: invalid("body", "#: expected an object with base_dataset_id and expected_feedback_revision.")
  },
  {
    mistake: "a member twice",
    at: "POST /v1/agent-sessions",
    body: '{"metadata": {}, "metadata": {}}',
    answer: invalid("body", "#/metadata: the object has this name twice.")
  },
  {
    mistake: "a form",
    at: "POST /v1/agent-sessions",
    body: "metadata=1",
    headers: { authorization: "Bearer KEY", "content-type": "application/x-www-form-urlencoded" },
    answer: {
      status: 415,
      code: "UNSUPPORTED_MEDIA_TYPE",
      detail: mediaType
    }
  },
  {
    mistake: "another encoding of characters",
    at: steps,
    body: step,
    headers: { authorization: "Bearer KEY", "content-type": "application/json; charset=utf-16" },
    answer: { status: 415, code: "UNSUPPORTED_MEDIA_TYPE", detail: mediaType }
  },
  // members of a step
  {
    mistake: "args for arguments",
    at: steps,
    body: { ...step, args: { amount: 5 } },
    answer: invalid("body", "#/args: is not a member; did you mean arguments?")
  },
  {
    mistake: "the members of another API",
    at: steps,
    body: { id: "refund-1" },
    answer: invalid(
      "body",
      "#/id: is not a member; the members are step_id, task_id, tool, action_class, arguments, summary, claim, lease_seconds and after_unknown.",
      "#/step_id: is missing.",
      "#/tool: is missing.",
      "#/action_class: is missing."
    )
  },
  {
    mistake: "a number as the ID of a step",
    at: steps,
    body: { ...step, step_id: 1 },
    answer: invalid("body", "#/step_id: expected a string.")
  },
  {
    mistake: "an empty tool",
    at: steps,
    body: { ...step, tool: "" },
    answer: invalid("body", "#/tool: expected a length of at least 1.")
  },
  {
    mistake: "success for succeeded",
    at: `POST /v1/agent-sessions/ses_${none}/steps/a/outcome`,
    body: { status: "success" },
    answer: invalid("body", '#/status: expected "succeeded" or "failed".')
  },
  {
    mistake: "a list as metadata",
    at: "POST /v1/agent-sessions",
    body: { metadata: [] },
    answer: invalid("body", "#/metadata: expected an object.")
  },
  {
    mistake: "a reason for closing",
    at: `POST /v1/agent-sessions/ses_${none}/close`,
    body: { reason: "done" },
    answer: {
      status: 400,
      code: "INVALID_REQUEST",
      detail: "This operation has no body. Send the request without one."
    }
  },
  // decisions
  {
    mistake: "approved for approve",
    at: decide,
    body: { decision: "approved" },
    answer: invalid("body", '#/decision: expected "approve", "reject" or "request_changes".')
  },
  {
    mistake: "requested changes without an instruction",
    at: decide,
    body: { decision: "request_changes", comment: " " },
    answer: invalid(
      "body",
      "#/comment: expected a comment that says what to change, because `decision` is `request_changes`."
    )
  },
  {
    mistake: "a message by another name",
    at: `POST /v1/agent-approvals/apr_${none}/messages`,
    body: { message: "Why?" },
    answer: invalid("body", "#/message: is not a member; the members are text.", "#/text: is missing.")
  },
  {
    mistake: "a message without a visible character",
    at: `POST /v1/agent-approvals/apr_${none}/messages`,
    body: { text: "\u200b" },
    answer: invalid("body", "#/text: expected a text with a visible character.")
  },
  {
    mistake: "the ID of a message as the last one seen",
    at: `${steps}?after_message=msg_1`,
    body: step,
    answer: invalid("query", "#/after_message: expected an integer.")
  },
  {
    mistake: "a misspelt comment",
    at: decide,
    body: { decision: "approve", coment: "fine" },
    answer: invalid("body", "#/coment: is not a member; did you mean comment?")
  },
  {
    mistake: "a grant of unknown scope",
    at: decide,
    body: { decision: "approve", grant: { scope: "everything", max_seconds: 60 } },
    answer: invalid(
      "body",
      "#/grant/max_seconds: is not a member; did you mean lasts_seconds?",
      '#/grant/scope: expected "arguments", "tool" or "condition".'
    )
  },
  // keys
  {
    mistake: "an expiry in camel case, and networks by another name",
    at: "POST /v1/api-keys",
    body: { name: "agent", preset: "runtime", expiresAt: "2027-01-01T00:00:00Z", networks: ["10.0.0.0/8"] },
    answer: invalid(
      "body",
      "#/expiresAt: is not a member; did you mean expires_at?",
      "#/networks: is not a member; did you mean allowed_networks?"
    )
  },
  {
    mistake: "a preset that does not exist",
    at: "POST /v1/api-keys",
    body: { name: "agent", preset: "administrator" },
    answer: invalid(
      "body",
      '#/preset: expected "admin", "reviewer", "runtime", "hook", "integration" or "end_user_feedback".'
    )
  },
  {
    mistake: "a date for a time",
    at: "POST /v1/api-keys",
    body: { name: "agent", preset: "runtime", expires_at: "2027-01-01" },
    answer: invalid("body", "#/expires_at: expected a time such as 2026-11-21T02:33:05.123Z (RFC 3339).")
  },
  {
    mistake: "seconds since 1970 for a time",
    at: "POST /v1/api-keys",
    body: { name: "agent", preset: "runtime", expires_at: 1_893_456_000 },
    answer: invalid("body", "#/expires_at: expected a string or null.")
  },
  {
    mistake: "an address for a network",
    at: "POST /v1/api-keys",
    body: { name: "agent", preset: "runtime", allowed_networks: ["example.com"] },
    answer: invalid(
      "body",
      "#/allowed_networks/0: expected a network in CIDR notation, such as 203.0.113.0/24 or 2001:db8::/32."
    )
  },
  // feedback
  {
    mistake: "corrections for correction",
    at: "POST /v1/feedback",
    body: { ...feedback, score: -1, corrections: { category: "billing" } },
    answer: invalid("body", "#/corrections: is not a member; did you mean correction?")
  },
  {
    mistake: "stars for a score",
    at: "POST /v1/feedback",
    body: { ...feedback, score: 5 },
    answer: invalid("body", "#/score: expected 1, 0 or -1.")
  },
  {
    mistake: "no score",
    at: "POST /v1/feedback",
    body: feedback,
    answer: {
      status: 400,
      code: "INVALID_REQUEST",
      detail: "Send `score`, `score_value` or both.",
      errors: [{ pointer: "#/score", detail: "Is missing" }]
    }
  },
  {
    mistake: "a run that does not exist",
    at: "POST /v1/feedback",
    body: { ...feedback, score: 1 },
    answer: {
      ...notFound("No such run in this organization. Send the `trace_id` of the run's response."),
      errors: [{ pointer: "#/inference_log_id", detail: "No such run" }]
    }
  },
  // tasks
  {
    mistake: "a misspelt provider, and self_review in camel case",
    at: "POST /v1/tasks",
    body: { ...task, providr: { kind: "openai" }, selfReview: false },
    answer: invalid(
      "body",
      "#/providr: is not a member; did you mean provider?",
      "#/selfReview: is not a member; did you mean self_review?"
    )
  },
  {
    mistake: "a provider of unknown kind",
    at: "POST /v1/tasks",
    body: { ...task, provider: { kind: "gemini" } },
    answer: invalid(
      "body",
      '#/provider: expected an object whose kind is "examples", "openai" or "anthropic".'
    )
  },
  {
    mistake: "a provider's key in camel case",
    at: "POST /v1/tasks",
    body: {
      ...task,
      provider: { kind: "openai", base_url: "https://api.openai.com/v1", model: "m", apiKey: "k" }
    },
    answer: invalid("body", "#/provider/apiKey: is not a member; did you mean api_key?")
  },
  {
    mistake: "a schema with an unknown type",
    at: "POST /v1/tasks",
    body: { ...task, input_schema: { type: "obj" } },
    answer: {
      status: 422,
      code: "INVALID_SCHEMA",
      detail: `The schema is invalid: #/input_schema/type: ${jsonTypes}.`,
      errors: [{ pointer: "#/input_schema/type", detail: jsonTypes }]
    }
  },
  // releases
  {
    mistake: "a misspelt force",
    at: `POST /v1/tasks/tsk_${none}/releases`,
    body: { comparison_id: `cmp_${none}`, forced: true, reason: "urgent" },
    answer: invalid("body", "#/forced: is not a member; did you mean force?")
  },
  {
    mistake: "neither a comparison nor a release",
    at: `POST /v1/tasks/tsk_${none}/releases`,
    body: {},
    answer: invalid("body", "#: expected an object with comparison_id or an object with release_id.")
  },
  {
    mistake: "a duration as the length of a feedback token",
    at: `POST /v1/runs/${none}/feedback-token`,
    body: { expires_in_seconds: "1h" },
    answer: invalid("body", "#/expires_in_seconds: expected a number.")
  },
  // rules
  {
    mistake: "conditions for when",
    at: "PUT /v1/approval-rules",
    body: rules({ conditions: [] }),
    answer: invalid(
      "body",
      "#/rules/0/conditions: is not a member; the members are id, tool, action_class, task_id, when, budget, budgets, effect, review_seconds, expiring_seconds, escalation_seconds, timeout_action, self_approval, quorum, require_comment, retry_unknown, reviewer, reason and summary_template."
    )
  },
  {
    mistake: "deny for reject",
    at: "PUT /v1/approval-rules",
    body: rules({ effect: "deny" }),
    answer: invalid("body", '#/rules/0/effect: expected "allow", "reject" or "require_approval".')
  },
  {
    mistake: "an operator of a programming language",
    at: "PUT /v1/approval-rules",
    body: rules({ when: [{ pointer: "/amount", op: "<=", value: 20 }] }),
    answer: invalid("body", `#/rules/0/when/0: expected an object whose op is ${ops}.`)
  },
  {
    mistake: "a JSONPath and a number as text",
    at: "PUT /v1/approval-rules",
    body: rules({ when: [{ pointer: "$.amount", op: "at_most", value: "20" }] }),
    answer: invalid(
      "body",
      "#/rules/0/when/0/pointer: expected a JSON Pointer such as /amount or /lines/0/sku, or an empty text for the whole value.",
      "#/rules/0/when/0/value: expected a number."
    )
  },
  {
    mistake: "look-ahead in a pattern",
    at: "PUT /v1/approval-rules",
    body: rules({ when: [{ pointer: "/to", op: "matches", value: "(?=a)b" }] }),
    answer: {
      status: 400,
      code: "INVALID_REQUEST",
      detail: `The rules are invalid: #/rules/0/when/0/value: t${linearOnly.slice(1)}`,
      errors: [{ pointer: "#/rules/0/when/0/value", detail: linearOnly }]
    }
  },
  {
    mistake: "a brace that is not closed in a summary",
    at: "PUT /v1/approval-rules",
    body: rules({ summary_template: "Refund {amount" }),
    answer: {
      status: 400,
      code: "INVALID_REQUEST",
      detail:
        "The rules are invalid: #/rules/0/summary_template: at character 8: A { without a }. Write {{ for the character itself.",
      errors: [
        {
          pointer: "#/rules/0/summary_template",
          detail: "At character 8: A { without a }. Write {{ for the character itself."
        }
      ]
    }
  },
  {
    mistake: "a bare list of rules",
    at: "PUT /v1/approval-rules",
    body: [{ effect: "allow" }],
    answer: invalid("body", "#: expected an object with rules.")
  },
  // destinations and endpoints
  {
    mistake: "header for headers",
    at: "POST /v1/telemetry-destinations",
    body: { url: "https://otlp.example.com", header: { authorization: "x" } },
    answer: invalid("body", "#/header: is not a member; did you mean headers?")
  },
  {
    mistake: "event_types for events",
    at: "POST /v1/notification-endpoints",
    body: { url: "https://example.com/hooks", event_types: ["approval.requested"] },
    answer: invalid(
      "body",
      "#/event_types: is not a member; the members are url, description, events and public_signature."
    )
  },
  {
    mistake: "no events",
    at: "POST /v1/notification-endpoints",
    body: { url: "https://example.com/hooks", events: [] },
    answer: {
      status: 400,
      code: "INVALID_WEBHOOK_EVENTS",
      detail: "The event types are invalid: #/events: expected at least 1 item.",
      errors: [{ pointer: "#/events", detail: "Expected at least 1 item" }]
    }
  },
  {
    mistake: "an event type that does not exist",
    at: "POST /v1/notification-endpoints",
    body: { url: "https://example.com/hooks", events: ["approval.decided"] },
    answer: {
      status: 400,
      code: "INVALID_WEBHOOK_EVENTS",
      detail: `The event types are invalid: #/events/0: expected ${eventTypes}.`,
      errors: [{ pointer: "#/events/0", detail: `Expected ${eventTypes}` }]
    }
  },
  // headers and queries
  {
    mistake: "a sentence as the idempotency key",
    at: "POST /v1/agent-sessions",
    body: {},
    headers: { authorization: "Bearer KEY", "idempotency-key": "create once" },
    answer: {
      status: 400,
      code: "INVALID_REQUEST",
      detail: "The headers are invalid: #/idempotency-key: expected 1 to 255 visible ASCII characters.",
      errors: [{ pointer: "#/idempotency-key", detail: "Expected 1 to 255 visible ASCII characters" }]
    }
  },
  {
    mistake: "state for status",
    at: "GET /v1/agent-approvals?state=pending",
    answer: invalid("query", "#/state: is not a parameter; did you mean status?")
  },
  {
    mistake: "an unknown status",
    at: "GET /v1/agent-approvals?status=open",
    answer: invalid("query", '#/status: expected "pending", "approved", "rejected" or "expired".')
  },
  {
    mistake: "a page number",
    at: "GET /v1/agent-approvals?page=2",
    answer: invalid(
      "query",
      "#/page: is not a parameter; the parameters are limit, cursor, status, session_id and task_id."
    )
  },
  {
    mistake: "a limit that is no number",
    at: "GET /v1/agent-approvals?limit=all",
    answer: invalid("query", "#/limit: expected a whole number from 1 to 100.")
  },
  {
    mistake: "a limit given twice",
    at: "GET /v1/agent-approvals?limit=10&limit=20",
    answer: invalid("query", "#/limit: is given more than once.")
  },
  {
    mistake: "a status given twice",
    at: "GET /v1/agent-approvals?status=pending&status=approved",
    answer: invalid("query", "#/status: is given more than once.")
  },
  {
    mistake: "an ID as a cursor",
    at: `GET /v1/agent-approvals?cursor=apr_${none}`,
    answer: invalid("query", "#/cursor: expected the `next_cursor` of a page of this list.")
  },
  {
    mistake: "a parameter of an operation without parameters",
    at: `GET /v1/agent-sessions/ses_${none}?expand=steps`,
    answer: invalid("query", "#/expand: is not a parameter: this operation has none.")
  },
  // paths
  {
    mistake: "a session's ID for an approval's",
    at: `GET /v1/agent-approvals/ses_${none}`,
    answer: notFound(
      "Unknown identifier in the path: #/id: expected an identifier that reads apr_ and 32 lowercase hex digits."
    )
  },
  {
    mistake: "a trace ID with hyphens",
    at: "GET /v1/runs/0af76519-16cd-43dd-8448-eb211c80319c",
    answer: notFound("Unknown identifier in the path: #/id: expected 32 lowercase hex digits.")
  },
  {
    mistake: "approvals for agent-approvals",
    at: "GET /v1/approvals",
    answer: notFound("Unknown path; did you mean /v1/agent-approvals? See /docs for the API reference.")
  },
  {
    mistake: "no version in the path",
    at: "GET /agent-sessions",
    answer: notFound("Unknown path; did you mean /v1/agent-sessions? See /docs for the API reference.")
  },
  {
    mistake: "the version twice",
    at: "GET /v1/v1/tasks",
    answer: notFound("Unknown path; did you mean /v1/tasks? See /docs for the API reference.")
  },
  {
    mistake: "a prefix before the version",
    at: "GET /api/v1/tasks",
    answer: notFound("Unknown path; did you mean /v1/tasks? See /docs for the API reference.")
  },
  {
    mistake: "a decision with the key of an agent",
    at: decide,
    preset: "runtime",
    body: { decision: "approve" },
    answer: {
      status: 403,
      code: "INSUFFICIENT_SCOPE",
      detail:
        "This operation requires the scope approvals.decide. Use an API key that has it, such as one with the preset reviewer."
    }
  },
  {
    mistake: "a step with the key of a reviewer",
    at: steps,
    preset: "reviewer",
    body: step,
    answer: {
      status: 403,
      code: "INSUFFICIENT_SCOPE",
      detail:
        "This operation requires the scope sessions.write. Use an API key that has it, such as one with the preset runtime or hook."
    }
  },
  {
    mistake: "rules with the key of a reviewer",
    at: "PUT /v1/approval-rules",
    preset: "reviewer",
    body: rules({}),
    answer: {
      status: 403,
      code: "INSUFFICIENT_SCOPE",
      detail:
        "This operation requires the scope rules.write. Use an API key that has it, such as one with the preset admin."
    }
  },
  {
    mistake: "POST to a list",
    at: "POST /v1/agent-approvals",
    body: {},
    answer: { status: 405, code: "METHOD_NOT_ALLOWED", detail: "This path supports GET, HEAD." }
  }
]

layer(service(), { excludeTestServices: true })("Callers' mistakes", (it) => {
  it.effect.each(mistakes)(
    "$mistake is answered with what to send instead",
    ({ answer, at, body, headers, preset }) =>
      Effect.gen(function* () {
        const key = Redacted.value(yield* (yield* Countersign).key(preset === undefined ? {} : { preset }))
        const [method = "", path = ""] = at.split(" ")
        const own = headers ?? { authorization: "Bearer KEY" }
        const { body: received, status } = yield* send(path, {
          method,
          headers: Object.fromEntries(
            Object.entries(own).map(([name, text]) => [name, text.replace("KEY", key)])
          ),
          ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) })
        })
        const { request_id, required_scope, title, type, ...rest } = received
        assert.deepStrictEqual({ ...rest, status }, { ...answer })
        assert.strictEqual(type, `urn:problem-type:countersign:${answer.code}`)
        assert.match(String(request_id), /^req_[0-9a-f]{32}$/)
        assert.isNotEmpty(title)
      })
  )

  it.effect(
    "arguments that are a JSON text are accepted with a warning; an object and another text are not warned about",
    () =>
      Effect.gen(function* () {
        const countersign = yield* Countersign
        const client = yield* countersign.client()
        const { session_id } = yield* client.sessions.create({ payload: {} })
        const submit = (name: string, args: string | { readonly amount: number }) =>
          client.sessions.step({
            params: { id: session_id },
            payload: { ...step, step_id: StepId.make(name), arguments: args }
          })
        const text = yield* submit("text", '{"amount":1}')
        assert.deepStrictEqual(text.warnings, [
          {
            pointer: "#/arguments",
            detail:
              "This is a text that contains JSON. Parse it, and send the object: rules cannot read a text."
          }
        ])
        assert.strictEqual(text.decision, "pending")
        assert.isUndefined((yield* submit("object", { amount: 1 })).warnings)
        assert.isUndefined((yield* submit("words", "one euro")).warnings)
      })
  )
})
