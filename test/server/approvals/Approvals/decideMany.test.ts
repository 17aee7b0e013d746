import { assert, describe, it as plainIt, layer } from "@effect/vitest"
import { Array as Arr, Effect, Redacted, Schedule, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { MAX_DECISIONS } from "../../../../src/api/DecisionBatch.ts"
import type { ClientCalls } from "../../../../src/client/Client.ts"
import { Approval } from "../../../../src/domain/approvals/Approval.ts"
import type { Principal } from "../../../../src/domain/identity/Principal.ts"
import { ApprovalId, KeyId, OrgId, StepId } from "../../../../src/domain/Ids.ts"
import { makeDecideMany } from "../../../../src/server/approvals/Approvals/decideMany.ts"
import { makeLoopTurns } from "../../../../src/server/admission/LoopTurns.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { send, service } from "../../../support/service.ts"
import { pendingApproval } from "../../../support/approvals.ts"

/** Requests approvals of steps in one session. */
const request = Effect.fnUntraced(function* (agent: ClientCalls, count: number, tool = "payments.refund") {
  const { session_id } = yield* agent.sessions.create({})
  const steps = yield* Effect.forEach(
    Arr.makeBy(count, (index) => StepId.make(`step ${index}`)),
    (step_id) =>
      agent.sessions.step({
        params: { id: session_id },
        payload: { step_id, tool, action_class: "write", arguments: { amount: 25.5 } }
      }),
    { concurrency: 16 }
  )
  return steps.map(({ approval_id }) => approval_id ?? assert.fail("the step waits for a person"))
})

/** The clients of a new organization. */
const team = Effect.fnUntraced(function* (organization: string) {
  const { client } = yield* Countersign
  const agent = yield* client({ preset: "runtime", name: "agent" }, organization)
  const ada = yield* client({ preset: "reviewer", name: "Ada" }, organization)
  const ben = yield* client({ preset: "reviewer", name: "Ben" }, organization)
  const admin = yield* client({ name: "admin" }, organization)
  return { agent, ada, ben, admin }
})

/** How often each of these approvals was decided, by its session events, audit entries and notifications. */
const recordsOf = Effect.fnUntraced(function* (ids: ReadonlyArray<ApprovalId>) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<{
    readonly status: string
    readonly events: number
    readonly audited: number
    readonly notified: number
  }>`
    SELECT
      a.status,
      (
        SELECT count(*)::int FROM session_events e
        WHERE e.org_id = a.org_id AND e.session_id = a.session_id AND e.type = 'approval:decided'
          AND e.data->'approval'->>'approval_id' = a.approval_id
      ) AS events,
      (SELECT count(*)::int FROM audit_log l WHERE l.org_id = a.org_id AND l.target_id = a.approval_id) AS audited,
      (
        SELECT count(*)::int FROM approval_events n
        WHERE n.approval_id = a.approval_id AND n.type IN ('approval.approved', 'approval.rejected')
      ) AS notified
    FROM approvals a
    WHERE a.approval_id = ANY(${[...ids]}::text[])
  `
})

const once = (status: string) => ({ status, events: 1, audited: 1, notified: 1 })

