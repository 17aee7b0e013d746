import { assert, layer } from "@effect/vitest"
import { Array as Arr, Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { NewApprovalRule } from "../../../src/api/ApprovalRules.ts"
import { ClaimId, type SessionId, StepId } from "../../../src/domain/Ids.ts"
import { Deadlines } from "../../../src/server/approvals/Deadlines.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { clientMadeBy, send, service } from "../../support/service.ts"

layer(service(), { excludeTestServices: true })("Claims", (it) => {
  /** An agent whose tools `allowed` and `again` are allowed, `never` rejected, and whose others wait for the reviewer. */
  const open = Effect.gen(function* () {
    const countersign = yield* Countersign
    const organization = `claims ${yield* Effect.sync(() => Math.random())}`
    const admin = yield* countersign.client({ preset: "admin" }, organization)
    yield* admin.approvalRules.replace({
      payload: {
        rules: [
          { tool: "allowed", effect: "allow" },
          { tool: "again", effect: "allow", retry_unknown: true },
          { tool: "never", effect: "reject" }
        ]
      }
    })
    const key = yield* countersign.key({ preset: "runtime" }, organization)
    const agent = yield* countersign.clientWith(key)
    const reviewer = yield* countersign.client({ preset: "reviewer" }, organization)
    const { session_id } = yield* agent.sessions.create({})
    const params = { id: session_id, step_id: StepId.make("step") }
    const submit = (
      over: { readonly claim?: boolean; readonly tool?: string; readonly after_unknown?: boolean } = {}
    ) =>
      agent.sessions.step({
        params,
        payload: { step_id: params.step_id, tool: "allowed", action_class: "c", ...over }
      })
    const claimed = Effect.flatMap(submit({ claim: true }), ({ claim }) =>
      claim === undefined ? Effect.die(new Error("The step must be claimed")) : Effect.succeed(claim)
    )
    return { admin, agent, claimed, countersign, key, organization, params, reviewer, submit }
  })

  /** Ends the leases of a session, as if an hour had passed, and runs the worker of deadlines. */
  const endLeases = Effect.fnUntraced(function* (session_id: SessionId) {
    const sql = yield* SqlClient.SqlClient
    yield* sql`
      UPDATE governed_steps
      SET claim_expires_at = claim_expires_at - interval '2 hours'
      WHERE session_id = ${session_id}
        AND execution = 'executing'
    `
    yield* (yield* Deadlines).runOnce
  })

  const eventsOf = (session_id: SessionId) =>
    Effect.flatMap(
      SqlClient.SqlClient,
      (sql) =>
        sql<{ readonly type: string; readonly data: Readonly<Record<string, unknown>> }>`
        SELECT type, data
        FROM session_events
        WHERE session_id = ${session_id}
        ORDER BY number
      `
    )

  const typesOf = (session_id: SessionId) =>
    Effect.map(
      eventsOf(session_id),
      Arr.map(({ type }) => type)
    )

  it.effect("a step is claimed with its request, and only its holder reports the outcome", () =>
    Effect.gen(function* () {
      const { agent, params, submit } = yield* open
      const answer = yield* submit({ claim: true })
      assert.strictEqual(answer.decision, "allow")
      const { claim } = answer
      if (claim === undefined) return assert.fail("the step must be claimed")
      assert.match(claim.id, /^clm_[0-9a-f]{32}$/)
      assert.strictEqual(claim.attempt, 1)
      assert.strictEqual(claim.expires_at.epochMilliseconds - claim.claimed_at.epochMilliseconds, 300_000)
      assert.match(
        claim.idempotency_key,
        /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
      )
      const refusals = [
        yield* Effect.flip(submit({ claim: true })),
        yield* Effect.flip(submit()),
        yield* Effect.flip(agent.sessions.claim({ params, payload: {} }))
      ]
      for (const refused of refusals) {
        if (refused._tag !== "STEP_ALREADY_CLAIMED") return assert.fail(refused._tag)
        assert.strictEqual(refused.state, "executing")
        assert.deepStrictEqual(refused.claimed_at, claim.claimed_at)
        assert.isNull(refused.outcome)
      }
      const other = `clm_${"0".repeat(32)}`
      for (const claim_id of [undefined, other]) {
        const payload = {
          status: "succeeded" as const,
          ...(claim_id === undefined ? {} : { claim_id: ClaimId.make(claim_id) })
        }
        const refused = yield* Effect.flip(agent.sessions.reportOutcome({ params, payload }))
        assert.strictEqual(refused._tag, "CLAIM_MISMATCH")
      }
      const outcome = yield* agent.sessions.reportOutcome({
        params,
        payload: { status: "succeeded", claim_id: claim.id, result: { refund: 1 } }
      })
      assert.notProperty(outcome, "late")
      const refused = yield* Effect.flip(agent.sessions.claim({ params, payload: {} }))
      if (refused._tag !== "STEP_ALREADY_CLAIMED") return assert.fail(refused._tag)
      assert.strictEqual(refused.state, "completed")
      assert.deepStrictEqual(refused.outcome, outcome)
      assert.strictEqual((yield* Effect.flip(submit()))._tag, "STEP_ALREADY_COMPLETED")
      assert.deepStrictEqual(yield* typesOf(params.id), ["step:governed", "tool:claimed", "tool:outcome"])
    })
  )

  it.effect("a step that nobody claims works as before", () =>
    Effect.gen(function* () {
      const { agent, params, submit } = yield* open
      assert.notProperty(yield* submit(), "claim")
      assert.strictEqual((yield* submit()).decision, "allow")
      yield* agent.sessions.reportOutcome({ params, payload: { status: "failed", error: "no" } })
      const refused = yield* Effect.flip(submit({ claim: true }))
      if (refused._tag !== "STEP_ALREADY_CLAIMED") return assert.fail(refused._tag)
      assert.strictEqual(refused.state, "completed")
      assert.isNull(refused.claimed_by)
      assert.strictEqual(refused.outcome?.error, "no")
      assert.deepStrictEqual(yield* typesOf(params.id), ["step:governed", "tool:outcome"])
    })
  )

  it.effect(
    "the same request with the same idempotency key gets its claim again, and no other request does",
    () =>
      Effect.gen(function* () {
        const { agent, countersign, organization, params, submit } = yield* open
        yield* submit()
        const claim = (idempotency: string, lease_seconds = 60, by = agent) =>
          Effect.map(
            Effect.result(
              by.sessions.claim({
                headers: { "idempotency-key": idempotency },
                params,
                payload: { lease_seconds }
              })
            ),
            (result) => (result._tag === "Success" ? result.success.claim.id : result.failure._tag)
          )
        const first = yield* claim("one")
        assert.match(first, /^clm_/)
        assert.strictEqual(yield* claim("one"), first)
        assert.strictEqual(yield* claim("two"), "STEP_ALREADY_CLAIMED")
        assert.strictEqual(yield* claim("one", 61), "STEP_ALREADY_CLAIMED")
        const admin = yield* countersign.client({ preset: "admin" }, organization)
        assert.strictEqual(yield* claim("one", 60, admin), "SESSION_OF_ANOTHER_KEY")
        const made = yield* clientMadeBy(admin, { name: "other", scopes: ["sessions.write"] })
        assert.strictEqual(yield* claim("one", 60, made), "SESSION_OF_ANOTHER_KEY")
        yield* endLeases(params.id)
        assert.strictEqual(yield* claim("one"), "STEP_ALREADY_CLAIMED")
      })
  )

  it.effect("a step that waits for a person is claimed by the request that gets the permission", () =>
    Effect.gen(function* () {
      const { agent, params, reviewer, submit } = yield* open
      const waiting = yield* submit({ claim: true, tool: "waits" })
      assert.strictEqual(waiting.decision, "pending")
      assert.notProperty(waiting, "claim")
      const early = yield* Effect.flip(agent.sessions.claim({ params, payload: {} }))
      assert.strictEqual(early._tag, "STEP_NOT_ALLOWED")
      if (waiting.approval_id === null) return assert.fail("expected an approval")
      yield* reviewer.approvals.decide({
        params: { id: waiting.approval_id },
        payload: { decision: "approve" }
      })
      const resumed = yield* Effect.all(
        Arr.makeBy(8, () => Effect.result(submit({ claim: true, tool: "waits" }))),
        { concurrency: "unbounded" }
      )
      const tags = resumed.map((one) =>
        one._tag === "Success"
          ? one.success.claim === undefined
            ? "unclaimed"
            : "claimed"
          : one.failure._tag
      )
      assert.sameMembers(tags, ["claimed", ...Arr.makeBy(7, () => "STEP_ALREADY_CLAIMED")])
      assert.deepStrictEqual((yield* typesOf(params.id)).slice(-3), [
        "approval:decided",
        "step:governed",
        "tool:claimed"
      ])
    })
  )

  it.effect("what is not allowed, unknown or another key's cannot be claimed", () =>
    Effect.gen(function* () {
      const { agent, countersign, key, organization, params, submit } = yield* open
      const claim = (over: { readonly id?: SessionId; readonly step_id?: StepId } = {}, by = agent) =>
        Effect.flip(by.sessions.claim({ params: { ...params, ...over }, payload: {} }))
      assert.strictEqual((yield* claim())._tag, "NOT_FOUND")
      const rejected = yield* submit({ claim: true, tool: "never" })
      assert.strictEqual(rejected.decision, "reject")
      assert.notProperty(rejected, "claim")
      assert.strictEqual((yield* claim())._tag, "STEP_NOT_ALLOWED")
      const stranger = yield* countersign.client({ preset: "runtime" }, organization)
      assert.strictEqual((yield* claim({}, stranger))._tag, "SESSION_OF_ANOTHER_KEY")
      const foreign = yield* countersign.client({ preset: "runtime" }, `${organization} 2`)
      assert.strictEqual((yield* claim({}, foreign))._tag, "NOT_FOUND")
      const path = `/v1/agent-sessions/${params.id}/steps`
      const post = (to: string, body: object) => send(to, { method: "POST", key, body: JSON.stringify(body) })
      for (const lease_seconds of [0, 3_601, 1.5, "60", null]) {
        const step = { step_id: "other", tool: "allowed", action_class: "c", claim: true, lease_seconds }
        for (const answer of [
          yield* post(path, step),
          yield* post(`${path}/step/claim`, { lease_seconds })
        ]) {
          assert.strictEqual(answer.status, 400)
          assert.deepStrictEqual(
            answer.errors.map(({ pointer }) => pointer),
            ["#/lease_seconds"]
          )
        }
      }
      for (const unclaimed of [
        { lease_seconds: 60 },
        { after_unknown: true },
        { claim: false, lease_seconds: 60 }
      ]) {
        const answer = yield* post(path, {
          step_id: "other",
          tool: "allowed",
          action_class: "c",
          ...unclaimed
        })
        assert.strictEqual(answer.status, 400)
        assert.strictEqual(answer.errors[0]?.pointer, "#/claim")
      }
    })
  )

  it.effect("a rule that rejects now prevents the claim of a step that was allowed", () =>
    Effect.gen(function* () {
      const { admin, agent, params, submit } = yield* open
      yield* submit()
      yield* admin.approvalRules.replace({ payload: { rules: [{ tool: "allowed", effect: "reject" }] } })
      const refused = yield* Effect.flip(agent.sessions.claim({ params, payload: {} }))
      assert.strictEqual(refused._tag, "STEP_NOT_ALLOWED")
      assert.strictEqual((yield* submit({ claim: true })).decision, "reject")
    })
  )

  it.effect("a rule that rejects now does not prevent the outcome of a claim", () =>
    Effect.gen(function* () {
      for (const late of [false, true]) {
        const { admin, agent, claimed, params, submit } = yield* open
        const { id } = yield* claimed
        yield* admin.approvalRules.replace({ payload: { rules: [{ tool: "allowed", effect: "reject" }] } })
        assert.strictEqual((yield* submit()).decision, "reject")
        if (late) yield* endLeases(params.id)
        const report = (claim: { readonly claim_id?: ClaimId }) =>
          agent.sessions.reportOutcome({ params, payload: { status: "succeeded", ...claim } })
        assert.strictEqual((yield* Effect.flip(report({})))._tag, "CLAIM_MISMATCH")
        const outcome = yield* report({ claim_id: id })
        assert.strictEqual(outcome.late ?? false, late)
        assert.deepStrictEqual(yield* typesOf(params.id), [
          "step:governed",
          "tool:claimed",
          "step:governed",
          ...(late ? ["tool:unknown"] : []),
          "tool:outcome"
        ])
      }
    })
  )

  it.effect("a renewed lease does not end, and a lease that has ended is not renewed", () =>
    Effect.gen(function* () {
      const { agent, claimed, params } = yield* open
      const { expires_at, id } = yield* claimed
      const renew = (claim_id = id) =>
        agent.sessions.renewClaim({ params, payload: { claim_id, lease_seconds: 3_600 } })
      const { claim } = yield* renew()
      assert.strictEqual(claim.id, id)
      assert.isAbove(claim.expires_at.epochMilliseconds, expires_at.epochMilliseconds)
      const other = yield* Effect.flip(
        agent.sessions.renewClaim({ params, payload: { claim_id: ClaimId.make(`clm_${"0".repeat(32)}`) } })
      )
      assert.strictEqual(other._tag, "CLAIM_MISMATCH")
      yield* endLeases(params.id)
      assert.strictEqual((yield* Effect.flip(renew()))._tag, "CLAIM_MISMATCH")
      assert.deepStrictEqual(yield* typesOf(params.id), ["step:governed", "tool:claimed", "tool:unknown"])
    })
  )

  it.effect("a lease that ends without an outcome is shown to people, and a late outcome is accepted", () =>
    Effect.gen(function* () {
      const { agent, claimed, params, reviewer, submit } = yield* open
      const { id, idempotency_key } = yield* claimed
      yield* endLeases(params.id)
      const { executions } = yield* reviewer.executions.list({ query: { state: "unknown" } })
      assert.lengthOf(executions, 1)
      const [listed] = executions
      if (listed === undefined) return assert.fail("the execution must be listed")
      assert.strictEqual(listed.claim_id, id)
      assert.strictEqual(listed.state, "unknown")
      assert.strictEqual(listed.idempotency_key, idempotency_key)
      assert.isNull(listed.outcome)
      for (const query of [{ session_id: params.id }, { tool: "allowed" }] as const)
        assert.deepStrictEqual((yield* reviewer.executions.list({ query })).executions, executions)
      assert.deepStrictEqual(yield* reviewer.executions.get({ params: { claim_id: id } }), listed)
      assert.lengthOf((yield* reviewer.executions.list({ query: { tool: "other" } })).executions, 0)
      for (const further of [
        submit({ claim: true }),
        submit({ claim: true, after_unknown: true }),
        submit()
      ]) {
        const refused = yield* Effect.flip(further)
        if (refused._tag !== "STEP_ALREADY_CLAIMED") return assert.fail(refused._tag)
        assert.strictEqual(refused.state, "unknown")
      }
      const outcome = yield* agent.sessions.reportOutcome({
        params,
        payload: { status: "succeeded", claim_id: id }
      })
      assert.isTrue(outcome.late)
      assert.lengthOf((yield* reviewer.executions.list({ query: { state: "unknown" } })).executions, 0)
      const completed = yield* reviewer.executions.get({ params: { claim_id: id } })
      assert.strictEqual(completed.state, "completed")
      assert.deepStrictEqual(completed.outcome, outcome)
      const [, , , last] = yield* eventsOf(params.id)
      assert.include(last?.data, { type: "tool:outcome", claim_id: id, late: true, resolved_by: null })
    })
  )

  it.effect(
    "another attempt follows an unknown one only if the rule says so, with the same idempotency key",
    () =>
      Effect.gen(function* () {
        const { agent, params, submit } = yield* open
        const first = yield* submit({ claim: true, tool: "again" })
        yield* endLeases(params.id)
        const plain = yield* Effect.flip(submit({ claim: true, tool: "again" }))
        assert.strictEqual(plain._tag, "STEP_ALREADY_CLAIMED")
        const second = yield* submit({ claim: true, tool: "again", after_unknown: true })
        if (second.claim === undefined) return assert.fail("the step must be claimed again")
        assert.strictEqual(second.claim.attempt, 2)
        assert.notStrictEqual(second.claim.id, first.claim?.id)
        assert.strictEqual(second.claim.idempotency_key, first.claim?.idempotency_key)
        if (first.claim === undefined) return assert.fail("the step must be claimed")
        const late = yield* Effect.flip(
          agent.sessions.reportOutcome({ params, payload: { status: "succeeded", claim_id: first.claim.id } })
        )
        assert.strictEqual(late._tag, "CLAIM_MISMATCH")
        // A lease that has ended is unknown first, also if the worker has not run.
        const sql = yield* SqlClient.SqlClient
        yield* sql`
        UPDATE governed_steps
        SET claim_expires_at = claim_expires_at - interval '2 hours'
        WHERE session_id = ${params.id}
      `
        const third = yield* agent.sessions.claim({ params, payload: { after_unknown: true } })
        assert.strictEqual(third.claim.attempt, 3)
        assert.deepStrictEqual(yield* typesOf(params.id), [
          "step:governed",
          "tool:claimed",
          "tool:unknown",
          "tool:claimed",
          "tool:unknown",
          "tool:claimed"
        ])
      })
  )

  it.effect("another attempt needs `retry_unknown` of the rule that decided the step", () =>
    Effect.gen(function* () {
      const { admin, agent, params, reviewer, submit } = yield* open
      const replaceRules = (rules: ReadonlyArray<NewApprovalRule>) =>
        admin.approvalRules.replace({ payload: { rules } })
      const budget = { per: "session", window_seconds: 3600, count: 1 } as const
      const { rules } = yield* replaceRules([
        { tool: "allowed", effect: "allow", budget, retry_unknown: true },
        { tool: "allowed", effect: "require_approval" }
      ])
      const [allows, asks] = rules
      if (allows === undefined || asks === undefined) return assert.fail("both rules must be stored")
      const used = { id: params.id, step_id: StepId.make("used") }
      yield* agent.sessions.step({
        params: used,
        payload: { step_id: used.step_id, tool: "allowed", action_class: "c", claim: true }
      })
      const { approval_id } = yield* submit()
      yield* reviewer.approvals.decide({
        params: { id: approval_id ?? assert.fail("the step must wait") },
        payload: { decision: "approve" }
      })
      assert.strictEqual((yield* submit({ claim: true })).claim?.attempt, 1)
      yield* endLeases(params.id)
      const claimAgain = (step = params) =>
        agent.sessions.claim({ params: step, payload: { after_unknown: true } })
      const isRefused = Effect.fnUntraced(function* () {
        const claimed = yield* Effect.flip(claimAgain())
        assert.strictEqual(claimed._tag, "STEP_ALREADY_CLAIMED")
        const resumed = yield* Effect.flip(submit({ claim: true, after_unknown: true }))
        assert.strictEqual(resumed._tag, "STEP_ALREADY_CLAIMED")
      })
      // The first rule matches now, but a person has allowed the step under the second one.
      yield* isRefused()
      assert.strictEqual((yield* claimAgain(used)).claim.attempt, 2)
      // The same rule with `retry_unknown`, but for other steps.
      yield* replaceRules([allows, { ...asks, tool: "other", retry_unknown: true }])
      yield* isRefused()
      // A rule of the same content, which did not decide the step.
      yield* replaceRules([allows, { tool: "allowed", effect: "require_approval", retry_unknown: true }])
      yield* isRefused()
      yield* replaceRules([allows, { ...asks, retry_unknown: true }])
      assert.strictEqual((yield* submit({ claim: true, after_unknown: true })).claim?.attempt, 2)
    })
  )

  it.effect("a person resolves an unknown execution once, by what was found", () =>
    Effect.gen(function* () {
      for (const resolution of ["succeeded", "failed", "not_executed"] as const) {
        const { admin, agent, claimed, organization, params, reviewer, countersign } = yield* open
        const { id } = yield* claimed
        const resolve = (by = reviewer, found: typeof resolution | "retry" = resolution) =>
          by.executions.resolve({
            params: { claim_id: id },
            payload: { resolution: found, comment: "Seen in the ledger." }
          })
        assert.strictEqual((yield* Effect.flip(resolve()))._tag, "NOT_FOUND")
        yield* endLeases(params.id)
        const resolved = yield* resolve()
        assert.strictEqual(resolved.state, "completed")
        assert.strictEqual(resolved.outcome?.status, resolution === "succeeded" ? "succeeded" : "failed")
        assert.notProperty(resolved.outcome, "late")
        const found = resolved.resolution
        if (found === null) return assert.fail("the execution must be resolved")
        assert.strictEqual(found.resolution, resolution)
        assert.strictEqual(found.comment, "Seen in the ledger.")
        assert.deepStrictEqual(yield* resolve(), resolved)
        const second = yield* countersign.client({ preset: "reviewer" }, organization)
        for (const refused of [
          yield* Effect.flip(resolve(second)),
          yield* Effect.flip(resolve(reviewer, "retry"))
        ]) {
          if (refused._tag !== "EXECUTION_NOT_UNKNOWN") return assert.fail(refused._tag)
          assert.deepStrictEqual(refused.execution, resolved)
        }
        const late = yield* Effect.flip(
          agent.sessions.reportOutcome({ params, payload: { status: "succeeded", claim_id: id } })
        )
        assert.strictEqual(late._tag, "STEP_ALREADY_COMPLETED")
        const { entries } = yield* admin.auditLog.list({ query: { action: "execution.resolved" } })
        assert.lengthOf(entries, 1)
        assert.strictEqual(entries[0]?.target_id, id)
        assert.include(entries[0]?.detail, {
          resolution,
          session_id: params.id,
          step_id: "step",
          tool: "allowed"
        })
        const last = (yield* eventsOf(params.id)).at(-1)
        assert.strictEqual(last?.type, "tool:outcome")
        assert.include(last?.data, { claim_id: id, late: false })
        assert.deepStrictEqual(last?.data["resolved_by"], { ...found.resolved_by })
      }
    })
  )

  it.effect("a person allows another attempt, which one claim gets", () =>
    Effect.gen(function* () {
      const { claimed, params, reviewer, submit } = yield* open
      const first = yield* claimed
      yield* endLeases(params.id)
      const resolved = yield* reviewer.executions.resolve({
        params: { claim_id: first.id },
        payload: { resolution: "retry" }
      })
      assert.strictEqual(resolved.state, "retryable")
      assert.strictEqual((yield* submit()).decision, "allow")
      const claims = yield* Effect.all(
        Arr.makeBy(8, () => Effect.result(submit({ claim: true }))),
        { concurrency: "unbounded" }
      )
      const won = claims.flatMap((one) => (one._tag === "Success" ? [one.success.claim] : []))
      assert.lengthOf(won, 1)
      assert.strictEqual(won[0]?.attempt, 2)
      assert.strictEqual(won[0]?.idempotency_key, first.idempotency_key)
      assert.deepStrictEqual((yield* typesOf(params.id)).slice(-2), ["tool:retry_allowed", "tool:claimed"])
    })
  )

  it.effect("the key that claimed a step cannot resolve its execution, nor can a key that it made", () =>
    Effect.gen(function* () {
      const { countersign, organization } = yield* open
      const scopes = ["sessions.write", "approvals.read", "approvals.decide", "keys.write"] as const
      const key = yield* countersign.key({ scopes }, organization)
      const both = yield* countersign.clientWith(key)
      const { session_id } = yield* both.sessions.create({})
      const { claim } = yield* both.sessions.step({
        params: { id: session_id },
        payload: { step_id: StepId.make("own"), tool: "allowed", action_class: "c", claim: true }
      })
      if (claim === undefined) return assert.fail("the step must be claimed")
      yield* endLeases(session_id)
      const made = yield* clientMadeBy(both, { name: "made", scopes: ["approvals.decide"] })
      for (const by of [both, made]) {
        const refused = yield* Effect.flip(
          by.executions.resolve({ params: { claim_id: claim.id }, payload: { resolution: "succeeded" } })
        )
        assert.strictEqual(refused._tag, "SELF_APPROVAL")
      }
    })
  )

  it.effect("closing a session makes its claims unknown, and people can still resolve them", () =>
    Effect.gen(function* () {
      const { agent, claimed, params, reviewer } = yield* open
      const { id } = yield* claimed
      yield* agent.sessions.close({ params })
      const report = agent.sessions.reportOutcome({ params, payload: { status: "succeeded", claim_id: id } })
      assert.strictEqual((yield* Effect.flip(report))._tag, "SESSION_CLOSED")
      const retry = reviewer.executions.resolve({
        params: { claim_id: id },
        payload: { resolution: "retry" }
      })
      assert.strictEqual((yield* Effect.flip(retry))._tag, "SESSION_CLOSED")
      const resolved = yield* reviewer.executions.resolve({
        params: { claim_id: id },
        payload: { resolution: "succeeded" }
      })
      assert.strictEqual(resolved.state, "completed")
      assert.deepStrictEqual(yield* typesOf(params.id), [
        "step:governed",
        "tool:claimed",
        "tool:unknown",
        "session:closed"
      ])
    })
  )
})
