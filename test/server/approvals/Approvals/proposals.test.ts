import { assert, describe, layer } from "@effect/vitest"
import { Effect, Result, type Schema } from "effect"
import { SqlClient } from "effect/sql"
import type { NewApprovalRule } from "../../../../src/api/ApprovalRules.ts"
import type { StepRequest } from "../../../../src/api/AgentSessions.ts"
import { Authorized } from "../../../../src/api/Authorization.ts"
import { type ApprovalId, type KeyId, type OrgId, StepId } from "../../../../src/domain/Ids.ts"
import type { Principal } from "../../../../src/domain/identity/Principal.ts"
import { Steps } from "../../../../src/server/approvals/Steps.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { clientMadeBy, pointersOf, send, service } from "../../../support/service.ts"

const ASKS: ReadonlyArray<NewApprovalRule> = [{ effect: "require_approval" }]

/** An organization with an agent and two reviewers, whose rules ask about every step. */
const team = Effect.fnUntraced(function* (
  organization: string,
  rules: ReadonlyArray<NewApprovalRule> = ASKS
) {
  const countersign = yield* Countersign
  const admin = yield* countersign.client({}, organization)
  const setRules = (list: ReadonlyArray<NewApprovalRule>) =>
    admin.approvalRules.replace({ payload: { rules: list } })
  yield* setRules(rules)
  const agent = yield* clientMadeBy(admin, { preset: "runtime", name: "agent" })
  const ada = yield* countersign.client(
    { preset: "reviewer", name: "Ada", groups: ["finance"] },
    organization
  )
  const ben = yield* countersign.client({ preset: "reviewer", name: "Ben" }, organization)
  const { session_id } = yield* agent.sessions.create({})
  const params = { id: session_id }
  const step = (name: string, args: StepRequest["arguments"], other: Partial<StepRequest> = {}) =>
    agent.sessions.step({
      params,
      payload: {
        step_id: StepId.make(name),
        tool: "payments.refund",
        action_class: "write",
        ...(args === undefined ? {} : { arguments: args }),
        ...other
      }
    })
  const ask = (name: string, args: StepRequest["arguments"] = { amount: 500 }) =>
    Effect.map(step(name, args), ({ approval_id }) => approval_id ?? assert.fail("the step waits"))
  const propose = (id: ApprovalId, proposed_arguments: Record<string, Schema.Json>, by = ada) =>
    by.approvals.decide({ params: { id }, payload: { decision: "reject", proposed_arguments } })
  return { ada, admin, agent, ask, ben, params, propose, session_id, setRules, step }
})

