import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Exit, Fiber, Layer, Redacted, Tracer } from "effect"
import { HttpClient, HttpClientResponse } from "effect/http"
import { TestClock } from "effect/testing"
import { ApprovalAlreadyDecided } from "../../src/api/ApprovalProblems.ts"
import { InvalidApiKey, InvalidRequest, Unavailable } from "../../src/api/Problems.ts"
import { Client } from "../../src/client/index.ts"
import { ApprovalId, SessionId, StepId, TaskId } from "../../src/domain/Ids.ts"
import { type ScriptedReply, startScriptedServer } from "../support/scripted.ts"
import { pendingApproval } from "../support/approvals.ts"

const key = "csk_secret"
const session = {
  session_id: `ses_${"0".repeat(32)}`,
  task_id: null,
  trace_id: "1".repeat(32),
  metadata: { ticket: "4711" },
  status: "open",
  created_at: "2026-11-21T02:33:05.123Z",
  created_by: { id: `key_${"0".repeat(32)}`, name: "agent" },
  shared: false,
  closed_at: null
}
const id = SessionId.make(session.session_id)
const problem = (code: string, status: number, members: object = {}) => ({
  type: `urn:problem-type:countersign:${code}`,
  title: "A title",
  status,
  detail: "A sentence",
  code,
  request_id: "req_1",
  ...members
})
const busy: ScriptedReply = {
  status: 503,
  headers: { "retry-after": "0" },
  body: problem("UNAVAILABLE", 503)
}

/** Runs a program with a client for a server with scripted responses. */
const withServer = <A, E>(
  answers: ReadonlyArray<ScriptedReply>,
  use: (
    client: Client["Service"],
    server: Effect.Success<ReturnType<typeof startScriptedServer>>
  ) => Effect.Effect<A, E>,
  options: { readonly retries?: number; readonly path?: string } = {}
) =>
  Effect.scoped(
    Effect.gen(function* () {
      const server = yield* startScriptedServer(answers)
      const { path = "", ...rest } = options
      const layer = Client.layer({ url: server.url + path, key: Redacted.make(key), ...rest })
      return yield* Effect.flatMap(Client, (client) => use(client, server)).pipe(Effect.provide(layer))
    })
  )

