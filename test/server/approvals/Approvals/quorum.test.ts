import { assert, layer } from "@effect/vitest"
import { Effect, Redacted, Result } from "effect"
import { SqlClient } from "effect/sql"
import type { NewQuorumPart } from "../../../../src/api/ApprovalRules.ts"
import { StepId } from "../../../../src/domain/Ids.ts"
import { Deadlines } from "../../../../src/server/approvals/Deadlines.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { pointersOf, send, service } from "../../../support/service.ts"

const financeAndLegal: ReadonlyArray<NewQuorumPart> = [{ group: "finance" }, { group: "legal" }]

/** An organization with an agent, an admin, and a reviewer's key for each list of groups, in order. */
const team = Effect.fnUntraced(function* (
  organization: string,
  ...groups: ReadonlyArray<ReadonlyArray<string>>
) {
  const countersign = yield* Countersign
  const admin = yield* countersign.client({}, organization)
  const agent = yield* countersign.client({ preset: "runtime" }, organization)
  const reviewers = yield* Effect.forEach(groups, (list, index) =>
    countersign.client({ preset: "reviewer", name: `reviewer ${index}`, groups: list }, organization)
  )
  const { session_id } = yield* agent.sessions.create({})
  const params = { id: session_id }
  /** Sets the quorum of every step, and submits one. */
  const ask = Effect.fnUntraced(function* (quorum: ReadonlyArray<NewQuorumPart>, step = "pay") {
    yield* admin.approvalRules.replace({
      payload: { rules: [{ effect: "require_approval", escalation_seconds: 60, quorum }] }
    })
    const payload = { step_id: StepId.make(step), tool: "payments.pay", action_class: "write", arguments: 1 }
    const { approval_id } = yield* agent.sessions.step({ params, payload })
    if (approval_id === null) return assert.fail("the step waits")
    return {
      id: approval_id,
      approve: { params: { id: approval_id }, payload: { decision: "approve" as const } },
      reject: { params: { id: approval_id }, payload: { decision: "reject" as const } },
      resume: Effect.map(agent.sessions.step({ params, payload }), ({ decision }) => decision)
    }
  })
  const reviewer = (index: number) => reviewers[index] ?? assert.fail("no such reviewer")
  return { admin, agent, ask, organization, reviewer, reviewers, session_id }
})

const listEvents = Effect.fnUntraced(function* (session_id: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly type: string; readonly given: number | null }>`
    SELECT type, (data -> 'approval' ->> 'approvals_given')::int AS given
    FROM session_events
    WHERE session_id = ${session_id}
      AND type LIKE 'approval:%'
    ORDER BY number
  `
  return rows.map(({ given, type }) => `${type} ${given}`)
})

const listAudit = Effect.fnUntraced(function* (target_id: string) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<{ readonly action: string; readonly detail: Record<string, unknown> }>`
    SELECT action, detail
    FROM audit_log
    WHERE target_id = ${target_id}
    ORDER BY entry_id
  `
})