layer(service(), { excludeTestServices: true })("Approvals.decideMany", (it) => {
  it.effect("decides each approval, with the results in the order of the request", () =>
    Effect.gen(function* () {
      const { ada, admin, agent } = yield* team("order")
      yield* admin.notificationEndpoints.create({ payload: { url: "http://127.0.0.1:9/hook" } })
      const ids = (yield* request(agent, 5)).toReversed()
      const { results } = yield* ada.approvals.decideMany({
        payload: { approval_ids: ids, decision: "reject", comment: "Not in this month" }
      })
      assert.deepStrictEqual(
        results.map(({ approval_id }) => approval_id),
        ids
      )
      for (const { approval, approval_id, problem } of results) {
        assert.isNull(problem)
        assert.strictEqual(approval?.approval_id, approval_id)
        assert.strictEqual(approval?.status, "rejected")
        assert.strictEqual(approval?.comment, "Not in this month")
        assert.strictEqual(approval?.decided_by?.name, "Ada")
        // The response of a hundred stays small.
        assert.notProperty(approval, "arguments")
      }
      assert.deepStrictEqual(
        yield* recordsOf(ids),
        ids.map(() => once("rejected"))
      )
    })
  )

  it.effect(
    "refuses each approval with the problem that a single decision gets, and decides the others",
    () =>
      Effect.gen(function* () {
        const { key } = yield* Countersign
        const { ada, admin, agent, ben } = yield* team("refusals")
        const sql = yield* SqlClient.SqlClient
        const [decided, escalated, expired, free] = yield* request(agent, 4)
        const [own] = yield* request(admin, 1)
        const [foreign] = yield* request((yield* team("neighbor")).agent, 1)
        const unknown = yield* ApprovalId.generate
        if (!decided || !escalated || !expired || !free || !own || !foreign) return assert.fail("requested")
        yield* ben.approvals.decide({ params: { id: decided }, payload: { decision: "reject" } })
        const past = sql`now() - interval '1 minute'`
        yield* sql`
        UPDATE approvals
        SET review_deadline_at = ${past}, escalation_deadline_at = now() + interval '1 hour', expires_at = ${past}
        WHERE approval_id = ${escalated}`
        yield* sql`UPDATE approvals SET review_deadline_at = ${past}, expires_at = ${past} WHERE approval_id = ${expired}`
        // This replica has them in memory as they were requested.
        yield* Effect.flip(
          ada.approvals.decide({ params: { id: expired }, payload: { decision: "approve" } })
        )

        const by = (client: ClientCalls, approval_ids: ReadonlyArray<ApprovalId>) =>
          Effect.map(
            client.approvals.decideMany({ payload: { approval_ids, decision: "approve" } }),
            (answer) =>
              answer.results.map(({ approval, problem }) => [problem?.code ?? null, approval?.status ?? null])
          )
        assert.deepStrictEqual(yield* by(ada, [decided, escalated, foreign, expired, unknown, free]), [
          ["APPROVAL_ALREADY_DECIDED", "rejected"],
          ["ADMIN_REQUIRED", null],
          ["NOT_FOUND", null],
          ["APPROVAL_EXPIRED", "expired"],
          ["NOT_FOUND", null],
          [null, "approved"]
        ])
        assert.deepStrictEqual(yield* by(admin, [own, escalated]), [
          ["SELF_APPROVAL", null],
          [null, "approved"]
        ])
        const reviewer = yield* key({ preset: "reviewer" }, "refusals")
        const post = (path: string, body: object) =>
          send(path, {
            key: reviewer,
            method: "POST",
            body: JSON.stringify({ ...body, decision: "approve" })
          })
        for (const id of [decided, foreign, unknown]) {
          const single = yield* post(`/v1/agent-approvals/${id}/decide`, {})
          const { body } = yield* post("/v1/agent-approvals/decide", { approval_ids: [id] })
          const { code, detail, status, title, type } = single.body
          assert.deepNestedPropertyVal(body, "results[0].problem", { type, status, code, title, detail })
        }
      })
  )

  it.effect("a hundred approvals of one session share a few transactions", () =>
    Effect.gen(function* () {
      const { ada, agent } = yield* team("shared")
      const ids = yield* request(agent, MAX_DECISIONS)
      const payload = { approval_ids: ids, decision: "approve" as const }
      const first = yield* ada.approvals.decideMany({ payload })
      assert.isTrue(first.results.every(({ approval }) => approval?.status === "approved"))
      const sql = yield* SqlClient.SqlClient
      const [written] = yield* sql<{ readonly transactions: number }>`
        SELECT count(DISTINCT xmin::text)::int AS transactions
        FROM approvals
        WHERE approval_id = ANY(${ids}::text[])
      `
      assert.isAtMost(written?.transactions ?? ids.length, 10)
      // Repeated, as after a broken connection, it changes nothing and says the same.
      assert.deepStrictEqual(yield* ada.approvals.decideMany({ payload }), first)
      assert.deepStrictEqual(
        (yield* recordsOf(ids)).map(({ audited, events }) => ({ audited, events })),
        ids.map(() => ({ audited: 1, events: 1 }))
      )
    })
  )

  it.effect("of concurrent requests over the same approvals, one decides each of them", () =>
    Effect.gen(function* () {
      const { ada, admin, agent, ben } = yield* team("races")
      yield* admin.notificationEndpoints.create({ payload: { url: "http://127.0.0.1:9/hook" } })
      const ids = [...(yield* request(agent, 20)), ...(yield* request(agent, 20))]
      const answers = yield* Effect.forEach(
        [
          [ada, "approve", ids],
          [ben, "reject", ids.toReversed()],
          [admin, "approve", [...ids.slice(20), ...ids.slice(0, 20)]],
          [ben, "reject", ids]
        ] as const,
        ([client, decision, approval_ids]) =>
          client.approvals.decideMany({ payload: { approval_ids, decision } }),
        { concurrency: "unbounded" }
      )
      for (const id of ids) {
        const results = answers.flatMap(({ results }) => results.filter((one) => one.approval_id === id))
        // Everybody sees the same decision, and all whose decision it is not have the problem.
        const [approval] = results.map(({ approval }) => approval)
        for (const result of results) {
          assert.deepStrictEqual(result.approval, approval ?? null)
          if (result.problem !== null) assert.strictEqual(result.problem.code, "APPROVAL_ALREADY_DECIDED")
        }
        assert.isAtLeast(results.filter(({ problem }) => problem === null).length, 1)
      }
      for (const { status, ...counts } of yield* recordsOf(ids)) {
        assert.oneOf(status, ["approved", "rejected"])
        assert.deepStrictEqual(counts, { events: 1, audited: 1, notified: 1 })
      }
    })
  )

  it.effect(
    "a request whose connections to the database are killed can be repeated until all are decided",
    () =>
      Effect.gen(function* () {
        const { ada, admin, agent } = yield* team("killed")
        yield* admin.notificationEndpoints.create({ payload: { url: "http://127.0.0.1:9/hook" } })
        const sql = yield* SqlClient.SqlClient
        const ids = yield* request(agent, 60)
        const decide = ada.approvals.decideMany({ payload: { approval_ids: ids, decision: "approve" } })
        const kill = sql`
        SELECT pg_terminate_backend(pid)
        FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()
      `.pipe(Effect.ignore, Effect.repeat(Schedule.recurs(4)))
        yield* Effect.all([Effect.exit(decide), kill], { concurrency: "unbounded" })
        const { results } = yield* Effect.retry(decide, { times: 20, schedule: Schedule.spaced("50 millis") })
        assert.isTrue(results.every(({ approval }) => approval?.status === "approved"))
        assert.deepStrictEqual(
          yield* recordsOf(ids),
          ids.map(() => once("approved"))
        )
      })
  )

  it.effect("redacts the organization's secrets from the comment", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const { ada, agent } = yield* team("secrets")
      const secret = Redacted.value(yield* key({}, "secrets"))
      const ids = yield* request(agent, 2)
      const { results } = yield* ada.approvals.decideMany({
        payload: { approval_ids: ids, decision: "approve", comment: `with ${secret}` }
      })
      for (const { approval } of results) assert.match(approval?.comment ?? "", /^with \[REDACTED/)
    })
  )

  it.effect("refuses a malformed request, with the pointer, and decides nothing", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const { agent } = yield* team("malformed")
      const reviewer = yield* key({ preset: "reviewer" }, "malformed")
      const ids = yield* request(agent, 2)
      const [first, second] = ids
      const unknown = yield* Effect.replicateEffect(ApprovalId.generate, MAX_DECISIONS + 1)
      const post = (body: unknown) =>
        send("/v1/agent-approvals/decide", { key: reviewer, method: "POST", body: JSON.stringify(body) })
      for (const [approval_ids, pointer] of [
        [[first, second, first], "#/approval_ids/2"],
        [[first, "no id"], "#/approval_ids/1"],
        [[], "#/approval_ids"],
        [unknown, "#/approval_ids"],
        [undefined, "#/approval_ids"]
      ] as const) {
        const { body, errors, status } = yield* post({ approval_ids, decision: "approve" })
        assert.deepStrictEqual([status, body["code"]], [400, "INVALID_REQUEST"])
        assert.strictEqual(errors[0]?.pointer, pointer)
      }
      const runtime = yield* key({ preset: "runtime" }, "malformed")
      const refused = yield* send("/v1/agent-approvals/decide", {
        key: runtime,
        method: "POST",
        body: JSON.stringify({ approval_ids: ids, decision: "approve" })
      })
      assert.strictEqual(refused.body["code"], "INSUFFICIENT_SCOPE")
      assert.isTrue((yield* recordsOf(ids)).every(({ status }) => status === "pending"))
    })
  )
})