describe("a call of the client", () => {
  it.effect("sends the key and the body and returns the typed response", () =>
    withServer([{ status: 201, body: session }], (client, { seen }) =>
      Effect.gen(function* () {
        const created = yield* client.sessions.create({ payload: { metadata: { ticket: "4711" } } })
        assert.strictEqual(created.session_id, id)
        assert.strictEqual(DateTime.formatIso(created.created_at), session.created_at)
        assert.strictEqual(seen[0]?.method, "POST")
        assert.strictEqual(seen[0]?.url, "/v1/agent-sessions")
        assert.strictEqual(seen[0]?.headers.authorization, `Bearer ${key}`)
        assert.strictEqual(seen[0]?.body, `{"metadata":{"ticket":"4711"}}`)
      })
    )
  )

  it.effect("may omit every part without required members", () =>
    withServer([{ status: 200, body: { sessions: [session], next_cursor: null } }], (client, { seen }) =>
      Effect.gen(function* () {
        const page = yield* client.sessions.list()
        assert.strictEqual(page.sessions.length, 1)
        yield* client.sessions.list({ query: { limit: 2 } })
        assert.deepStrictEqual(
          seen.map((request) => request.url),
          ["/v1/agent-sessions", "/v1/agent-sessions?limit=2"]
        )
      })
    )
  )

  it.effect("has an automatic idempotency key, the same for all attempts and another for the next call", () =>
    withServer([busy, { status: 201, body: session }], (client, { seen }) =>
      Effect.gen(function* () {
        const create = client.sessions.create()
        yield* create
        yield* create
        yield* client.sessions.create({ headers: { "idempotency-key": "mine" } })
        const [first, again, next, given] = seen.map(({ headers }) => headers["idempotency-key"])
        assert.match(String(first), /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
        assert.strictEqual(again, first)
        assert.notStrictEqual(next, first)
        assert.strictEqual(given, "mine")
      })
    )
  )

  it.effect(
    "a run, whose retry would be billed again, and calls without idempotency have no automatic key",
    () =>
      withServer([busy], (client, { seen }) =>
        Effect.gen(function* () {
          yield* Effect.flip(
            client.tasks.run({
              params: { id: TaskId.make(`tsk_${"0".repeat(32)}`) },
              payload: { input: {} }
            })
          )
          yield* Effect.flip(client.sessions.close({ params: { id } }))
          assert.deepStrictEqual(
            seen.map(({ headers, method }) => [method, headers["idempotency-key"]]),
            [
              ["POST", undefined],
              ["POST", undefined]
            ]
          )
        })
      )
  )

  it.effect("keeps unknown enum members of a newer service", () => {
    const api_key = {
      id: `key_${"0".repeat(32)}`,
      name: "agent",
      hint: "csk_0",
      preset: "auditor",
      scopes: ["tasks.read", "audit.read"],
      email: null,
      email_verified_at: null,
      email_awaits_verification: false,
      created_at: session.created_at,
      created_by: null,
      expires_at: null,
      revoked_at: null,
      revocation_reason: null,
      allowed_networks: null,
      groups: [],
      last_used_at: null
    }
    const entry = {
      id: `aud_${"0".repeat(32)}`,
      action: "key.renamed",
      target_id: api_key.id,
      actor: null,
      occurred_at: session.created_at,
      request_id: null,
      detail: {}
    }
    return withServer(
      [
        { status: 200, body: { keys: [api_key], next_cursor: null } },
        { status: 200, body: { entries: [entry], next_cursor: null } }
      ],
      (client) =>
        Effect.gen(function* () {
          const { keys } = yield* client.apiKeys.list()
          assert.deepStrictEqual(
            keys.map(({ preset, scopes }) => [preset, scopes]),
            [["auditor", ["tasks.read", "audit.read"]]]
          )
          const { entries } = yield* client.auditLog.list()
          assert.strictEqual(entries[0]?.action, "key.renamed")
        })
    )
  })

  it.effect("reaches a service under a path", () =>
    withServer(
      [{ status: 200, body: session }],
      (client, { seen }) =>
        Effect.gen(function* () {
          yield* client.sessions.get({ params: { id } })
          assert.strictEqual(seen[0]?.url, `/countersign/v1/agent-sessions/${id}`)
        }),
      { path: "/countersign/" }
    )
  )

  it.effect("fails with the class of the problem", () =>
    withServer([{ status: 401, body: problem("INVALID_API_KEY", 401) }], (client) =>
      Effect.gen(function* () {
        const error = yield* Effect.flip(client.sessions.list())
        if (!(error instanceof InvalidApiKey)) return assert.fail(`was ${error._tag}`)
        assert.strictEqual(error.code, "INVALID_API_KEY")
        assert.strictEqual(error.request_id, "req_1")
        assert.strictEqual(error.message, "A sentence")
      })
    )
  )

  it.effect("distinguishes problems of one status by their code, with their members", () => {
    const approval = {
      ...pendingApproval,
      approval_id: `apr_${"0".repeat(32)}`,
      session_id: id,
      step_id: "refund-1",
      action_class: "payment",
      status: "approved",
      requested_at: session.created_at,
      review_deadline_at: session.created_at,
      expires_at: session.created_at,
      outcome: "allow",
      decision_source: "human",
      decided_at: session.created_at,
      decided_by: session.created_by
    }
    const body = problem("APPROVAL_ALREADY_DECIDED", 409, { approval })
    return withServer([{ status: 409, body }], (client) =>
      Effect.gen(function* () {
        const error = yield* Effect.flip(
          client.approvals.decide({
            params: { id: ApprovalId.make(approval.approval_id) },
            payload: { decision: "reject" }
          })
        )
        if (!(error instanceof ApprovalAlreadyDecided)) return assert.fail(`was ${error._tag}`)
        assert.strictEqual(error.approval.decided_by?.name, "agent")
      })
    )
  })

  it.effect("fails with UNEXPECTED_RESPONSE if another server responds", () =>
    withServer([{ status: 200, body: { hello: "world" } }], (client) =>
      Effect.gen(function* () {
        const error = yield* Effect.flip(client.sessions.get({ params: { id } }))
        assert.strictEqual(error._tag, "UNEXPECTED_RESPONSE")
      })
    )
  )

  it.effect("follows no redirect, so that the key reaches no other host", () =>
    withServer([{ status: 307, headers: { location: "/elsewhere" } }], (client, { seen }) =>
      Effect.gen(function* () {
        const error = yield* Effect.flip(client.sessions.close({ params: { id } }))
        assert.strictEqual(error._tag, "UNEXPECTED_RESPONSE")
        assert.strictEqual(seen.length, 1)
      })
    )
  )

  it.effect("continues the caller's trace only if a tracer exports its spans", () =>
    withServer([{ status: 200, body: session }], (client, { seen }) =>
      Effect.gen(function* () {
        const call = Effect.withSpan(client.sessions.get({ params: { id } }), "agent")
        yield* call
        const exported: Array<Tracer.Span> = []
        const tracer = Tracer.make({
          span: (options) => {
            const span = new Tracer.NativeSpan(options)
            exported.push(span)
            return span
          }
        })
        yield* Effect.provideService(call, Tracer.Tracer, tracer)
        const [without, continued] = seen.map(({ headers }) => [headers["traceparent"], headers["b3"]])
        assert.deepStrictEqual(without, [undefined, undefined])
        assert.include(String(continued?.[0]), exported[0]?.traceId ?? "no span")
      })
    )
  )

  it.effect(
    "fails with INVALID_REQUEST, which names the operation and the field, before it sends invalid input",
    () =>
      withServer([{ status: 201, body: session }], (client, { seen }) =>
        Effect.gen(function* () {
          const payload = { step_id: StepId.make("1"), tool: "", action_class: "write" }
          const error = yield* Effect.flip(client.sessions.step({ params: { id }, payload }))
          if (!(error instanceof InvalidRequest)) return assert.fail(`was ${error._tag}`)
          assert.include(
            error.detail,
            "sessions.step: the input is invalid: #/tool: expected a length of at least 1."
          )
          assert.strictEqual(error.errors?.[0]?.pointer, "#/tool")
          assert.lengthOf(seen, 0)
        })
      )
  )

  it.effect("throws immediately for a URL that is not http or https", () =>
    Effect.gen(function* () {
      const exit = yield* Effect.exit(
        Effect.provide(Effect.asVoid(Client), Client.layer({ url: "ftp://x", key }))
      )
      assert.include(String(exit), "http or https URL")
    })
  )
})

describe("a call to a busy service", () => {
  it.live("is retried if it is idempotent", () =>
    withServer([busy, { status: 200, body: session }], (client, { seen }) =>
      Effect.gen(function* () {
        const answer = yield* client.sessions.get({ params: { id } })
        assert.strictEqual(answer.session_id, id)
        assert.strictEqual(seen.length, 2)
      })
    )
  )

  it.live("is not retried if it is not idempotent", () =>
    withServer([busy, { status: 200, body: session }], (client, { seen }) =>
      Effect.gen(function* () {
        const error = yield* Effect.flip(client.sessions.close({ params: { id } }))
        assert.isTrue(error instanceof Unavailable)
        assert.strictEqual(seen.length, 1)
      })
    )
  )
})

describe("a run through the client", () => {
  const task_id = TaskId.make(`tsk_${"0".repeat(32)}`)
  const answered = {
    trace_id: "1".repeat(32),
    task_id,
    release_id: `rel_${"0".repeat(32)}`,
    dataset_id: null,
    answer: { category: "billing" },
    examples: [],
    usage: { input_tokens: 1, output_tokens: 1 },
    created_at: "2026-11-21T02:33:05.123Z"
  }
  /** A service whose model takes two minutes on the test clock. */
  const slow = Layer.succeed(
    HttpClient.HttpClient,
    HttpClient.make((request) =>
      Effect.as(Effect.sleep("2 minutes"), HttpClientResponse.fromWeb(request, Response.json(answered)))
    )
  )
  const run = (options: { readonly timeout?: "1 minute" } = {}) =>
    Effect.gen(function* () {
      const { tasks } = yield* Client
      const running = yield* Effect.forkChild(
        Effect.exit(tasks.run({ params: { id: task_id }, payload: { input: { text: "late" } } }))
      )
      yield* TestClock.adjust("2 minutes")
      return yield* Fiber.join(running)
    }).pipe(
      Effect.provide(Client.layerHttp({ url: "http://service", key, ...options }).pipe(Layer.provide(slow)))
    )

  it.effect("is awaited as long as a model may take", () =>
    Effect.gen(function* () {
      const exit = yield* run()
      assert.isTrue(Exit.isSuccess(exit), String(exit))
    })
  )

  it.effect("is awaited as long as the caller says", () =>
    Effect.gen(function* () {
      assert.include(String(yield* run({ timeout: "1 minute" })), "no response within 1m")
    })
  )
})
