import { assert, layer } from "@effect/vitest"
import { DateTime, Effect, Redacted, Result, type Schema } from "effect"
import { SqlClient } from "effect/sql"
import type { NewApprovalRule } from "../../../src/api/ApprovalRules.ts"
import type { GrantFilter, NewGrant } from "../../../src/api/Grants.ts"
import { type GrantId, type SessionId, StepId } from "../../../src/domain/Ids.ts"
import type { PageRequest } from "../../../src/api/Pagination.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { eventually } from "../../support/eventually.ts"
import { clientMadeBy, pointersOf, service } from "../../support/service.ts"

type Client = Effect.Success<ReturnType<Countersign["Service"]["client"]>>

/** How a step is submitted: by default by the agent, in its session, under a new id. */
interface Submission {
  readonly by?: Client
  readonly session?: SessionId
  readonly step_id?: string
  readonly tool?: string
}

/** An organization whose steps wait for a person, with an agent, a reviewer in finance and one in no group. */
const team = Effect.fnUntraced(function* (
  organization: string,
  rules: ReadonlyArray<NewApprovalRule> = [{ effect: "require_approval" }]
) {
  const countersign = yield* Countersign
  const admin = yield* countersign.client({ name: "owner" }, organization)
  const agent = yield* clientMadeBy(admin, { preset: "runtime", name: "agent" })
  const finance = yield* countersign.client(
    { preset: "reviewer", name: "Fay", groups: ["finance"] },
    organization
  )
  const reviewer = yield* countersign.client({ preset: "reviewer", name: "Ada" }, organization)
  const setRules = (list: ReadonlyArray<NewApprovalRule>) =>
    admin.approvalRules.replace({ payload: { rules: list } })
  yield* setRules(rules)
  const { session_id } = yield* agent.sessions.create({})
  let steps = 0

  const submit = (stepArguments?: Schema.Json, options: Submission = {}) =>
    (options.by ?? agent).sessions.step({
      params: { id: options.session ?? session_id },
      payload: {
        step_id: StepId.make(options.step_id ?? `step ${++steps}`),
        tool: options.tool ?? "payments.refund",
        action_class: "write",
        ...(stepArguments === undefined ? {} : { arguments: stepArguments })
      }
    })
  /** Submits a step that waits, and approves it with a grant. */
  const grantFor = Effect.fnUntraced(function* (
    grant: NewGrant,
    stepArguments?: Schema.Json,
    { by = reviewer, ...options }: Omit<Submission, "step_id"> = {}
  ) {
    const { approval_id } = yield* submit(stepArguments, options)
    const id = approval_id ?? assert.fail("the step waits")
    const decided = yield* by.approvals.decide({ params: { id }, payload: { decision: "approve", grant } })
    return decided.grant ?? assert.fail("a grant was made")
  })
  const decisionOf = (stepArguments?: Schema.Json, options?: Submission) =>
    Effect.map(submit(stepArguments, options), ({ decision }) => decision)
  return { admin, agent, decisionOf, finance, grantFor, reviewer, session_id, setRules, submit }
})

const audits = Effect.fnUntraced(function* (target_id: string) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<{ readonly action: string; readonly actor_name: string }>`
    SELECT action, actor_name
    FROM audit_log
    WHERE target_id = ${target_id}
    ORDER BY entry_id
  `
})