const slow = { environment: { COUNTERSIGN_RATE_LIMIT_PER_SECOND: "20" } }

layer(service(slow), { excludeTestServices: true })("Approvals.decideMany under rate limits", (it) => {
  it.effect("counts a request for each approval: later requests of the key wait for them", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const reviewer = yield* key({ preset: "reviewer" })
      const approval_ids = yield* Effect.replicateEffect(ApprovalId.generate, MAX_DECISIONS)
      const decide = send("/v1/agent-approvals/decide", {
        key: reviewer,
        method: "POST",
        body: JSON.stringify({ approval_ids, decision: "approve" })
      })
      assert.strictEqual((yield* decide).status, 200)
      const next = yield* decide
      assert.strictEqual(next.status, 429)
      // A hundred requests at 20 per second take five seconds; a second's worth may be used at once.
      assert.isAtLeast(Number(next.body["retry_after_seconds"]), 2)
      assert.strictEqual((yield* send("/v1/agent-approvals", { key: yield* key({}) })).status, 200)
    })
  )
})

describe("makeDecideMany", () => {
  plainIt.effect("keeps no arguments of the approvals that it has decided", () =>
    Effect.gen(function* () {
      const ids = yield* Effect.replicateEffect(ApprovalId.generate, 4)
      const approval = Schema.decodeSync(Approval)({
        ...pendingApproval,
        approval_id: ids[0] ?? assert.fail("four ids"),
        arguments: { amount: 25.5 },
        requested_at: "2026-11-21T02:33:05.123Z",
        review_deadline_at: "2026-11-21T03:33:05.123Z",
        expires_at: "2026-11-21T03:33:05.123Z",
        quorum: [{ count: 2, group: null }],
        approvals_required: 2,
        proposal: {
          arguments: { amount: 20 },
          expires_at: "2026-11-21T03:33:05.123Z",
          used_by: null
        }
      })
      const decided = (approval_id: ApprovalId) => ({ approval: { ...approval, approval_id }, refusal: null })
      const decideMany = makeDecideMany({
        // Half of them need the lock.
        decide: (_, id, _request, isLocked) =>
          Effect.succeed(isLocked || ids.indexOf(id) % 2 === 0 ? decided(id) : undefined),
        commit: (attempt) =>
          Effect.flatMap(attempt(true), (answer) =>
            answer === undefined ? Effect.die("none is undefined under the lock") : Effect.succeed(answer)
          ),
        refused: () => Effect.die("none is refused"),
        turns: makeLoopTurns()
      })
      const principal: Principal = {
        org_id: yield* OrgId.generate,
        actor: { id: yield* KeyId.generate, name: "Ada" },
        scopes: new Set(),
        groups: [],
        keyMakers: [],
        makers: []
      }
      const results = yield* decideMany(principal, ids, { decision: "approve" })
      assert.deepStrictEqual(
        results.map(({ approval_id }) => approval_id),
        ids
      )
      for (const { approval } of results) {
        assert.notProperty(approval, "arguments")
        assert.notProperty(approval?.proposal, "arguments")
      }
    })
  )
})