layer(service(), { excludeTestServices: true })("Approvals with a quorum", (it) => {
  it.effect(
    "a step that needs two people is allowed after the second, and each approval is told and audited",
    () =>
      Effect.gen(function* () {
        const { admin, ask, reviewer, session_id } = yield* team("two people", ["finance"], [])
        const endpoint = (events?: readonly ["approval.vote_recorded"]) =>
          admin.notificationEndpoints.create({
            payload: { url: "http://127.0.0.1:9/hook", ...(events === undefined ? {} : { events }) }
          })
        const byDefault = yield* endpoint()
        assert.notInclude(byDefault.endpoint.events, "approval.vote_recorded")
        const selected = yield* endpoint(["approval.vote_recorded"])

        const step = yield* ask([{ count: 2 }])
        const first = yield* reviewer(0).approvals.decide({
          ...step.approve,
          payload: { decision: "approve", comment: "The order exists" }
        })
        assert.deepInclude(first, {
          status: "pending",
          quorum: [{ count: 2, group: null }],
          approvals_required: 2,
          approvals_given: 1,
          decided_by: null
        })
        assert.deepInclude(first.votes[0], {
          groups: ["finance"],
          stage: "reviewer",
          comment: "The order exists"
        })
        assert.strictEqual(first.votes[0]?.voted_by.name, "reviewer 0")
        assert.strictEqual(yield* step.resume, "pending")
        assert.deepStrictEqual(yield* reviewer(0).approvals.decide(step.approve), first)

        const second = yield* reviewer(1).approvals.decide(step.approve)
        assert.deepInclude(second, { status: "approved", outcome: "allow", approvals_given: 2 })
        assert.strictEqual(second.decided_by?.name, "reviewer 1")
        assert.strictEqual(yield* step.resume, "allow")
        assert.deepStrictEqual(yield* reviewer(0).approvals.decide(step.approve), second)

        assert.deepStrictEqual(yield* listEvents(session_id), [
          "approval:requested 0",
          "approval:vote_recorded 1",
          "approval:decided 2"
        ])
        const audit = yield* listAudit(step.id)
        assert.deepStrictEqual(
          audit.map(({ action }) => action),
          ["approval.vote_recorded", "approval.approved"]
        )
        assert.deepInclude(audit[0]?.detail, {
          approvals_given: 1,
          approvals_required: 2,
          groups: ["finance"]
        })
        const delivered = Effect.fnUntraced(function* (id: typeof selected.endpoint.id) {
          const { deliveries } = yield* admin.notificationEndpoints.listDeliveries({ params: { id } })
          return deliveries.map(({ label }) => label.split(" ")[0]).toSorted()
        })
        assert.deepStrictEqual(yield* delivered(selected.endpoint.id), ["approval.vote_recorded"])
        assert.deepStrictEqual(yield* delivered(byDefault.endpoint.id), [
          "approval.approved",
          "approval.requested"
        ])
      })
  )

  it.effect("of many concurrent approvals each counts once, and exactly one completes the quorum", () =>
    Effect.gen(function* () {
      const { ask, reviewers, session_id } = yield* team("many", ...Array.from({ length: 8 }, () => []))
      for (const round of [1, 2, 3]) {
        const step = yield* ask([{ count: 5 }], `step ${round}`)
        const results = yield* Effect.forEach(
          // Each person twice, as a client does that repeats a request.
          [...reviewers, ...reviewers],
          (reviewer) => Effect.result(reviewer.approvals.decide(step.approve)),
          { concurrency: "unbounded" }
        )
        for (const result of results) {
          if (Result.isFailure(result)) assert.strictEqual(result.failure._tag, "APPROVAL_ALREADY_DECIDED")
        }
        const approval = yield* (reviewers[0] ?? assert.fail("a reviewer")).approvals.get({
          params: { id: step.id }
        })
        assert.deepInclude(approval, { status: "approved", approvals_given: 5 })
        assert.strictEqual(new Set(approval.votes.map(({ voted_by }) => voted_by.id)).size, 5)
        // Both requests of the five whose approval counts are accepted.
        assert.lengthOf(results.filter(Result.isSuccess), 10)
        assert.deepStrictEqual(
          (yield* listAudit(step.id)).map(({ action }) => action),
          [...Array.from({ length: 4 }, () => "approval.vote_recorded"), "approval.approved"]
        )
        assert.deepStrictEqual((yield* listEvents(session_id)).slice(-6), [
          "approval:requested 0",
          ...[1, 2, 3, 4].map((given) => `approval:vote_recorded ${given}`),
          "approval:decided 5"
        ])
      }
    })
  )

  it.effect("one rejection ends it, also by a person who approved before", () =>
    Effect.gen(function* () {
      const { ask, reviewer } = yield* team("one rejection", [], [])
      const step = yield* ask([{ count: 2 }])
      yield* reviewer(0).approvals.decide(step.approve)
      const rejected = yield* reviewer(0).approvals.decide(step.reject)
      assert.deepInclude(rejected, { status: "rejected", outcome: "reject", approvals_given: 1 })
      assert.strictEqual(
        (yield* Effect.flip(reviewer(1).approvals.decide(step.approve)))._tag,
        "APPROVAL_ALREADY_DECIDED"
      )
      assert.strictEqual(yield* step.resume, "reject")
    })
  )

  it.effect("a quorum of finance and legal needs one of each, and refuses others", () =>
    Effect.gen(function* () {
      const { ask, reviewer } = yield* team(
        "groups",
        ["finance"],
        ["finance", "support"],
        ["legal"],
        ["support"]
      )
      const step = yield* ask(financeAndLegal)
      const outsider = yield* Effect.flip(reviewer(3).approvals.decide(step.approve))
      assert.strictEqual(outsider._tag, "GROUP_REQUIRED")
      if (outsider._tag === "GROUP_REQUIRED") assert.include(outsider.detail, "finance or legal")
      assert.strictEqual(
        (yield* Effect.flip(reviewer(3).approvals.decide(step.reject)))._tag,
        "GROUP_REQUIRED"
      )
      yield* reviewer(0).approvals.decide(step.approve)
      const surplus = yield* Effect.flip(reviewer(1).approvals.decide(step.approve))
      assert.strictEqual(surplus._tag, "GROUP_REQUIRED")
      if (surplus._tag === "GROUP_REQUIRED") assert.notInclude(surplus.detail, "finance")
      assert.strictEqual((yield* reviewer(2).approvals.decide(step.approve)).status, "approved")
    })
  )

  it.effect("keys that made each other count as one person, and nobody votes on an own request", () =>
    Effect.gen(function* () {
      const { admin, ask, organization, reviewer } = yield* team("one person", [])
      const { clientWith } = yield* Countersign
      const countersign = yield* Countersign
      const manager = yield* countersign.client({ name: "manager" }, organization)
      const made = yield* manager.apiKeys.create({ payload: { name: "second key", preset: "admin" } })
      const puppet = yield* clientWith(Redacted.make(made.secret))

      const step = yield* ask([{ count: 2 }])
      yield* manager.approvals.decide(step.approve)
      assert.strictEqual((yield* Effect.flip(puppet.approvals.decide(step.approve)))._tag, "SAME_PERSON")
      const other = yield* ask([{ count: 2 }], "other way round")
      yield* puppet.approvals.decide(other.approve)
      assert.strictEqual((yield* Effect.flip(manager.approvals.decide(other.approve)))._tag, "SAME_PERSON")
      assert.strictEqual((yield* reviewer(0).approvals.decide(other.approve)).status, "approved")

      const { session_id } = yield* manager.sessions.create({})
      const own = yield* manager.sessions.step({
        params: { id: session_id },
        payload: { step_id: StepId.make("own"), tool: "payments.pay", action_class: "write" }
      })
      if (own.approval_id === null) return assert.fail("the step waits")
      const decision = { params: { id: own.approval_id }, payload: { decision: "approve" as const } }
      yield* reviewer(0).approvals.decide(decision)
      for (const key of [manager, puppet]) {
        assert.strictEqual((yield* Effect.flip(key.approvals.decide(decision)))._tag, "SELF_APPROVAL")
      }
      assert.strictEqual((yield* admin.approvals.decide(decision)).status, "approved")
    })
  )

  it.effect(
    "after the escalation as many people are needed, admins count for any group, and votes stay",
    () =>
      Effect.gen(function* () {
        const { admin, ask, reviewer } = yield* team("escalation", ["finance"], ["legal"])
        const step = yield* ask(financeAndLegal)
        yield* reviewer(0).approvals.decide(step.approve)
        const sql = yield* SqlClient.SqlClient
        yield* sql`
        UPDATE approvals
        SET
          review_deadline_at = review_deadline_at - interval '1 hour',
          escalation_deadline_at = escalation_deadline_at - interval '59 minutes',
          expires_at = expires_at - interval '1 hour',
          next_due_at = now()
        WHERE approval_id = ${step.id}
      `
        yield* (yield* Deadlines).runOnce
        assert.strictEqual(
          (yield* Effect.flip(reviewer(1).approvals.decide(step.approve)))._tag,
          "ADMIN_REQUIRED"
        )
        const decided = yield* admin.approvals.decide(step.approve)
        assert.deepInclude(decided, { status: "approved", stage: "admin", approvals_given: 2 })
        assert.deepStrictEqual(
          decided.votes.map(({ stage }) => stage),
          ["reviewer", "admin"]
        )
      })
  )

  it.effect("the database refuses an approval without its quorum", () =>
    Effect.gen(function* () {
      const { ask, reviewer } = yield* team("older replica", ["finance"])
      const sql = yield* SqlClient.SqlClient
      const approveInDatabase = (id: string) => sql`
        UPDATE approvals
        SET status = 'approved', outcome = 'allow', decision_source = 'human'
        WHERE approval_id = ${id}
      `
      const step = yield* ask([{ count: 1, group: "finance" }])
      assert.isTrue(Result.isFailure(yield* Effect.result(approveInDatabase(step.id))))
      // One person is enough for the other.
      const plain = yield* ask([{}], "plain")
      yield* approveInDatabase(plain.id)
      assert.strictEqual((yield* reviewer(0).approvals.get({ params: { id: plain.id } })).status, "approved")
    })
  )

  it.effect("a group that no usable key with approvals.decide has is refused, with its place", () =>
    Effect.gen(function* () {
      const { admin, organization } = yield* team("unknown group", ["finance"])
      const countersign = yield* Countersign
      yield* countersign.client({ preset: "runtime", groups: ["bots"] }, organization)
      const gone = yield* admin.apiKeys.create({
        payload: { name: "gone", preset: "reviewer", groups: ["legal"] }
      })
      const replace = (quorum: ReadonlyArray<NewQuorumPart>) =>
        admin.approvalRules.replace({
          payload: { rules: [{ effect: "allow" }, { effect: "require_approval", quorum }] }
        })
      const { revision } = yield* replace(financeAndLegal)
      yield* admin.apiKeys.revoke({ params: { id: gone.key.id } })
      for (const group of ["legal", "bots", "finanse"]) {
        const refused = yield* Effect.flip(replace([{ group: "finance" }, { group }]))
        assert.strictEqual(refused._tag, "UNKNOWN_GROUP")
        assert.deepStrictEqual(pointersOf(refused), ["#/rules/1/quorum/1/group"])
      }
      assert.strictEqual((yield* admin.approvalRules.get({})).revision, revision)
    })
  )

  it.effect("a quorum that makes no sense is refused with the place of the fault", () =>
    Effect.gen(function* () {
      const key = yield* (yield* Countersign).key({ groups: ["finance"] }, "bad quorums")
      for (const [quorum, pointer] of [
        [[], "#/rules/0/quorum"],
        [[{ count: 0 }], "#/rules/0/quorum/0/count"],
        [[{ count: 1.5 }], "#/rules/0/quorum/0/count"],
        [[{ count: 11 }], "#/rules/0/quorum/0/count"],
        [[{ group: "Finance" }], "#/rules/0/quorum/0/group"],
        [[{ group: "" }], "#/rules/0/quorum/0/group"],
        [[{ count: 6 }, { count: 5, group: "finance" }], "#/rules/0/quorum"],
        [[{ count: 2 }, { count: 1, group: null }], "#/rules/0/quorum/1/group"],
        [[{ group: "finance" }, {}, { group: "finance" }], "#/rules/0/quorum/2/group"],
        [Array.from({ length: 6 }, (_, index) => ({ group: `g${index}` })), "#/rules/0/quorum"]
      ] as const) {
        const answer = yield* send("/v1/approval-rules", {
          method: "PUT",
          key,
          body: JSON.stringify({ rules: [{ effect: "require_approval", quorum }] })
        })
        assert.strictEqual(answer.status, 400, JSON.stringify(quorum))
        assert.deepStrictEqual(pointersOf(answer.body), [pointer])
      }
    })
  )

  it.effect("a client that does not send the quorum of a stored rule cannot remove it by accident", () =>
    Effect.gen(function* () {
      const { admin, ask } = yield* team("unknown member", ["finance"])
      yield* ask([{ count: 1, group: "finance" }])
      const { rules } = yield* admin.approvalRules.get({})
      const [rule] = rules
      if (rule === undefined) return assert.fail("there is one")
      const { quorum, ...known } = rule
      const refused = yield* Effect.flip(admin.approvalRules.replace({ payload: { rules: [known] } }))
      assert.deepStrictEqual([refused._tag, pointersOf(refused)], ["INVALID_REQUEST", ["#/rules/0/quorum"]])
      assert.deepStrictEqual((yield* admin.approvalRules.get({})).rules[0]?.quorum, quorum)
      const removed = yield* admin.approvalRules.replace({
        payload: { rules: [{ ...known, quorum: [{}] }] }
      })
      assert.deepStrictEqual(removed.rules[0]?.quorum, [{ count: 1, group: null }])
    })
  )
})
