import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { StepId } from "../../../src/domain/Ids.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { send, service } from "../../support/service.ts"
import { layerTwoReplicas, SecondReplica } from "../../support/twoReplicas.ts"

const request = (step_id: string) => ({
  step_id: StepId.make(step_id),
  tool: "payments.refund",
  action_class: "write",
  arguments: { amount: 5 }
})

layer(service(), { excludeTestServices: true })("The owner of a session", (it) => {
  const actors = Effect.fnUntraced(function* (organization: string) {
    const { client, key } = yield* Countersign
    const admin = yield* client({ name: "Ada" }, organization)
    // An agent that may also make keys, for its receivers.
    const agent = yield* client({ name: "agent", scopes: ["sessions.write", "keys.write"] }, organization)
    const made = yield* agent.apiKeys.create({ payload: { name: "receiver", scopes: ["sessions.write"] } })
    const other = yield* client({ name: "other agent", preset: "runtime" }, organization)
    const keyOf = (name: string, preset: "hook" | "runtime") => key({ name, preset }, organization)
    return { admin, agent, keyOf, made: made.secret, other }
  })

  it.effect("another agent's key is told whose the session is, and changes nothing in it", () =>
    Effect.gen(function* () {
      const { admin, agent, other } = yield* actors("owners")
      const { session_id } = yield* agent.sessions.create({ payload: {} })
      const params = { id: session_id }
      const { approval_id } = yield* agent.sessions.step({ params, payload: request("a") })
      yield* admin.approvals.decide({
        params: { id: approval_id ?? assert.fail("pending") },
        payload: { decision: "approve", grant: { scope: "tool", lasts_seconds: 600 } }
      })
      for (const attempt of [
        Effect.flip(other.sessions.step({ params, payload: request("a") })),
        Effect.flip(other.sessions.step({ params, payload: request("b") })),
        Effect.flip(
          other.sessions.reportOutcome({
            params: { ...params, step_id: StepId.make("a") },
            payload: { status: "succeeded" }
          })
        ),
        Effect.flip(other.sessions.close({ params }))
      ]) {
        const refused = yield* attempt
        assert.strictEqual(refused._tag, "SESSION_OF_ANOTHER_KEY")
        assert.match("detail" in refused ? refused.detail : "", /"agent" \(key_[0-9a-f]+\).*shared/u)
      }
      // Reading stays by scope, and the owner goes on, with the grant.
      assert.strictEqual((yield* other.sessions.get({ params })).status, "open")
      assert.strictEqual((yield* agent.sessions.step({ params, payload: request("a") })).decision, "allow")
      assert.strictEqual(
        (yield* agent.sessions.step({ params, payload: request("b") })).decision_source,
        "grant"
      )
      // An admin stops any agent.
      assert.strictEqual((yield* admin.sessions.close({ params })).status, "closed")
    })
  )

  it.effect("a receiver resumes a step with the agent's key, a key made by it, or in a shared session", () =>
    Effect.gen(function* () {
      const { admin, agent, made, other } = yield* actors("receivers")
      /** A step that waits, in a new session, and is then approved. */
      const approved = Effect.fnUntraced(function* (shared: boolean, grant = false) {
        const session = yield* agent.sessions.create({ payload: { shared } })
        assert.strictEqual(session.shared, shared)
        const params = { id: session.session_id }
        const step = { params, payload: request("a") }
        const { approval_id } = yield* agent.sessions.step(step)
        yield* admin.approvals.decide({
          params: { id: approval_id ?? assert.fail("pending") },
          payload: { decision: "approve", ...(grant ? { grant: { scope: "tool" as const } } : {}) }
        })
        return step
      })
      const own = yield* approved(false)
      assert.strictEqual((yield* agent.sessions.step(own)).decision, "allow")

      const byMade = yield* approved(false)
      const resumed = yield* send(`/v1/agent-sessions/${byMade.params.id}/steps`, {
        method: "POST",
        key: made,
        body: JSON.stringify(byMade.payload)
      })
      assert.deepInclude(resumed.body, { decision: "allow", decision_source: "human" })
      const outcome = yield* send(`/v1/agent-sessions/${byMade.params.id}/steps/a/outcome`, {
        method: "POST",
        key: made,
        body: JSON.stringify({ status: "succeeded" })
      })
      assert.strictEqual(outcome.status, 200)

      const shared = yield* approved(true, true)
      assert.strictEqual((yield* other.sessions.step(shared)).decision, "allow")
      // The grant was given to the agent: a step of another key asks.
      const asks = yield* other.sessions.step({ params: shared.params, payload: request("of another") })
      assert.strictEqual(asks.decision, "pending")
      const own2 = yield* agent.sessions.step({ params: shared.params, payload: request("of the agent") })
      assert.strictEqual(own2.decision_source, "grant")
      yield* other.sessions.reportOutcome({
        params: { ...shared.params, step_id: StepId.make("a") },
        payload: { status: "succeeded" }
      })
      assert.strictEqual((yield* other.sessions.close({ params: shared.params })).status, "closed")
    })
  )

  it.effect("a key of the preset hook reads and follows its own sessions, and no others", () =>
    Effect.gen(function* () {
      const { agent, keyOf } = yield* actors("hooks")
      const key = yield* keyOf("laptop", "hook")
      const created = yield* send("/v1/agent-sessions", { method: "POST", key, body: "{}" })
      const id = String(created.body["session_id"])
      yield* send(`/v1/agent-sessions/${id}/close`, { method: "POST", key })
      assert.strictEqual((yield* send(`/v1/agent-sessions/${id}`, { key })).status, 200)
      const stream = yield* send(`/v1/agent-sessions/${id}/events/stream`, { key })
      assert.include(String(stream.body["text"]), "session:closed")
      const foreign = yield* agent.sessions.create({ payload: {} })
      const missing = `ses_${"0".repeat(32)}`
      for (const unreadable of [foreign.session_id, missing]) {
        for (const path of ["", "/events/stream"]) {
          const refused = yield* send(`/v1/agent-sessions/${unreadable}${path}`, { key })
          assert.deepInclude(refused.body, { code: "INSUFFICIENT_SCOPE", required_scope: "sessions.read" })
        }
      }
      assert.strictEqual((yield* send("/v1/agent-sessions", { key })).status, 403)
    })
  )
})

