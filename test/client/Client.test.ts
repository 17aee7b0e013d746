import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Redacted } from "effect"
import { ApprovalAlreadyDecided } from "../../src/api/ApprovalProblems.ts"
import { InvalidApiKey, Unavailable } from "../../src/api/Problems.ts"
import { Client } from "../../src/client/index.ts"
import { ApprovalId, SessionId } from "../../src/domain/Ids.ts"
import { type Scripted, scriptedServer } from "../support/scripted.ts"

const key = "csk_secret"
const session = {
  session_id: `ses_${"0".repeat(32)}`,
  task_id: null,
  trace_id: "1".repeat(32),
  metadata: { ticket: "4711" },
  status: "open",
  created_at: "2026-11-21T02:33:05.123Z",
  created_by: { id: `key_${"0".repeat(32)}`, name: "agent" },
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
const busy: Scripted = {
  status: 503,
  headers: { "retry-after": "0" },
  body: problem("UNAVAILABLE", 503)
}

/** Runs a program with a client for a server that gives the answers listed. */
const against = <A, E>(
  answers: ReadonlyArray<Scripted>,
  use: (
    client: Client["Service"],
    server: Effect.Success<ReturnType<typeof scriptedServer>>
  ) => Effect.Effect<A, E>,
  options: { readonly retries?: number; readonly path?: string } = {}
) =>
  Effect.scoped(
    Effect.gen(function* () {
      const server = yield* scriptedServer(answers)
      const { path = "", ...rest } = options
      const layer = Client.layer({ url: server.url + path, key: Redacted.make(key), ...rest })
      return yield* Effect.flatMap(Client, (client) => use(client, server)).pipe(Effect.provide(layer))
    })
  )

describe("a call", () => {
  it.effect("sends the key and the body, and answers with what the contract says", () =>
    against([{ status: 201, body: session }], (client, { seen }) =>
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

  it.effect("may leave out every part of which nothing is required", () =>
    against([{ status: 200, body: { sessions: [session], next_cursor: null } }], (client, { seen }) =>
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

  it.effect("finds a service that lies under a path", () =>
    against(
      [{ status: 200, body: session }],
      (client, { seen }) =>
        Effect.gen(function* () {
          yield* client.sessions.get({ params: { id } })
          assert.strictEqual(seen[0]?.url, `/countersign/v1/agent-sessions/${id}`)
        }),
      { path: "/countersign/" }
    )
  )

  it.effect("fails with the problem's own class", () =>
    against([{ status: 401, body: problem("INVALID_API_KEY", 401) }], (client) =>
      Effect.gen(function* () {
        const error = yield* Effect.flip(client.sessions.list())
        if (!(error instanceof InvalidApiKey)) return assert.fail(`was ${error._tag}`)
        assert.strictEqual(error.code, "INVALID_API_KEY")
        assert.strictEqual(error.request_id, "req_1")
        assert.strictEqual(error.message, "A sentence")
      })
    )
  )

  it.effect("tells problems of one status apart by their code, and gives their members", () => {
    const approval = {
      approval_id: `apr_${"0".repeat(32)}`,
      session_id: id,
      step_id: "refund-1",
      task_id: null,
      tool: "payments.refund",
      action_class: "payment",
      arguments_digest: "d",
      status: "approved",
      stage: "reviewer",
      requested_at: session.created_at,
      review_deadline_at: session.created_at,
      escalation_deadline_at: null,
      expires_at: session.created_at,
      escalated_at: null,
      timeout_action: "reject",
      outcome: "allow",
      decision_source: "human",
      decided_at: session.created_at,
      decided_by: session.created_by,
      comment: null
    }
    const body = problem("APPROVAL_ALREADY_DECIDED", 409, { approval })
    return against([{ status: 409, body }], (client) =>
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

  it.effect("fails as such when something else than the service answers", () =>
    against([{ status: 200, body: { hello: "world" } }], (client) =>
      Effect.gen(function* () {
        const error = yield* Effect.flip(client.sessions.get({ params: { id } }))
        assert.strictEqual(error._tag, "SchemaError")
      })
    )
  )

  it.effect("follows no redirect, so that the key reaches nobody else", () =>
    against([{ status: 307, headers: { location: "/elsewhere" } }], (client, { seen }) =>
      Effect.gen(function* () {
        const error = yield* Effect.flip(client.sessions.create({ payload: {} }))
        assert.strictEqual(error._tag, "HttpClientError")
        assert.strictEqual(seen.length, 1)
      })
    )
  )

  it.effect("refuses an address that is none of http at once", () =>
    Effect.gen(function* () {
      const exit = yield* Effect.exit(
        Effect.provide(Effect.asVoid(Client), Client.layer({ url: "ftp://x", key }))
      )
      assert.include(String(exit), "http or https URL")
    })
  )
})

describe("a busy service", () => {
  it.live("is asked again for what it may be asked twice", () =>
    against([busy, { status: 200, body: session }], (client, { seen }) =>
      Effect.gen(function* () {
        const answer = yield* client.sessions.get({ params: { id } })
        assert.strictEqual(answer.session_id, id)
        assert.strictEqual(seen.length, 2)
      })
    )
  )

  it.live("is not asked again for what could happen twice", () =>
    against([busy, { status: 201, body: session }], (client, { seen }) =>
      Effect.gen(function* () {
        const error = yield* Effect.flip(client.sessions.create({ payload: {} }))
        assert.isTrue(error instanceof Unavailable)
        assert.strictEqual(seen.length, 1)
      })
    )
  )
})
