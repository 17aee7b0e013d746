import { assert, layer } from "@effect/vitest"
import { Effect, Result, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { type ApprovalId, StepId } from "../../../src/domain/Ids.ts"
import { Deadlines } from "../../../src/server/approvals/Deadlines.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { eventually } from "../../support/eventually.ts"
import { clientMadeBy, send, service } from "../../support/service.ts"
import { sortingTask } from "../../support/tasks.ts"

const step = {
  step_id: StepId.make("step 1"),
  tool: "payments.refund",
  action_class: "write",
  arguments: { order: "4711", amount: 25.5 }
}

/** An agent and two reviewers of a new organization. */
const team = (organization: string) =>
  Effect.gen(function* () {
    const countersign = yield* Countersign
    const reviewer = yield* countersign.client({ preset: "reviewer", name: "Ada" }, organization)
    const other = yield* countersign.client({ preset: "reviewer", name: "Ben" }, organization)
    const admin = yield* countersign.client({}, organization)
    const agent = yield* clientMadeBy(admin, { preset: "runtime", name: "agent" })
    const session = yield* agent.sessions.create({})
    const params = { id: session.session_id }
    return { admin, agent, other, params, reviewer, session }
  })

const pending = (id: ApprovalId | null) => {
  if (id === null) throw new Error("the step waits for a person")
  return { id }
}

layer(service(), { excludeTestServices: true })("Approvals", (it) => {
  it.effect("a step waits for a decision and is allowed after an approval", () =>
    Effect.gen(function* () {
      const { agent, params, reviewer, session } = yield* team("way through")
      const asked = yield* agent.sessions.step({ params, payload: step })
      assert.strictEqual(asked.decision, "pending")
      assert.match(asked.arguments_digest, /^[0-9a-f]{64}$/)
      const approval = yield* reviewer.approvals.get({ params: pending(asked.approval_id) })
      assert.deepStrictEqual(approval.arguments, step.arguments)
      assert.strictEqual(approval.session_id, session.session_id)

      const decided = yield* reviewer.approvals.decide({
        params: pending(asked.approval_id),
        payload: { decision: "approve", comment: "Looks right" }
      })
      assert.strictEqual(decided.status, "approved")
      assert.strictEqual(decided.decided_by?.name, "Ada")
      assert.strictEqual(decided.comment, "Looks right")
      const resumed = yield* agent.sessions.step({ params, payload: step })
      assert.strictEqual(resumed.decision, "allow")
      assert.strictEqual(resumed.approval_id, asked.approval_id)
      assert.deepStrictEqual(
        [resumed.decided_by?.name, resumed.comment, asked.decided_by, asked.comment],
        ["Ada", "Looks right", null, null]
      )

      const outcome = {
        params: { ...params, step_id: step.step_id },
        payload: { status: "succeeded" as const }
      }
      yield* agent.sessions.reportOutcome(outcome)
      assert.propertyVal(
        yield* Effect.flip(agent.sessions.reportOutcome(outcome)),
        "_tag",
        "STEP_ALREADY_COMPLETED"
      )
      assert.propertyVal(
        yield* Effect.flip(agent.sessions.step({ params, payload: step })),
        "_tag",
        "STEP_ALREADY_COMPLETED"
      )
    })
  )

  it.effect(
    "concurrent requests of one step create one approval, and of concurrent decisions one is accepted",
    () =>
      Effect.gen(function* () {
        const { admin, agent, other, params, reviewer } = yield* team("races")
        yield* admin.notificationEndpoints.create({ payload: { url: "http://127.0.0.1:9/hook" } })
        const answers = yield* Effect.all(
          Array.from({ length: 20 }, () => agent.sessions.step({ params, payload: step })),
          { concurrency: "unbounded" }
        )
        assert.lengthOf(new Set(answers.map(({ approval_id }) => approval_id)), 1)
        const id = pending(answers[0]?.approval_id ?? null)
        const outcomes = yield* Effect.all(
          Array.from({ length: 20 }, (_, index) =>
            Effect.result(
              (index % 2 === 0 ? reviewer : other).approvals.decide({
                params: id,
                payload: { decision: index % 4 < 2 ? "approve" : "reject" }
              })
            )
          ),
          { concurrency: "unbounded" }
        )
        const final = yield* reviewer.approvals.get({ params: id })
        for (const outcome of outcomes) {
          if (Result.isSuccess(outcome)) {
            assert.strictEqual(outcome.success.status, final.status)
            assert.deepStrictEqual(outcome.success.decided_by, final.decided_by)
          } else {
            assert.strictEqual(outcome.failure._tag, "APPROVAL_ALREADY_DECIDED")
            if (outcome.failure._tag === "APPROVAL_ALREADY_DECIDED") {
              assert.strictEqual(outcome.failure.approval.status, final.status)
            }
          }
        }
        const sql = yield* SqlClient.SqlClient
        const events = yield* sql<{ readonly type: string }>`
        SELECT type
        FROM session_events
        WHERE session_id = ${params.id}
        ORDER BY number
      `
        assert.deepStrictEqual(
          events.map(({ type }) => type),
          ["step:governed", "approval:requested", "approval:decided"]
        )
        const sent = yield* sql<{ readonly type: string }>`
        SELECT type
        FROM approval_events
        WHERE approval_id = ${id.id}
        ORDER BY event_id
      `
        assert.deepStrictEqual(
          sent.map(({ type }) => type),
          ["approval.requested", `approval.${final.status}`]
        )
      })
  )

  it.effect("the same decision by the same person is idempotent", () =>
    Effect.gen(function* () {
      const { agent, other, params, reviewer } = yield* team("again")
      const asked = yield* agent.sessions.step({ params, payload: step })
      const id = pending(asked.approval_id)
      const decided = yield* reviewer.approvals.decide({
        params: id,
        payload: { decision: "approve", comment: "first" }
      })
      const again = yield* reviewer.approvals.decide({
        params: id,
        payload: { decision: "approve", comment: "second" }
      })
      assert.deepStrictEqual(again, decided)
      for (const [who, decision] of [
        [reviewer, "reject"],
        [other, "approve"]
      ] as const) {
        const refused = yield* Effect.flip(who.approvals.decide({ params: id, payload: { decision } }))
        assert.strictEqual(refused._tag, "APPROVAL_ALREADY_DECIDED")
        if (refused._tag === "APPROVAL_ALREADY_DECIDED") assert.deepStrictEqual(refused.approval, decided)
      }
    })
  )

  it.effect("another tool, action class or arguments for a saved step are refused and change nothing", () =>
    Effect.gen(function* () {
      const { agent, params, reviewer } = yield* team("mismatch")
      const asked = yield* agent.sessions.step({ params, payload: step })
      yield* reviewer.approvals.decide({
        params: pending(asked.approval_id),
        payload: { decision: "approve" }
      })
      const { arguments: _, ...bare } = step
      for (const [payload, mismatched] of [
        [{ ...step, arguments: { order: "4711", amount: 9999 } }, ["arguments"]],
        [{ ...step, arguments: {} }, ["arguments"]],
        [{ ...step, arguments: null }, ["arguments"]],
        [bare, ["arguments"]],
        [{ ...step, tool: "payments.pay" }, ["tool"]],
        [{ ...step, action_class: "read", arguments: 1 }, ["action_class", "arguments"]]
      ] as const) {
        const refused = yield* Effect.flip(agent.sessions.step({ params, payload }))
        assert.strictEqual(refused._tag, "STEP_MISMATCH")
        if (refused._tag === "STEP_MISMATCH") assert.deepStrictEqual(refused.mismatched, mismatched)
      }
      const reordered = { ...step, arguments: { amount: 25.5, order: "4711" } }
      assert.strictEqual((yield* agent.sessions.step({ params, payload: reordered })).decision, "allow")
    })
  )

  it.effect("ambiguous JSON arguments are refused", () =>
    Effect.gen(function* () {
      const { params } = yield* team("two ways")
      const key = yield* (yield* Countersign).key({ preset: "runtime" }, "two ways")
      for (const args of ['{"a":1,"a":2}', "1e400", '"\\ud800"', '"\\u0000"', "9007199254740993"]) {
        const body = `{"step_id":"s","tool":"t","action_class":"c","arguments":${args}}`
        const answer = yield* send(`/v1/agent-sessions/${params.id}/steps`, { method: "POST", key, body })
        assert.strictEqual(answer.status, 400, args)
        assert.strictEqual(answer.body["code"], "INVALID_REQUEST", args)
      }
    })
  )

  it.effect(
    "a rule that allows or rejects decides immediately, and a rule that rejects now overrides an approval",
    () =>
      Effect.gen(function* () {
        const { admin, agent, params, reviewer } = yield* team("rules")
        const { revision } = yield* admin.approvalRules.replace({
          payload: {
            rules: [
              { tool: "files.read", effect: "allow" },
              { tool: "shell.*", effect: "reject", reason: "No shell" }
            ]
          }
        })
        const ask = (step_id: string, tool: string) =>
          agent.sessions.step({ params, payload: { ...step, step_id: StepId.make(step_id), tool } })
        assert.strictEqual((yield* ask("a", "files.read")).decision, "allow")
        const rejected = yield* ask("b", "shell.exec")
        assert.strictEqual(rejected.decision, "reject")
        assert.strictEqual(rejected.reason, "No shell")
        assert.propertyVal(
          yield* Effect.flip(
            agent.sessions.reportOutcome({
              params: { ...params, step_id: StepId.make("b") },
              payload: { status: "succeeded" }
            })
          ),
          "_tag",
          "STEP_NOT_ALLOWED"
        )
        const held = yield* ask("c", "payments.refund")
        yield* reviewer.approvals.decide({
          params: pending(held.approval_id),
          payload: { decision: "approve" }
        })
        yield* admin.approvalRules.replace({
          payload: {
            rules: [
              { tool: "payments.*", effect: "reject" },
              { tool: "files.*", effect: "reject" }
            ],
            revision
          }
        })
        assert.strictEqual((yield* ask("c", "payments.refund")).decision, "reject")
        const complete = (step_id: string) =>
          agent.sessions.reportOutcome({
            params: { ...params, step_id: StepId.make(step_id) },
            payload: { status: "succeeded" }
          })
        assert.propertyVal(yield* Effect.flip(complete("c")), "_tag", "STEP_NOT_ALLOWED")
        // The step was allowed before the rules changed.
        assert.strictEqual((yield* complete("a")).status, "succeeded")
        const stale = yield* Effect.flip(admin.approvalRules.replace({ payload: { rules: [], revision } }))
        assert.strictEqual(stale._tag, "RULES_CHANGED")
      })
  )

  it.effect(
    "a step without a task follows the rules of its session's task, on the first request and on a resume",
    () =>
      Effect.gen(function* () {
        const { admin, agent, reviewer } = yield* team("tasks")
        const { id: task_id } = yield* admin.tasks.create({ payload: sortingTask })
        const { session_id } = yield* agent.sessions.create({ payload: { task_id } })
        const params = { id: session_id }
        const asked = yield* agent.sessions.step({ params, payload: { ...step, task_id } })
        yield* reviewer.approvals.decide({
          params: pending(asked.approval_id),
          payload: { decision: "approve" }
        })
        yield* admin.approvalRules.replace({
          payload: { rules: [{ task_id, effect: "reject", reason: "Not in this task" }, { effect: "allow" }] }
        })
        assert.strictEqual((yield* agent.sessions.step({ params, payload: step })).decision, "reject")
        const another = yield* agent.sessions.step({
          params,
          payload: { ...step, step_id: StepId.make("another") }
        })
        assert.strictEqual(another.reason, "Not in this task")
        const report = {
          params: { ...params, step_id: step.step_id },
          payload: { status: "succeeded" as const }
        }
        assert.propertyVal(
          yield* Effect.flip(agent.sessions.reportOutcome(report)),
          "_tag",
          "STEP_NOT_ALLOWED"
        )
        const sql = yield* SqlClient.SqlClient
        const told = yield* sql<{ readonly decision: string }>`
        SELECT data ->> 'decision' AS decision
        FROM session_events
        WHERE session_id = ${session_id}
          AND type = 'step:governed'
          AND step_id = ${step.step_id}
        ORDER BY number
      `
        assert.deepStrictEqual(
          told.map(({ decision }) => decision),
          ["pending", "reject"]
        )
      })
  )

  it.effect("text that PostgreSQL cannot store is refused", () =>
    Effect.gen(function* () {
      const { agent, params } = yield* team("surrogates")
      const asked = yield* agent.sessions.step({ params, payload: step })
      const key = yield* (yield* Countersign).key({}, "surrogates")
      for (const [method, path, body] of [
        [
          "POST",
          `/v1/agent-approvals/${asked.approval_id}/decide`,
          `{"decision":"approve","comment":"\\ud800"}`
        ],
        ["POST", `/v1/agent-sessions/${params.id}/steps/s/outcome`, `{"status":"failed","error":"\\udc00"}`],
        ["PUT", "/v1/approval-rules", `{"rules":[{"effect":"allow","reason":"\\ud800"}]}`],
        [
          "PUT",
          "/v1/approval-rules",
          `{"rules":[{"effect":"allow","review_seconds":60,"expiring_seconds":60}]}`
        ]
      ] as const) {
        const answer = yield* send(path, { method, key, body })
        assert.strictEqual(answer.status, 400, body)
      }
    })
  )

  it.effect("a key cannot approve its own request through keys that it created", () =>
    Effect.gen(function* () {
      const { admin, params } = yield* team("made")
      const asked = yield* admin.sessions.step({ params, payload: step })
      const { clientWith } = yield* Countersign
      const first = yield* admin.apiKeys.create({ payload: { name: "Ada (CFO)", preset: "admin" } })
      const child = yield* clientWith(Redacted.make(first.secret))
      const second = yield* child.apiKeys.create({ payload: { name: "Grace (CEO)", preset: "admin" } })
      const grandchild = yield* clientWith(Redacted.make(second.secret))
      const decision = { params: pending(asked.approval_id), payload: { decision: "approve" as const } }
      for (const puppet of [child, grandchild]) {
        const refused = yield* Effect.flip(puppet.approvals.decide(decision))
        assert.strictEqual(refused._tag, "SELF_APPROVAL")
      }
      // The opposite direction is allowed: an admin decides requests of a key that the admin created.
      const agent = yield* admin.apiKeys.create({ payload: { name: "second agent", preset: "runtime" } })
      const step_id = StepId.make("by the agent")
      const own = yield* admin.sessions.create({})
      const theirs = yield* (yield* clientWith(Redacted.make(agent.secret))).sessions.step({
        params: { id: own.session_id },
        payload: { ...step, step_id }
      })
      const decided = yield* admin.approvals.decide({
        params: pending(theirs.approval_id),
        payload: { decision: "approve" }
      })
      assert.strictEqual(decided.status, "approved")
    })
  )

  it.effect("the key that requested an approval cannot decide it", () =>
    Effect.gen(function* () {
      const { admin, params } = yield* team("self")
      const asked = yield* admin.sessions.step({ params, payload: step })
      const refused = yield* Effect.flip(
        admin.approvals.decide({ params: pending(asked.approval_id), payload: { decision: "approve" } })
      )
      assert.strictEqual(refused._tag, "SELF_APPROVAL")
      // A rule allows self-approval for later requests.
      yield* admin.approvalRules.replace({
        payload: { rules: [{ effect: "require_approval", self_approval: true }] }
      })
      const another = yield* admin.sessions.step({
        params,
        payload: { ...step, step_id: StepId.make("another") }
      })
      const decided = yield* admin.approvals.decide({
        params: pending(another.approval_id),
        payload: { decision: "approve" }
      })
      assert.strictEqual(decided.status, "approved")
    })
  )

  it.effect("an expired approval gets the timeout action of its rule and cannot be approved", () =>
    Effect.gen(function* () {
      const { admin, agent, params, reviewer } = yield* team("expiry")
      yield* admin.approvalRules.replace({
        payload: { rules: [{ effect: "require_approval", review_seconds: 60, escalation_seconds: 60 }] }
      })
      const asked = yield* agent.sessions.step({ params, payload: step })
      const id = pending(asked.approval_id)
      const sql = yield* SqlClient.SqlClient
      const pass = (seconds: number) => sql`
        UPDATE approvals
        SET
          review_deadline_at = review_deadline_at - make_interval(secs => ${seconds}),
          escalation_deadline_at = escalation_deadline_at - make_interval(secs => ${seconds}),
          expires_at = expires_at - make_interval(secs => ${seconds}),
          next_due_at = next_due_at - make_interval(secs => ${seconds})
        WHERE approval_id = ${asked.approval_id}
      `
      const { runOnce } = yield* Deadlines
      yield* pass(61)
      yield* runOnce
      // The service's own worker may be transitioning it, so that this run skips it.
      const escalated = yield* eventually(
        reviewer.approvals.get({ params: id }),
        ({ stage }) => stage === "admin"
      )
      assert.strictEqual(escalated.status, "pending")
      const decide = { params: id, payload: { decision: "approve" as const } }
      assert.propertyVal(yield* Effect.flip(reviewer.approvals.decide(decide)), "_tag", "ADMIN_REQUIRED")
      yield* pass(60)
      // The deadline worker has not run; the deadline is enforced anyway.
      const late = yield* Effect.flip(admin.approvals.decide(decide))
      assert.strictEqual(late._tag, "APPROVAL_EXPIRED")
      if (late._tag === "APPROVAL_EXPIRED") assert.strictEqual(late.approval.decision_source, "timeout")
      const resumed = yield* agent.sessions.step({ params, payload: step })
      assert.strictEqual(resumed.decision, "reject")
      assert.match(resumed.reason, /^Nobody decided in time/)
    })
  )

  for (const count of [1, 2]) {
    it.effect(
      `after the reviewers' window an admin decides at once, before the deadline worker has escalated, as voter ${count}`,
      () =>
        Effect.gen(function* () {
          const { admin, agent, params, reviewer } = yield* team(`late decision of ${count}`)
          yield* admin.approvalRules.replace({
            payload: {
              rules: [
                {
                  effect: "require_approval",
                  review_seconds: 60,
                  escalation_seconds: 60,
                  quorum: [{ count }]
                }
              ]
            }
          })
          const asked = yield* agent.sessions.step({ params, payload: step })
          const decide = {
            params: pending(asked.approval_id),
            payload: { decision: "approve" as const }
          }
          // With a vote, the replica that asked no longer has the approval in its cache.
          if (count === 2) yield* reviewer.approvals.decide(decide)
          const sql = yield* SqlClient.SqlClient
          // The worker looks for `next_due_at`, which stays.
          yield* sql`
            UPDATE approvals
            SET
              review_deadline_at = review_deadline_at - interval '61 seconds',
              expires_at = expires_at - interval '61 seconds'
            WHERE approval_id = ${asked.approval_id}
          `
          const decided = yield* admin.approvals.decide(decide)
          assert.deepInclude(decided, { status: "approved", stage: "admin" })
          assert.deepStrictEqual(yield* admin.approvals.get({ params: decide.params }), decided)
          const events = yield* sql<{ readonly type: string }>`
            SELECT type
            FROM session_events
            WHERE session_id = ${params.id}
            ORDER BY number
          `
          assert.deepStrictEqual(
            events.map(({ type }) => type).filter((type) => type !== "approval:vote_recorded"),
            ["step:governed", "approval:requested", "approval:escalated", "approval:decided"]
          )
          assert.strictEqual((yield* agent.sessions.step({ params, payload: step })).decision, "allow")
        })
    )
  }

  it.effect("closing a session rejects its pending approvals without a decider", () =>
    Effect.gen(function* () {
      const { agent, params, reviewer } = yield* team("closing")
      const asked = yield* agent.sessions.step({ params, payload: step })
      const closed = yield* agent.sessions.close({ params })
      assert.strictEqual(closed.status, "closed")
      assert.deepStrictEqual(yield* agent.sessions.close({ params }), closed)
      const approval = yield* reviewer.approvals.get({ params: pending(asked.approval_id) })
      assert.strictEqual(approval.status, "expired")
      assert.strictEqual(approval.outcome, "reject")
      assert.strictEqual(approval.decision_source, "session_closed")
      assert.isNull(approval.decided_by)
      for (const step_id of [step.step_id, StepId.make("another")]) {
        const refused = yield* Effect.flip(agent.sessions.step({ params, payload: { ...step, step_id } }))
        assert.strictEqual(refused._tag, "SESSION_CLOSED")
      }
    })
  )

  it.effect("approvals of another organization answer 404", () =>
    Effect.gen(function* () {
      const ours = yield* team("our approvals")
      const theirs = yield* team("their approvals")
      const asked = yield* theirs.agent.sessions.step({ params: theirs.params, payload: step })
      const id = pending(asked.approval_id)
      assert.propertyVal(yield* Effect.flip(ours.reviewer.approvals.get({ params: id })), "_tag", "NOT_FOUND")
      assert.propertyVal(
        yield* Effect.flip(ours.reviewer.approvals.decide({ params: id, payload: { decision: "approve" } })),
        "_tag",
        "NOT_FOUND"
      )
      assert.propertyVal(
        yield* Effect.flip(ours.agent.sessions.step({ params: theirs.params, payload: step })),
        "_tag",
        "NOT_FOUND"
      )
      assert.lengthOf((yield* ours.reviewer.approvals.list({})).approvals, 0)
    })
  )
})