layer(service(), { excludeTestServices: true })("Counter-proposals", (it) => {
  it.effect(
    "one later step with exactly the proposed arguments is allowed, and shows where it came from",
    () =>
      Effect.gen(function* () {
        const { ada, agent, ask, params, propose, step } = yield* team("allowed once")
        const id = yield* ask("refund")
        const rejected = yield* propose(id, { amount: 20, currency: "EUR" })
        assert.deepInclude(rejected, { status: "rejected", outcome: "reject", arguments: { amount: 500 } })
        assert.deepInclude(rejected.proposal, { arguments: { amount: 20, currency: "EUR" }, used_by: null })

        // The agent learns it with the rejection.
        const answer = yield* step("refund", { amount: 500 })
        assert.deepInclude(answer, { decision: "reject", decision_source: "human", approval_id: id })
        assert.deepStrictEqual(answer.proposal, rejected.proposal)

        const allowed = yield* step("refund again", { currency: "EUR", amount: 20 })
        assert.deepInclude(allowed, {
          decision: "allow",
          decision_source: "counter_proposal",
          approval_id: id,
          reason: "A person proposed these arguments when rejecting step refund",
          proposal: null
        })
        assert.deepStrictEqual(yield* step("refund again", { amount: 20, currency: "EUR" }), allowed)
        const outcome = { ...params, step_id: allowed.step_id }
        yield* agent.sessions.reportOutcome({ params: outcome, payload: { status: "succeeded" } })

        const used = yield* ada.approvals.get({ params: { id } })
        assert.deepStrictEqual(
          { ...used, proposal: null },
          { ...rejected, proposal: null },
          "the rejected approval is as it was"
        )
        assert.strictEqual(used.proposal?.used_by, allowed.step_id)
        assert.deepInclude(yield* step("a third time", { amount: 20, currency: "EUR" }), {
          decision: "pending",
          decision_source: null
        })
      })
  )

  it.effect.each([
    ["other arguments", { amount: 21 }, {}],
    ["more arguments", { amount: 20, memo: "x" }, {}],
    ["another tool", { amount: 20 }, { tool: "payments.pay" }],
    ["another action class", { amount: 20 }, { action_class: "read" }]
  ] as const)("a step with %s is asked about, and leaves the proposal for its step", ([name, args, other]) =>
    Effect.gen(function* () {
      const { ask, propose, step } = yield* team(`exact: ${name}`)
      yield* propose(yield* ask("refund"), { amount: 20 })
      assert.strictEqual((yield* step("other", args, other)).decision, "pending")
      assert.strictEqual((yield* step("same", { amount: 20 })).decision, "allow")
    })
  )

  it.effect("a proposal of a key that was revoked since allows nothing", () =>
    Effect.gen(function* () {
      const { ada, admin, ask, propose, step } = yield* team("revoked")
      yield* propose(yield* ask("refund"), { amount: 20 })
      const { keys } = yield* admin.apiKeys.list({ query: {} })
      const id = keys.find(({ name }) => name === "Ada")?.id ?? assert.fail("Ada has a key")
      yield* admin.apiKeys.revoke({ params: { id } })
      assert.isTrue(Result.isFailure(yield* Effect.result(ada.approvals.list({ query: {} }))))
      assert.strictEqual((yield* step("same", { amount: 20 })).decision, "pending")
    })
  )

  it.effect("a step of another session is asked about", () =>
    Effect.gen(function* () {
      const { agent, ask, propose } = yield* team("other session")
      yield* propose(yield* ask("refund"), { amount: 20 })
      const { session_id } = yield* agent.sessions.create({})
      const payload = {
        step_id: StepId.make("refund"),
        tool: "payments.refund",
        action_class: "write",
        arguments: { amount: 20 }
      }
      const { decision } = yield* agent.sessions.step({ params: { id: session_id }, payload })
      assert.strictEqual(decision, "pending")
    })
  )

  it.effect(
    "of many concurrent steps with the arguments one is allowed, and repeats get the same answer",
    () =>
      Effect.gen(function* () {
        const { ask, propose, step } = yield* team("concurrent")
        yield* propose(yield* ask("refund"), { amount: 20 })
        const names = Array.from({ length: 10 }, (_, index) => `try ${index}`)
        const answers = yield* Effect.forEach([...names, ...names], (name) => step(name, { amount: 20 }), {
          concurrency: "unbounded"
        })
        const decisions = new Map(answers.map(({ decision, step_id }) => [step_id, decision]))
        assert.deepStrictEqual([...decisions.values()].toSorted(), [
          "allow",
          ...names.slice(1).map(() => "pending")
        ])
        for (const { decision, step_id } of answers) assert.strictEqual(decision, decisions.get(step_id))
      })
  )

  it.effect("two proposals of the same arguments allow two steps", () =>
    Effect.gen(function* () {
      const { ask, propose, step } = yield* team("two proposals")
      yield* propose(yield* ask("first"), { amount: 20 })
      yield* propose(yield* ask("second"), { amount: 20 })
      const decisions = yield* Effect.forEach(["a", "b", "c"], (name) => step(name, { amount: 20 }))
      assert.deepStrictEqual(
        decisions.map(({ decision }) => decision),
        ["allow", "allow", "pending"]
      )
    })
  )

  it.effect(
    "rules that reject win, also over a step that was allowed, and rules that allow use no proposal",
    () =>
      Effect.gen(function* () {
        const { ada, ask, propose, setRules, step } = yield* team("rules win")
        const id = yield* ask("refund")
        yield* propose(id, { amount: 20 })
        yield* setRules([{ effect: "reject", reason: "No refunds" }])
        assert.deepInclude(yield* step("rejected", { amount: 20 }), {
          decision: "reject",
          decision_source: "rule",
          reason: "No refunds",
          approval_id: null
        })
        yield* setRules([{ effect: "allow" }])
        assert.deepInclude(yield* step("allowed by rule", { amount: 20 }), {
          decision: "allow",
          decision_source: "rule"
        })
        assert.isNull((yield* ada.approvals.get({ params: { id } })).proposal?.used_by ?? null)
        yield* setRules(ASKS)
        assert.strictEqual((yield* step("allowed", { amount: 20 })).decision_source, "counter_proposal")
        yield* setRules([{ effect: "reject" }])
        assert.deepInclude(yield* step("allowed", { amount: 20 }), {
          decision: "reject",
          decision_source: "rule"
        })
      })
  )

  it.effect(
    "a proposal of one person does not answer for a quorum, or for a group that they are not in",
    () =>
      Effect.gen(function* () {
        const { client } = yield* Countersign
        const { ada, ask, ben, propose, setRules, step } = yield* team("quorum", [
          { effect: "require_approval", quorum: [{ count: 2 }] }
        ])
        yield* propose(yield* ask("refund"), { amount: 20 })
        const asked = yield* step("two people", { amount: 20 })
        assert.strictEqual(asked.decision, "pending")
        // The votes are counted anew.
        const { approvals_given } = yield* ada.approvals.get({
          params: { id: asked.approval_id ?? assert.fail("the step waits") }
        })
        assert.strictEqual(approvals_given, 0)

        yield* client({ preset: "reviewer", groups: ["legal"] }, "quorum")
        yield* setRules([{ effect: "require_approval", quorum: [{ group: "legal" }] }])
        assert.strictEqual((yield* step("legal", { amount: 20 })).decision, "pending")
        yield* setRules([{ effect: "require_approval", quorum: [{ group: "finance" }] }])
        assert.strictEqual((yield* step("finance", { amount: 20 })).decision, "allow")

        // Of two proposers, the one who may answer does.
        yield* setRules(ASKS)
        yield* propose(yield* ask("by ben"), { amount: 30 }, ben)
        yield* propose(yield* ask("by ada"), { amount: 30 }, ada)
        yield* setRules([{ effect: "require_approval", quorum: [{ group: "finance" }] }])
        assert.strictEqual((yield* step("thirty", { amount: 30 })).decision, "allow")
        assert.strictEqual((yield* step("thirty again", { amount: 30 })).decision, "pending")
      })
  )

  it.effect("a proposer whose key began the session or submits the step cannot thereby allow it", () =>
    Effect.gen(function* () {
      const { admin, agent, ask, params, propose, setRules, step } = yield* team("self")
      const own = yield* admin.sessions.create({})
      const payload = { tool: "payments.refund", action_class: "write" }
      const [mine, theirs] = [{ id: own.session_id }, params]

      // The admin began the session, and the agent submits its steps.
      const { approval_id } = yield* agent.sessions.step({
        params: mine,
        payload: { ...payload, step_id: StepId.make("refund"), arguments: { amount: 500 } }
      })
      yield* propose(approval_id ?? assert.fail("the step waits"), { amount: 20 }, admin)
      const again = { ...payload, step_id: StepId.make("again"), arguments: { amount: 20 } }
      assert.strictEqual((yield* agent.sessions.step({ params: mine, payload: again })).decision, "pending")

      // The agent began the session, and the admin submits the step that they proposed.
      yield* propose(yield* ask("refund"), { amount: 20 }, admin)
      assert.strictEqual((yield* admin.sessions.step({ params: theirs, payload: again })).decision, "pending")
      assert.strictEqual((yield* step("by the agent", { amount: 20 })).decision, "allow")

      yield* setRules([{ effect: "require_approval", self_approval: true }])
      const last = { ...again, step_id: StepId.make("self-approval") }
      assert.strictEqual((yield* admin.sessions.step({ params: mine, payload: last })).decision, "allow")
    })
  )

  describe("requests", () => {
    it.effect("proposed arguments are a JSON object, belong to a rejection, and differ from the step's", () =>
      Effect.gen(function* () {
        const { key } = yield* Countersign
        const { ada, ask } = yield* team("requests")
        const reviewer = yield* key({ preset: "reviewer" }, "requests")
        const id = yield* ask("refund", { amount: 500, memo: null })
        const post = (body: string) =>
          send(`/v1/agent-approvals/${id}/decide`, { method: "POST", key: reviewer, body })
        for (const proposed of ["[1]", '"text"', "1", "null"]) {
          const { errors, status } = yield* post(`{"decision":"reject","proposed_arguments":${proposed}}`)
          assert.deepStrictEqual(
            [status, ...errors.map(({ pointer }) => pointer)],
            [400, "#/proposed_arguments"]
          )
        }
        const deep = `{"decision":"reject","proposed_arguments":{"a":${"[".repeat(70)}${"]".repeat(70)}}}`
        assert.strictEqual((yield* post(deep)).status, 400)
        const surrogate = String.raw`{"decision":"reject","proposed_arguments":{"a":"\ud800"}}`
        assert.strictEqual((yield* post(surrogate)).status, 400)
        for (const payload of [
          { decision: "approve", proposed_arguments: { amount: 20 } },
          { decision: "reject", proposed_arguments: { memo: null, amount: 500 } }
        ] as const) {
          const problem = yield* Effect.flip(ada.approvals.decide({ params: { id }, payload }))
          assert.strictEqual(problem._tag, "INVALID_REQUEST")
          assert.deepStrictEqual(pointersOf(problem), ["#/proposed_arguments"])
        }
        const { proposal, status } = yield* ada.approvals.get({ params: { id } })
        assert.deepStrictEqual([status, proposal], ["pending", null])
      })
    )

    it.effect("a repeated rejection keeps its proposal, and another proposal is refused", () =>
      Effect.gen(function* () {
        const { ada, ask, ben, propose } = yield* team("repeated")
        const id = yield* ask("refund")
        const rejected = yield* propose(id, { amount: 20 })
        assert.deepStrictEqual(yield* propose(id, { amount: 20 }), rejected)
        assert.deepStrictEqual(
          yield* ada.approvals.decide({ params: { id }, payload: { decision: "reject" } }),
          rejected
        )
        for (const refused of [propose(id, { amount: 30 }), propose(id, { amount: 20 }, ben)]) {
          const problem = yield* Effect.flip(refused)
          assert.strictEqual(problem._tag, "APPROVAL_ALREADY_DECIDED")
        }
        assert.deepStrictEqual(yield* ada.approvals.get({ params: { id } }), rejected)
      })
    )

    it.effect("of concurrent proposals one is recorded, and it alone allows a step", () =>
      Effect.gen(function* () {
        const { ada, ask, ben, propose, step } = yield* team("race")
        const id = yield* ask("refund")
        const amounts = [10, 20, 30, 40]
        const results = yield* Effect.forEach(
          amounts,
          (amount, index) => Effect.result(propose(id, { amount }, index % 2 === 0 ? ada : ben)),
          { concurrency: "unbounded" }
        )
        assert.lengthOf(results.filter(Result.isSuccess), 1)
        const decisions = yield* Effect.forEach(amounts, (amount) => step(`refund ${amount}`, { amount }))
        assert.deepStrictEqual(
          decisions.map(({ decision }) => decision === "allow"),
          results.map(Result.isSuccess)
        )
      })
    )

    it.effect("large arguments are proposed and used like small ones", () =>
      Effect.gen(function* () {
        const { ask, propose, step } = yield* team("large")
        const large = { rows: Array.from({ length: 40_000 }, (_, index) => `row ${index} of a large table`) }
        yield* propose(yield* ask("refund", { rows: [] }), large)
        assert.deepInclude((yield* step("refund", { rows: [] })).proposal, { arguments: large })
        assert.strictEqual((yield* step("again", large)).decision, "allow")
      })
    )
  })

  describe("records", () => {
    it.effect("events, webhooks and lists of many tell of a proposal without its arguments", () =>
      Effect.gen(function* () {
        const { admin, ask, propose, session_id, step } = yield* team("records")
        yield* admin.notificationEndpoints.create({ payload: { url: "http://127.0.0.1:9/hook" } })
        const id = yield* ask("refund")
        const secret = "proposed-only-here"
        const { proposal } = yield* propose(id, { memo: secret })
        const allowed = yield* step("again", { memo: secret })
        assert.strictEqual(allowed.decision, "allow")
        const sql = yield* SqlClient.SqlClient
        const events = yield* sql<{ readonly type: string; readonly data: Record<string, unknown> }>`
          SELECT type, data
          FROM session_events
          WHERE session_id = ${session_id}
          ORDER BY number
        `
        assert.deepStrictEqual(
          events.map(({ type }) => type),
          ["step:governed", "approval:requested", "approval:decided", "step:governed"]
        )
        const [, , decided, governed] = events
        assert.deepInclude(decided?.data["approval"], {
          proposal: { expires_at: JSON.parse(JSON.stringify(proposal?.expires_at)), used_by: null }
        })
        assert.deepInclude(governed?.data, {
          decision: "allow",
          decision_source: "counter_proposal",
          approval_id: id
        })
        const bodies = yield* sql<{ readonly text: string }>`
          SELECT convert_from(body, 'UTF8') AS text FROM approval_events WHERE approval_id = ${id}
        `
        assert.lengthOf(bodies, 2)
        const audit = yield* sql<{ readonly detail: Record<string, unknown> }>`
          SELECT detail FROM audit_log WHERE target_id = ${id}
        `
        assert.match(String(audit[0]?.detail["proposed_digest"]), /^[0-9a-f]{64}$/)
        assert.notInclude(JSON.stringify([events, bodies, audit]), secret)
        const { approvals } = yield* admin.approvals.list({ query: {} })
        assert.deepInclude(approvals[0]?.proposal, { arguments: { memo: secret }, used_by: allowed.step_id })
      })
    )

    it.effect("steps share their statement while their session has no unused proposal", () =>
      Effect.gen(function* () {
        const { ask, propose, session_id, step } = yield* team("shared")
        const sql = yield* SqlClient.SqlClient
        const steps = yield* Steps
        const [session] = yield* sql<{ readonly org_id: OrgId; readonly created_by_id: KeyId }>`
          SELECT org_id, created_by_id FROM agent_sessions WHERE session_id = ${session_id}
        `
        if (session === undefined) return assert.fail("the session exists")
        const agent: Principal = {
          org_id: session.org_id,
          actor: { id: session.created_by_id, name: "agent" },
          scopes: new Set(),
          groups: [],
          keyMakers: [],
          makers: []
        }
        /** How many transactions wrote a dozen concurrent steps. */
        const transactionsOf = Effect.fnUntraced(function* (prefix: string) {
          const names = Array.from({ length: 12 }, (_, index) => StepId.make(`${prefix} ${index}`))
          yield* Effect.forEach(
            names,
            (step_id) => steps.check(session_id, { step_id, tool: "any", action_class: "any" }),
            { concurrency: "unbounded" }
          ).pipe(Effect.provideService(Authorized("sessions.write"), agent))
          const [row] = yield* sql<{ readonly count: number }>`
            SELECT count(DISTINCT xmin::text)::int AS count
            FROM governed_steps
            WHERE session_id = ${session_id}
              AND step_id LIKE ${`${prefix} %`}
          `
          return row?.count ?? 0
        })
        assert.isAtMost(yield* transactionsOf("before"), 2)
        yield* propose(yield* ask("refund"), { amount: 20 })
        assert.strictEqual(yield* transactionsOf("while open"), 12)
        assert.strictEqual((yield* step("used", { amount: 20 })).decision, "allow")
        assert.isAtMost(yield* transactionsOf("after"), 2)
      })
    )

    it.effect("a deleted session frees what its proposals have taken", () =>
      Effect.gen(function* () {
        const { ask, propose } = yield* team("freed")
        const id = yield* ask("refund")
        const sql = yield* SqlClient.SqlClient
        const bytes = Effect.map(
          sql<{ readonly arguments_bytes: number }>`
            SELECT arguments_bytes FROM approvals WHERE approval_id = ${id}
          `,
          ([row]) => row?.arguments_bytes
        )
        assert.strictEqual(yield* bytes, '{"amount":500}'.length)
        yield* propose(id, { amount: 20 })
        assert.strictEqual(yield* bytes, '{"amount":500}{"amount":20}'.length)
      })
    )
  })
})

layer(service(), { timeout: "60 seconds" })("Counter-proposals › time", (it) => {
  it.effect("a proposal allows a step within an hour, and none after it", () =>
    Effect.gen(function* () {
      const { advance } = yield* Countersign
      const { ask, propose, step } = yield* team("expiry", [
        { effect: "require_approval", review_seconds: 86_400 }
      ])
      yield* propose(yield* ask("first"), { amount: 20 })
      yield* advance("59 minutes")
      assert.strictEqual((yield* step("in time", { amount: 20 })).decision, "allow")
      yield* propose(yield* ask("second"), { amount: 20 })
      yield* advance("30 minutes")
      // A later proposal does not prolong the one before.
      yield* propose(yield* ask("third"), { amount: 30 })
      yield* advance("30 minutes")
      assert.strictEqual((yield* step("too late", { amount: 20 })).decision, "pending")
      assert.strictEqual((yield* step("thirty", { amount: 30 })).decision, "allow")
      yield* propose(yield* ask("fourth"), { amount: 20 })
      yield* advance("60 minutes")
      assert.strictEqual((yield* step("too late again", { amount: 20 })).decision, "pending")
    })
  )
})