layer(layerTwoReplicas, { excludeTestServices: true })("The owner of a session › two replicas", (it) => {
  it.effect("a key or person with the owner's address is another one, on every replica", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const first = yield* Countersign
      const second = yield* Effect.provideContext(Countersign, yield* SecondReplica)
      const rights = { email: "ann@example.com", scopes: ["sessions.write", "keys.write"] } as const
      const person = yield* first.key({ ...rights, name: "Ann" }, "addresses")
      yield* sql`
        INSERT INTO people (org_id, key_id, issuer, subject, signed_in_at)
        SELECT org_id, key_id, 'https://id.example', 'ann', created_at FROM api_keys WHERE name = 'Ann'
      `
      yield* sql`
        INSERT INTO email_addresses (org_id, address, event_id, key_id, requested_at, requests_full_at, verified_at)
        SELECT org_id, email, 'evt_1', key_id, created_at, created_at, created_at FROM api_keys WHERE name = 'Ann'
        ON CONFLICT (org_id, address) DO UPDATE SET verified_at = EXCLUDED.verified_at
      `
      const own = yield* first.key({ ...rights, name: "Ann's agent" }, "addresses")
      const { apiKeys } = yield* first.clientWith(own)
      const { secret } = yield* apiKeys.create({ payload: { name: "made", scopes: ["sessions.write"] } })
      const made = Redacted.make(secret)
      for (const [owner, caller, isOwn] of [
        [made, person, false],
        [own, person, false],
        [person, own, false],
        [made, own, true],
        [own, made, true]
      ] as const) {
        const { session_id } = yield* (yield* first.clientWith(owner)).sessions.create({ payload: {} })
        for (const replica of [first, second]) {
          const { sessions } = yield* replica.clientWith(caller)
          const step = sessions.step({ params: { id: session_id }, payload: request("a") })
          const result = yield* Effect.match(step, { onSuccess: () => "own", onFailure: ({ _tag }) => _tag })
          assert.strictEqual(result, isOwn ? "own" : "SESSION_OF_ANOTHER_KEY")
        }
      }
    })
  )
})