layer(service(), { excludeTestServices: true, timeout: "60 seconds" })("Grants", (it) => {
  it.effect("a repeated decision gets the same grant, and one with another grant is refused", () =>
    Effect.gen(function* () {
      const { reviewer, submit } = yield* team("repeated decision")
      const atMost = (value: number) => [{ pointer: "/amount", op: "at_most" as const, value }]
      const small: NewGrant = { scope: "condition", when: atMost(20), max_uses: 2, lasts_seconds: 60 }
      const cases: ReadonlyArray<readonly [NewGrant, ReadonlyArray<NewGrant>]> = [
        [
          { scope: "arguments" },
          [{ scope: "tool" }, { scope: "arguments", max_uses: 1 }, { scope: "arguments", lasts_seconds: 60 }]
        ],
        [small, [{ ...small, when: atMost(10) }]]
      ]
      for (const [made, others] of cases) {
        const { approval_id } = yield* submit({ amount: 5 })
        const id = approval_id ?? assert.fail("the step waits")
        const decide = (grant: NewGrant) =>
          reviewer.approvals.decide({ params: { id }, payload: { decision: "approve", grant } })
        const { grant } = yield* decide(made)
        for (const other of others)
          assert.strictEqual((yield* Effect.flip(decide(other)))._tag, "APPROVAL_ALREADY_DECIDED")
        assert.deepStrictEqual((yield* decide(made)).grant, grant)
        yield* reviewer.grants.revoke({ params: { id: grant?.grant_id ?? assert.fail("a grant was made") } })
        assert.strictEqual((yield* decide(made)).grant?.status, "revoked")
      }
    })
  )

  it.effect("a grant for these very arguments allows equal ones only, and each step shows it", () =>
    Effect.gen(function* () {
      const { decisionOf, grantFor, reviewer, session_id, submit } = yield* team("arguments")
      const grant = yield* grantFor(
        { scope: "arguments", reason: "The order exists" },
        { order: "4711", amount: 10 }
      )
      assert.deepInclude(grant, {
        status: "active",
        session_id,
        scope: "arguments",
        tool: "payments.refund",
        action_class: "write",
        when: [],
        reason: "The order exists",
        uses: 0,
        max_uses: null,
        last_used_at: null,
        ended_at: null,
        revoked_by: null
      })
      assert.strictEqual(grant.created_by.name, "Ada")
      assert.strictEqual(
        DateTime.toEpochMillis(grant.expires_at) - DateTime.toEpochMillis(grant.created_at),
        3_600_000
      )

      const allowed = yield* submit({ amount: 1e1, order: "4711" }, { step_id: "again" })
      assert.deepInclude(allowed, {
        decision: "allow",
        decision_source: "grant",
        grant_id: grant.grant_id,
        approval_id: null,
        reason: "Allowed by a standing grant: The order exists"
      })
      assert.strictEqual(yield* decisionOf({ order: "4712", amount: 10 }), "pending")
      assert.strictEqual(yield* decisionOf(), "pending")
      assert.strictEqual(
        yield* decisionOf({ order: "4711", amount: 10 }, { tool: "payments.pay" }),
        "pending"
      )

      // Repeated, it is the same step: it uses the grant once.
      assert.deepStrictEqual(yield* submit({ order: "4711", amount: 10 }, { step_id: "again" }), allowed)
      const used = yield* reviewer.grants.get({ params: { id: grant.grant_id } })
      assert.strictEqual(used.uses, 1)
      assert.isNotNull(used.last_used_at)
    })
  )

  it.effect("absent arguments, null and an empty object are different arguments", () =>
    Effect.gen(function* () {
      const { decisionOf, grantFor } = yield* team("absent arguments")
      yield* grantFor({ scope: "arguments" })
      assert.strictEqual(yield* decisionOf(), "allow")
      assert.strictEqual(yield* decisionOf(null), "pending")
      assert.strictEqual(yield* decisionOf({}), "pending")
    })
  )

  it.effect("a grant for the tool allows any arguments in its session, and in no other", () =>
    Effect.gen(function* () {
      const { agent, decisionOf, grantFor } = yield* team("tool")
      yield* grantFor({ scope: "tool" }, { amount: 1 })
      assert.strictEqual(yield* decisionOf({ amount: 2 }), "allow")
      assert.strictEqual(yield* decisionOf(), "allow")
      const { session_id: session } = yield* agent.sessions.create({})
      assert.strictEqual(yield* decisionOf({ amount: 1 }, { session }), "pending")
      // Also if that session has a grant of its own, for another tool.
      yield* grantFor({ scope: "tool" }, 1, { session, tool: "payments.pay" })
      assert.strictEqual(yield* decisionOf({ amount: 1 }, { session, tool: "payments.pay" }), "allow")
      assert.strictEqual(yield* decisionOf({ amount: 1 }, { session }), "pending")
    })
  )

  it.effect("a grant with conditions allows what they hold for; what cannot be judged asks", () =>
    Effect.gen(function* () {
      const { decisionOf, grantFor, reviewer } = yield* team("condition")
      const grant = yield* grantFor(
        { scope: "condition", when: [{ pointer: "/amount", op: "at_most", value: 100 }] },
        { amount: 99 }
      )
      assert.strictEqual(yield* decisionOf({ amount: 100 }), "allow")
      assert.strictEqual(yield* decisionOf({ amount: 101 }), "pending")
      assert.strictEqual(yield* decisionOf({ amount: "100" }), "pending")
      assert.strictEqual(yield* decisionOf({}), "pending")
      const { uses, when } = yield* reviewer.grants.get({ params: { id: grant.grant_id } })
      assert.strictEqual(uses, 1)
      assert.deepStrictEqual(when, [{ pointer: "/amount", op: "at_most", value: 100 }])
    })
  )

  it.effect("a rule that rejects wins, and a rule that allows uses no grant", () =>
    Effect.gen(function* () {
      const { grantFor, reviewer, setRules, submit } = yield* team("rules win")
      const grant = yield* grantFor({ scope: "tool" })
      const before = yield* submit(1, { step_id: "before" })
      assert.strictEqual(before.decision, "allow")
      yield* setRules([{ effect: "reject", reason: "Stop" }])
      assert.deepInclude(yield* submit(2), {
        decision: "reject",
        decision_source: "rule",
        grant_id: null
      })
      // Also for a step that the grant has allowed before.
      assert.deepInclude(yield* submit(1, { step_id: "before" }), {
        decision: "reject",
        decision_source: "rule",
        grant_id: null
      })
      yield* setRules([{ effect: "allow" }])
      assert.deepInclude(yield* submit(3), { decision: "allow", decision_source: "rule", grant_id: null })
      const { uses } = yield* reviewer.grants.get({ params: { id: grant.grant_id } })
      assert.strictEqual(uses, 1)
    })
  )

  it.effect("a rule that cannot be judged asks a person, whatever was granted", () =>
    Effect.gen(function* () {
      const { decisionOf, grantFor } = yield* team("unjudged", [
        { effect: "reject", when: [{ pointer: "/to", op: "ends_with", value: "@evil.com" }] },
        { effect: "require_approval" }
      ])
      yield* grantFor({ scope: "tool" }, { to: "ada@acme.com" })
      assert.strictEqual(yield* decisionOf({ to: "eve@acme.com" }), "allow")
      assert.strictEqual(yield* decisionOf({ to: "eve@evil.com" }), "reject")
      assert.strictEqual(yield* decisionOf({ to: ["eve@evil.com"] }), "pending")
    })
  )

  it.effect("a grant allows exactly as many steps as its count", () =>
    Effect.gen(function* () {
      const { decisionOf, grantFor, reviewer } = yield* team("count")
      const grant = yield* grantFor({ scope: "tool", max_uses: 2 })
      const decisions = yield* Effect.forEach([1, 2, 3, 4, 5, 6], (n) => decisionOf(n), {
        concurrency: "unbounded"
      })
      assert.strictEqual(decisions.filter((decision) => decision === "allow").length, 2)
      assert.deepInclude(yield* reviewer.grants.get({ params: { id: grant.grant_id } }), {
        status: "used_up",
        uses: 2
      })
    })
  )

  it.effect("of several grants that allow a step the narrowest is used up first", () =>
    Effect.gen(function* () {
      const { reviewer, submit } = yield* team("narrow first")
      const waiting = yield* Effect.forEach([1, 2, 3], () => submit({ amount: 10 }))
      const scopes: ReadonlyArray<NewGrant> = [
        { scope: "tool" },
        { scope: "condition", when: [{ pointer: "/amount", op: "at_most", value: 10 }] },
        { scope: "arguments" }
      ]
      const made = new Map<GrantId | null, string>()
      for (const [index, { approval_id }] of waiting.entries()) {
        const { grant } = yield* reviewer.approvals.decide({
          params: { id: approval_id ?? assert.fail("the step waits") },
          payload: { decision: "approve", grant: { ...scopes[index]!, max_uses: 1 } }
        })
        if (grant === undefined) return assert.fail("a grant was made")
        made.set(grant.grant_id, grant.scope)
      }
      const steps = yield* Effect.forEach([1, 2, 3, 4], () => submit({ amount: 10 }))
      assert.deepStrictEqual(
        steps.map(({ grant_id }) => made.get(grant_id)),
        ["arguments", "condition", "tool", undefined]
      )
      assert.deepStrictEqual(
        steps.map(({ decision }) => decision),
        ["allow", "allow", "allow", "pending"]
      )
    })
  )

  it.effect("a revoked grant allows no further step, and what it has allowed stays allowed", () =>
    Effect.gen(function* () {
      const { decisionOf, finance, grantFor, submit } = yield* team("revoked")
      const { grant_id } = yield* grantFor({ scope: "tool" })
      const allowed = yield* submit(1, { step_id: "first" })
      const revoked = yield* finance.grants.revoke({ params: { id: grant_id } })
      assert.deepInclude(revoked, { status: "revoked", uses: 1 })
      assert.strictEqual(revoked.revoked_by?.name, "Fay")
      assert.deepStrictEqual(yield* finance.grants.revoke({ params: { id: grant_id } }), revoked)
      assert.strictEqual(yield* decisionOf(2), "pending")
      assert.deepStrictEqual(yield* submit(1, { step_id: "first" }), allowed)
      assert.deepStrictEqual(
        (yield* audits(grant_id)).map(({ action, actor_name }) => `${action} by ${actor_name}`),
        ["grant.created by Ada", "grant.revoked by Fay"]
      )
    })
  )

  it.effect("a grant ends with its session", () =>
    Effect.gen(function* () {
      const { agent, grantFor, reviewer, session_id } = yield* team("closed")
      const { grant_id } = yield* grantFor({ scope: "tool" })
      yield* agent.sessions.close({ params: { id: session_id } })
      const ended = yield* reviewer.grants.get({ params: { id: grant_id } })
      assert.strictEqual(ended.status, "session_closed")
      assert.isNotNull(ended.ended_at)
      assert.strictEqual(
        (yield* reviewer.grants.revoke({ params: { id: grant_id } })).status,
        "session_closed"
      )
    })
  )

  it.effect("a grant of a key that was revoked allows nothing", () =>
    Effect.gen(function* () {
      const { admin, decisionOf, grantFor, reviewer } = yield* team("key")
      const grant = yield* grantFor({ scope: "tool" })
      assert.strictEqual(yield* decisionOf(1), "allow")
      yield* admin.apiKeys.revoke({ params: { id: grant.created_by.id } })
      assert.strictEqual(yield* decisionOf(2), "pending")
      const found = yield* admin.grants.get({ params: { id: grant.grant_id } })
      assert.strictEqual(found.status, "key_unusable")
      const refused = yield* Effect.result(reviewer.grants.list({ query: {} }))
      assert.isTrue(Result.isFailure(refused))
    })
  )

  it.effect(
    "a grant of a key never allows steps of that key, of keys that made it, or of their sessions",
    () =>
      Effect.gen(function* () {
        const countersign = yield* Countersign
        const { admin, decisionOf, setRules, submit } = yield* team("self")
        const session = (yield* admin.sessions.create({})).session_id
        const made = yield* admin.apiKeys.create({ payload: { name: "second", preset: "reviewer" } })
        const second = yield* countersign.clientWith(Redacted.make(made.secret))
        const { approval_id } = yield* submit(1, { session })
        const id = approval_id ?? assert.fail("the step waits")
        const { grant } = yield* second.approvals.decide({
          params: { id },
          payload: { decision: "approve", grant: { scope: "tool" } }
        })
        // The owner's key began the session, and has made the key that granted.
        assert.strictEqual(yield* decisionOf(2, { session }), "pending")
        assert.strictEqual(yield* decisionOf(3, { session, by: admin }), "pending")
        yield* setRules([{ effect: "require_approval", self_approval: true }])
        assert.deepInclude(yield* submit(4, { session, by: admin }), {
          decision: "allow",
          grant_id: grant?.grant_id ?? null
        })
      })
  )

  it.effect("a step of the granting key itself asks, also in a session of the agent", () =>
    Effect.gen(function* () {
      const { admin, decisionOf, grantFor } = yield* team("own step")
      yield* grantFor({ scope: "tool" }, 1, { by: admin })
      assert.strictEqual(yield* decisionOf(2, { by: admin }), "pending")
      assert.strictEqual(yield* decisionOf(3), "allow")
    })
  )

  it.effect("a grant replaces one person who could have approved: no quorum, no other group", () =>
    Effect.gen(function* () {
      const { decisionOf, finance, grantFor, setRules } = yield* team("quorum")
      yield* grantFor({ scope: "tool" }, 1)
      yield* setRules([{ effect: "require_approval", quorum: [{ count: 2 }] }])
      assert.strictEqual(yield* decisionOf(2), "pending")
      yield* setRules([{ effect: "require_approval", quorum: [{ group: "finance" }] }])
      assert.strictEqual(yield* decisionOf(3), "pending")
      yield* grantFor({ scope: "tool" }, 4, { by: finance })
      assert.strictEqual(yield* decisionOf(5), "allow")
    })
  )

  it.effect("a grant with an approval of several people is refused, and no vote is recorded", () =>
    Effect.gen(function* () {
      const { reviewer, submit } = yield* team("refused", [
        { effect: "require_approval", quorum: [{ count: 2 }] }
      ])
      const { approval_id } = yield* submit(1)
      const params = { id: approval_id ?? assert.fail("the step waits") }
      const payload = { decision: "approve", grant: { scope: "tool" } } as const
      const refused = yield* Effect.flip(reviewer.approvals.decide({ params, payload }))
      assert.strictEqual(refused._tag, "GRANT_NOT_ALLOWED")
      const { approvals_given, status } = yield* reviewer.approvals.get({ params })
      assert.deepStrictEqual([status, approvals_given], ["pending", 0])
    })
  )

  it.effect("the same decision again returns its grant; a grant cannot be added later", () =>
    Effect.gen(function* () {
      const { finance, reviewer, submit } = yield* team("idempotent")
      const { approval_id } = yield* submit(1)
      const params = { id: approval_id ?? assert.fail("the step waits") }
      const payload = { decision: "approve", grant: { scope: "tool", max_uses: 3 } } as const
      const first = yield* reviewer.approvals.decide({ params, payload })
      assert.deepStrictEqual(yield* reviewer.approvals.decide({ params, payload }), first)
      const late = yield* Effect.flip(finance.approvals.decide({ params, payload }))
      assert.strictEqual(late._tag, "APPROVAL_ALREADY_DECIDED")
      const { grants } = yield* reviewer.grants.list({ query: {} })
      assert.strictEqual(grants.length, 1)

      const second = yield* submit(2, { tool: "other" })
      const other = { id: second.approval_id ?? assert.fail("the step waits") }
      const plain = yield* reviewer.approvals.decide({ params: other, payload: { decision: "approve" } })
      assert.notProperty(plain, "grant")
      const added = yield* Effect.flip(reviewer.approvals.decide({ params: other, payload }))
      assert.strictEqual(added._tag, "APPROVAL_ALREADY_DECIDED")
    })
  )

  it.effect("a grant that makes no sense is refused with its place, and nothing is decided", () =>
    Effect.gen(function* () {
      const { reviewer, submit } = yield* team("invalid")
      const { approval_id } = yield* submit({ amount: 5 })
      const params = { id: approval_id ?? assert.fail("the step waits") }
      const at = (pointer: string, value: number) => ({ pointer, op: "at_most", value }) as const
      const faults: ReadonlyArray<readonly [string, "approve" | "reject", NewGrant]> = [
        ["#/grant", "reject", { scope: "tool" }],
        ["#/grant/when", "approve", { scope: "condition" }],
        ["#/grant/when", "approve", { scope: "tool", when: [at("/amount", 9)] }],
        // The conditions do not hold for the step that is approved, or cannot be judged.
        ["#/grant/when", "approve", { scope: "condition", when: [at("/amount", 4)] }],
        ["#/grant/when", "approve", { scope: "condition", when: [at("/price", 4)] }],
        [
          "#/grant/when/1/value",
          "approve",
          {
            scope: "condition",
            when: [at("/amount", 9), { pointer: "/note", op: "matches", value: "(" }]
          }
        ]
      ]
      for (const [pointer, decision, grant] of faults) {
        const refused = yield* Effect.flip(
          reviewer.approvals.decide({ params, payload: { decision, grant } })
        )
        assert.strictEqual(refused._tag, "INVALID_REQUEST", pointer)
        assert.deepStrictEqual(pointersOf(refused), [pointer])
      }
      assert.strictEqual((yield* reviewer.approvals.get({ params })).status, "pending")
      assert.deepStrictEqual((yield* reviewer.grants.list({ query: {} })).grants, [])
    })
  )

  it.effect("limits the active grants of a session", () =>
    Effect.gen(function* () {
      const { grantFor, reviewer, submit } = yield* team("limit")
      const grants = yield* Effect.forEach(Array.from({ length: 20 }), (_, index) =>
        grantFor({ scope: "arguments" }, index, { tool: `tool ${index}` })
      )
      const { approval_id } = yield* submit(20)
      const params = { id: approval_id ?? assert.fail("the step waits") }
      const payload = { decision: "approve", grant: { scope: "tool" } } as const
      const refused = yield* Effect.flip(reviewer.approvals.decide({ params, payload }))
      assert.strictEqual(refused._tag, "LIMIT_REACHED")
      assert.strictEqual((yield* reviewer.approvals.get({ params })).status, "pending")
      yield* reviewer.grants.revoke({ params: { id: grants[3]?.grant_id ?? assert.fail("a grant") } })
      assert.strictEqual((yield* reviewer.approvals.decide({ params, payload })).grant?.status, "active")
    })
  )

  it.effect("limits the active grants of an organization; ended ones do not count", () =>
    Effect.gen(function* () {
      const { reviewer, submit } = yield* team("organization limit")
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        INSERT INTO grants (
          org_id, grant_id, session_id, approval_id, step_id, scope, tool, action_class, conditions, reason, created_at,
          created_by_id, created_by_name, expires_at
        )
        SELECT
          org_id, 'grt_' || lpad(to_hex(number), 32, '0'), 'other', 'approval ' || number, 'step', 'tool', 'pay', 'write', '[]', '',
          now(), 'key', 'key', now() + interval '1 hour'
        FROM organizations, generate_series(1, 1000) AS number
        WHERE name = 'organization limit'
      `
      const { approval_id } = yield* submit(1)
      const params = { id: approval_id ?? assert.fail("the step waits") }
      const payload = { decision: "approve", grant: { scope: "tool" } } as const
      const refused = yield* Effect.flip(reviewer.approvals.decide({ params, payload }))
      assert.strictEqual(refused._tag, "LIMIT_REACHED")
      yield* sql`
        UPDATE grants
        SET ended_at = now(), end_reason = 'revoked'
        WHERE approval_id = 'approval 7'
      `
      const decided = yield* reviewer.approvals.decide({ params, payload })
      assert.strictEqual(decided.grant?.status, "active")
    })
  )

  it.effect("lists pages of grants, newest first, by session, tool and state", () =>
    Effect.gen(function* () {
      const { agent, grantFor, reviewer, session_id } = yield* team("list")
      const make = (tool: string) =>
        Effect.map(grantFor({ scope: "tool" }, 1, { tool }), ({ grant_id }) => grant_id)
      const a = yield* make("a")
      const b = yield* make("b")
      const c = yield* make("c")
      yield* reviewer.grants.revoke({ params: { id: b } })
      const list = (query: PageRequest<GrantId> & GrantFilter) =>
        Effect.map(reviewer.grants.list({ query }), ({ grants, next_cursor }) => ({
          ids: grants.map(({ grant_id }) => grant_id),
          next_cursor
        }))
      const first = yield* list({ limit: 2 })
      assert.deepStrictEqual(first.ids, [c, b])
      const cursor = first.next_cursor ?? assert.fail("there is another page")
      assert.deepStrictEqual(yield* list({ limit: 2, cursor }), { ids: [a], next_cursor: null })
      assert.deepStrictEqual((yield* list({ state: "active" })).ids, [c, a])
      assert.deepStrictEqual((yield* list({ state: "ended" })).ids, [b])
      assert.deepStrictEqual((yield* list({ tool: "a", session_id })).ids, [a])
      const other = yield* agent.sessions.create({})
      assert.deepStrictEqual((yield* list({ session_id: other.session_id })).ids, [])
    })
  )

  it.effect("steps of a session without active grants are written by one statement, as before", () =>
    Effect.gen(function* () {
      const { agent, decisionOf, grantFor, session_id } = yield* team("one statement")
      const sql = yield* SqlClient.SqlClient
      /** Whether the step and its approval were inserted by a statement of its own, which is the first of its transaction. */
      const isShared = Effect.fnUntraced(function* (session: SessionId, step_id: string) {
        assert.strictEqual(yield* decisionOf(step_id, { session, step_id }), "pending")
        const rows = yield* sql<{ readonly shared: boolean }>`
          SELECT step.xmin = approval.xmin AND step.cmin = '0' AND approval.cmin = '0' AS shared
          FROM governed_steps AS step
            JOIN approvals AS approval USING (org_id, approval_id)
          WHERE step.session_id = ${session}
            AND step.step_id = ${step_id}
        `
        return rows[0]?.shared
      })
      const other = yield* agent.sessions.create({})
      assert.isTrue(yield* isShared(session_id, "before"))
      yield* grantFor({ scope: "arguments" }, "granted")
      assert.isFalse(yield* isShared(session_id, "while there is a grant"))
      assert.isTrue(yield* isShared(other.session_id, "in another session"))
      // As time passes, however long the steps before took.
      const past = sql`now() - interval '1 second'`
      yield* sql`UPDATE grants SET expires_at = ${past} WHERE session_id = ${session_id}`
      yield* sql`UPDATE agent_sessions SET grants_until = ${past} WHERE session_id = ${session_id}`
      assert.isTrue(yield* isShared(session_id, "after the grant has expired"))
    })
  )

  it.effect("the grants of a session are deleted with it", () =>
    Effect.gen(function* () {
      const { admin, agent, grantFor } = yield* team("deleted")
      const { session_id: session } = yield* agent.sessions.create({
        payload: { metadata: { customer: "4711" } }
      })
      const deleted = yield* grantFor({ scope: "tool" }, 1, { session })
      const kept = yield* grantFor({ scope: "tool" }, 1)
      const { id } = yield* admin.deletions.erase({
        payload: { metadata_key: "customer", metadata_value: "4711" }
      })
      yield* eventually(admin.deletions.get({ params: { id } }), ({ deleted }) => deleted.sessions === 1)
      const { grants } = yield* admin.grants.list({ query: {} })
      assert.deepStrictEqual(
        grants.map(({ grant_id }) => grant_id),
        [kept.grant_id]
      )
      const missing = yield* Effect.flip(admin.grants.get({ params: { id: deleted.grant_id } }))
      assert.strictEqual(missing._tag, "NOT_FOUND")
    })
  )

  it.effect("the events of a session tell which grant allowed a step", () =>
    Effect.gen(function* () {
      const { grantFor, session_id, submit } = yield* team("events")
      const { grant_id } = yield* grantFor({ scope: "tool" })
      yield* submit(1, { step_id: "granted" })
      const sql = yield* SqlClient.SqlClient
      const rows = yield* sql<{ readonly data: Record<string, unknown> }>`
        SELECT data
        FROM session_events
        WHERE session_id = ${session_id}
          AND type = 'step:governed'
          AND step_id = 'granted'
      `
      assert.strictEqual(rows.length, 1)
      assert.deepInclude(rows[0]?.data, { decision: "allow", decision_source: "grant", grant_id })
    })
  )
})
