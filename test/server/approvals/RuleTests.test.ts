import { assert, layer } from "@effect/vitest"
import { DateTime, Effect, Fiber, Redacted, Schedule, Schema, Stream } from "effect"
import { SqlClient } from "effect/sql"
import * as FastCheck from "fast-check"
import { MAX_RULE_TESTS, type NewApprovalRule } from "../../../src/api/ApprovalRules.ts"
import { MAX_LISTED_STEPS, type RuleTestLine } from "../../../src/domain/approvals/RuleTest.ts"
import { OrgId, StepId, TaskId } from "../../../src/domain/Ids.ts"
import { PAGE_STEPS, stepsStatement } from "../../../src/server/approvals/RuleTests/readSteps.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { eventually } from "../../support/eventually.ts"
import { pointersOf, send, service } from "../../support/service.ts"
import { sortingTask } from "../../support/tasks.ts"

type Client = Effect.Success<ReturnType<Countersign["Service"]["client"]>>

/** An organization with an agent and two reviewers. */
const team = Effect.fnUntraced(function* (organization: string) {
  const countersign = yield* Countersign
  const key = yield* countersign.key({}, organization)
  const admin = yield* countersign.clientWith(key)
  const agent = yield* countersign.client({ preset: "runtime" }, organization)
  const reviewer = yield* countersign.client({ preset: "reviewer", name: "Ada" }, organization)
  const { session_id } = yield* agent.sessions.create({})
  const { body } = yield* send(`/v1/agent-sessions/${session_id}`, { key })
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly org_id: OrgId }>`
    SELECT org_id
    FROM agent_sessions
    WHERE session_id = ${String(body["session_id"])}
  `
  return { admin, agent, key, org_id: row?.org_id, reviewer, session_id, params: { id: session_id } }
})

/** All lines of a test: the findings, and the result. */
const test = Effect.fnUntraced(function* (
  client: Client,
  rules: ReadonlyArray<NewApprovalRule>,
  window: { readonly since?: DateTime.Utc; readonly until?: DateTime.Utc } = {}
) {
  const lines: ReadonlyArray<RuleTestLine> = yield* Stream.runCollect(
    yield* client.approvalRules.test({ payload: { rules, ...window } })
  )
  const result = lines.at(-1)
  if (result?.type !== "result") return assert.fail("the last line is the result")
  const steps = lines.flatMap((line) => (line.type === "step" ? [line] : []))
  return { lines, result, steps }
})

const zero = { allow: 0, reject: 0, require_approval: 0 }

/** Inserts steps without approvals, a second apart. */
const insertSteps = (org_id: OrgId | undefined, session_id: string, count: number) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      INSERT INTO governed_steps (
        org_id, session_id, step_id, tool, action_class, arguments_digest, decision, reason, requested_by_id, requested_at
      )
      SELECT ${org_id ?? ""}, ${session_id}, 'seeded ' || n, 'search', 'read', '', 'allow', '', 'key',
        date_trunc('seconds', now()) - (60 + n / 3) * interval '1 second'
      FROM generate_series(1, ${count}::int) AS n
    `
  )

layer(service(), { excludeTestServices: true })("RuleTests", (it) => {
  it.effect("a window without steps has zeros, and ends by default now", () =>
    Effect.gen(function* () {
      const { admin } = yield* team("empty")
      const { lines, result } = yield* test(admin, [{ effect: "allow" }])
      assert.lengthOf(lines, 1)
      assert.deepInclude(result, { steps: 0, recorded: zero, tested: zero, changes: [], unlisted: 0 })
      assert.strictEqual(result.until.epochMilliseconds - result.since.epochMilliseconds, 30 * 86_400_000)
    })
  )

  it.effect("a step that a counter-proposal allowed counts as allowed, also by rules that ask about it", () =>
    Effect.gen(function* () {
      const { admin, agent, params, reviewer } = yield* team("proposals")
      const rules = [{ effect: "require_approval" as const }]
      yield* admin.approvalRules.replace({ payload: { rules } })
      const pay = (step: string, amount: number) =>
        agent.sessions.step({
          params,
          payload: {
            step_id: StepId.make(step),
            tool: "pay",
            action_class: "write",
            arguments: { amount }
          }
        })
      const { approval_id } = yield* pay("500", 500)
      yield* reviewer.approvals.decide({
        params: { id: approval_id ?? assert.fail("the step waits") },
        payload: { decision: "reject", proposed_arguments: { amount: 20 } }
      })
      assert.strictEqual((yield* pay("20", 20)).decision, "allow")
      const { result } = yield* test(admin, rules)
      assert.deepInclude(result, { steps: 2, changes: [], more_questions: 0, fewer_questions: 0 })
      assert.strictEqual(result.approvals.rejected, 1)
      const { result: allowed } = yield* test(admin, [{ effect: "allow" }])
      // Only the first step was a question.
      assert.strictEqual(allowed.fewer_questions, 1)
      const { result: rejected } = yield* test(admin, [{ effect: "reject" }])
      assert.deepInclude(rejected.tested, { reject: 2 })
      assert.strictEqual(rejected.fewer_questions, 1)
    })
  )

  it.effect("only a person's decision can differ from the rules, and each kind of outcome is counted", () =>
    Effect.gen(function* () {
      const { admin, agent, params, reviewer } = yield* team("outcomes")
      yield* admin.approvalRules.replace({
        payload: {
          rules: [
            { tool: "search", effect: "allow" },
            { tool: "drop", effect: "reject" },
            { tool: "soon", effect: "require_approval", review_seconds: 1, timeout_action: "allow" }
          ]
        }
      })
      const ask = (tool: string, id = tool) =>
        agent.sessions.step({ params, payload: { step_id: StepId.make(id), tool, action_class: "write" } })
      const decide = Effect.fnUntraced(function* (tool: string, decision: "approve" | "reject") {
        const { approval_id } = yield* ask(tool)
        if (approval_id === null) return assert.fail("it waits for a person")
        yield* reviewer.approvals.decide({
          params: { id: approval_id },
          payload: { decision, comment: tool }
        })
        return approval_id
      })
      yield* ask("search")
      yield* ask("drop")
      const soon = yield* ask("soon")
      yield* eventually(ask("soon"), ({ decision }) => decision === "allow")
      const refused = yield* decide("refund", "reject")
      const approved = yield* decide("mail", "approve")
      yield* decide("alike", "approve")
      yield* decide("still asked", "reject")
      yield* ask("pending")
      const other = yield* agent.sessions.create({})
      yield* agent.sessions.step({
        params: { id: other.session_id },
        payload: { step_id: StepId.make("closed"), tool: "closed", action_class: "write" }
      })
      yield* agent.sessions.close({ params: { id: other.session_id } })

      const { result, steps } = yield* test(admin, [
        { tool: "refund", effect: "allow", reason: "Refunds are fine" },
        { tool: "search", effect: "require_approval" },
        { tool: "drop", effect: "require_approval" },
        { tool: "still asked", effect: "require_approval" },
        { tool: "alike", effect: "allow" },
        { effect: "reject" }
      ])
      assert.deepInclude(result, {
        steps: 9,
        recorded: { allow: 1, reject: 1, require_approval: 7 },
        tested: { allow: 2, reject: 4, require_approval: 3 },
        more_questions: 2,
        fewer_questions: 6,
        approvals: { approved: 2, rejected: 2, timed_out: 1, session_closed: 1, other: 0, pending: 1 },
        same_as_person: 1,
        rejected_would_run: 1,
        approved_would_be_rejected: 1,
        unlisted: 0
      })
      assert.sameDeepMembers(
        [...result.changes],
        [
          { recorded: "allow", tested: "require_approval", steps: 1 },
          { recorded: "reject", tested: "require_approval", steps: 1 },
          { recorded: "require_approval", tested: "allow", steps: 2 },
          { recorded: "require_approval", tested: "reject", steps: 4 }
        ]
      )
      assert.deepStrictEqual(
        steps.map(({ approval_id, comment, decided_by, finding, reason, rule_index, tool }) => [
          finding,
          approval_id,
          tool,
          rule_index,
          reason,
          decided_by?.name,
          comment
        ]),
        [
          ["approved_would_be_rejected", approved, "mail", 5, "A rule rejects this step", "Ada", "mail"],
          ["rejected_would_run", refused, "refund", 0, "Refunds are fine", "Ada", "refund"]
        ]
      )
      assert.isNotNull(soon.approval_id)
    })
  )

  it.effect("the tested decisions are those of the live path when the same steps are asked again", () =>
    Effect.gen(function* () {
      const { admin, agent, reviewer } = yield* team("property")
      const task = yield* admin.tasks.create({ payload: sortingTask })
      const texts = FastCheck.constantFrom("pay", "pay.refund", "mail.send", "read", "x")
      const patterns = FastCheck.constantFrom("*", "pay*", "*.send", "read", "p*d", "x")
      const effects = FastCheck.constantFrom("allow" as const, "reject" as const, "require_approval" as const)
      const taskIds = FastCheck.constantFrom(null, task.id)
      const rules = FastCheck.array(
        FastCheck.record({ tool: patterns, action_class: patterns, task_id: taskIds, effect: effects }),
        { maxLength: 6 }
      )
      const steps = FastCheck.array(
        FastCheck.record({
          tool: texts,
          action_class: texts,
          task_id: taskIds,
          approve: FastCheck.boolean()
        }),
        { minLength: 1, maxLength: 6 }
      )
      const runs = FastCheck.sample(FastCheck.tuple(rules, steps), { numRuns: 12 })
      for (const [tested, asked] of runs) {
        yield* admin.approvalRules.replace({ payload: { rules: [] } })
        const askAll = Effect.gen(function* () {
          const { session_id } = yield* agent.sessions.create({})
          return yield* Effect.forEach(asked, ({ action_class, task_id, tool }, index) =>
            agent.sessions.step({
              params: { id: session_id },
              payload: {
                ...{ step_id: StepId.make(String(index)), tool, action_class },
                ...(task_id === null ? {} : { task_id })
              }
            })
          )
        })
        const since = yield* DateTime.now
        const first = yield* askAll
        for (const [index, { approval_id }] of first.entries()) {
          if (approval_id === null) return assert.fail("without rules every step waits for a person")
          const decision = asked[index]?.approve === true ? "approve" : "reject"
          yield* reviewer.approvals.decide({ params: { id: approval_id }, payload: { decision } })
        }
        const until = DateTime.add(yield* DateTime.now, { milliseconds: 1 })
        const { result, steps: listed } = yield* test(admin, tested, { since, until })
        yield* admin.approvalRules.replace({ payload: { rules: tested } })
        const live = (yield* askAll).map(({ decision }) => decision)
        const count = (decision: string) => live.filter((one) => one === decision).length
        assert.deepStrictEqual(result.tested, {
          allow: count("allow"),
          reject: count("reject"),
          require_approval: count("pending")
        })
        // Each step by itself: a person decided all of them, so a different decision of the rules is listed.
        const expected = live.flatMap((decision, index) => {
          const approve = asked[index]?.approve === true
          if (decision === "allow" && !approve) return [`${index} rejected_would_run`]
          return decision === "reject" && approve ? [`${index} approved_would_be_rejected`] : []
        })
        assert.sameMembers(
          listed.map(({ finding, step_id }) => `${step_id} ${finding}`),
          expected
        )
      }
    })
  )

  it.effect("every step of many pages counts once, within the window alone, and progress is reported", () =>
    Effect.gen(function* () {
      const { admin, org_id, session_id } = yield* team("pages")
      const other = yield* team("beside pages")
      yield* insertSteps(org_id, session_id, 11_111)
      yield* insertSteps(other.org_id, other.session_id, 10)
      const { lines, result } = yield* test(admin, [{ effect: "reject" }])
      assert.strictEqual(result.steps, 11_111)
      assert.deepStrictEqual(result.tested, { ...zero, reject: 11_111 })
      const progress = lines.flatMap((line) => (line.type === "progress" ? [line.steps] : []))
      assert.deepStrictEqual(progress, [10_000])
      const sql = yield* SqlClient.SqlClient
      const [middle] = yield* sql<{ readonly at: Date }>`
        SELECT requested_at AS at
        FROM governed_steps
        WHERE session_id = ${session_id}
          AND step_id = 'seeded 6000'
      `
      const at = DateTime.makeUnsafe(middle?.at ?? 0)
      const newer = yield* test(admin, [], { since: at })
      const older = yield* test(admin, [], { until: at })
      assert.strictEqual(newer.result.steps + older.result.steps, 11_111)
      // Three steps share each second; those at the boundary belong to the window that starts there.
      assert.strictEqual(newer.result.steps, 6_002)
    })
  )

  it.effect("a page is read by the index of the steps' times alone, wherever the page before it ended", () =>
    Effect.gen(function* () {
      const { org_id = OrgId.make(""), session_id } = yield* team("plans")
      yield* insertSteps(org_id, session_id, 5_000)
      const sql = yield* SqlClient.SqlClient
      yield* sql`ANALYZE governed_steps`
      const until = yield* DateTime.now
      const window = {
        org_id,
        since: DateTime.subtract(until, { days: 1 }),
        until,
        withArguments: true,
        inOrder: false
      }
      const after = {
        requested_at: DateTime.subtract(until, { minutes: 10 }),
        session_id,
        step_id: StepId.make("seeded 1800")
      }
      for (const cursor of [undefined, after]) {
        const rows = yield* sql<{ readonly "QUERY PLAN": string }>`
          EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF, SUMMARY OFF) ${stepsStatement(sql, window, cursor)}
        `
        const plan = rows.map((row) => row["QUERY PLAN"]).join("\n")
        const [, read] =
          /using governed_steps_requested_at on governed_steps \(actual rows=(\d+)/.exec(plan) ?? []
        assert.isAtMost(Number(read), 2 * PAGE_STEPS, plan)
      }
    })
  )

  it.effect("of many findings the newest are listed, and all are counted", () =>
    Effect.gen(function* () {
      const { admin, agent, org_id, reviewer, session_id } = yield* team("many findings")
      const sql = yield* SqlClient.SqlClient
      const { approval_id } = yield* agent.sessions.step({
        params: { id: session_id },
        payload: { step_id: StepId.make("real"), tool: "search", action_class: "read" }
      })
      if (approval_id === null) return assert.fail("it waits for a person")
      yield* reviewer.approvals.decide({ params: { id: approval_id }, payload: { decision: "reject" } })
      yield* insertSteps(org_id, session_id, MAX_LISTED_STEPS + 9)
      yield* sql`
        UPDATE governed_steps
        SET decision = 'pending', approval_id = ${approval_id}
        WHERE session_id = ${session_id}
      `
      const { result, steps } = yield* test(admin, [{ effect: "allow" }])
      assert.strictEqual(result.rejected_would_run, MAX_LISTED_STEPS + 10)
      assert.lengthOf(steps, MAX_LISTED_STEPS)
      assert.strictEqual(result.unlisted, 10)
      assert.strictEqual(steps[0]?.step_id, "real")
    })
  )

  it.effect("rules are checked as when they are saved, and the window as well", () =>
    Effect.gen(function* () {
      const { admin } = yield* team("refused")
      const countersign = yield* Countersign
      const refused = (rules: ReadonlyArray<NewApprovalRule>, window = {}) =>
        Effect.map(
          Effect.flip(admin.approvalRules.test({ payload: { rules, ...window } })),
          (error) => [error._tag, ...pointersOf(error)] as const
        )
      assert.deepStrictEqual(yield* refused([{ effect: "allow", review_seconds: 5, expiring_seconds: 5 }]), [
        "INVALID_REQUEST",
        "#/rules/0/expiring_seconds"
      ])
      const unknown = TaskId.make(`tsk_${"0".repeat(12)}7${"0".repeat(3)}8${"0".repeat(15)}`)
      assert.deepStrictEqual(yield* refused([{ effect: "allow", task_id: unknown }]), [
        "INVALID_REQUEST",
        "#/rules/0/task_id"
      ])
      const [since, until] = ["2026-02-01T00:00:00Z", "2026-01-01T00:00:00Z"].map(DateTime.makeUnsafe)
      assert.deepStrictEqual(yield* refused([], { since, until }), ["INVALID_REQUEST", "#/since"])
      const stranger = yield* countersign.client({ preset: "integration" }, "refused")
      const error = yield* Effect.flip(stranger.approvalRules.test({ payload: { rules: [] } }))
      assert.strictEqual(error._tag, "INSUFFICIENT_SCOPE")
    })
  )

  it.effect("an organization runs a few tests at a time, and one whose client leaves ends at once", () =>
    Effect.gen(function* () {
      const { admin, key, org_id, session_id } = yield* team("limited")
      const { url } = yield* Countersign
      yield* insertSteps(org_id, session_id, 10)
      const sql = yield* SqlClient.SqlClient
      const leave = new AbortController()
      const start = () =>
        fetch(`${url}/v1/approval-rules/test`, {
          method: "POST",
          headers: { authorization: `Bearer ${Redacted.value(key)}`, "content-type": "application/json" },
          body: JSON.stringify({ rules: [] }),
          signal: leave.signal
        })
      const next = yield* sql.withTransaction(
        Effect.gen(function* () {
          yield* sql`LOCK TABLE governed_steps IN ACCESS EXCLUSIVE MODE`
          // In this transaction, because a statement outside of it can wait behind those that are blocked.
          const waiting = sql`SELECT 1 FROM pg_locks WHERE relation = 'governed_steps'::regclass AND NOT granted`
          const running = Array.from({ length: MAX_RULE_TESTS + 1 }, start)
          // All but one wait for the lock.
          const refused = yield* Effect.promise(() => Promise.race(running))
          assert.strictEqual(refused.status, 429)
          yield* eventually(waiting, (rows) => rows.length > 0)
          leave.abort()
          const ended = yield* Effect.promise(() => Promise.allSettled(running))
          assert.lengthOf(
            ended.filter(({ status }) => status === "rejected"),
            MAX_RULE_TESTS
          )
          yield* eventually(waiting, (rows) => rows.length === 0)
          const again = yield* Effect.forkDetach(
            Effect.retry(test(admin, []), {
              while: ({ _tag }) => _tag === "RATE_LIMITED",
              schedule: Schedule.spaced("10 millis")
            })
          )
          yield* eventually(waiting, (rows) => rows.length > 0)
          return again
        })
      )
      assert.strictEqual((yield* Fiber.join(next)).result.steps, 10)
    })
  )

  it.effect("arguments of any size are judged, and the live path agrees about conditions on them", () =>
    Effect.gen(function* () {
      const { admin, agent, params } = yield* team("arguments")
      const given: ReadonlyArray<readonly [string, unknown]> = [
        ["small", { amount: 40 }],
        ["limit", { amount: 100 }],
        ["above", { amount: 100.5 }],
        ["text", { amount: "40" }],
        ["null", null],
        ["large", { amount: 40, note: "é".repeat(20_000) }],
        ["largest", { amount: 4_000, note: Array.from({ length: 90_000 }, (_, index) => index) }]
      ]
      const ask = (id: string, args: unknown, session: { readonly id: typeof params.id }) =>
        agent.sessions.step({
          params: session,
          payload: {
            ...{ step_id: StepId.make(id), tool: "pay", action_class: "write" },
            ...(args === undefined ? {} : { arguments: Schema.decodeUnknownSync(Schema.Json)(args) })
          }
        })
      const askAll = (session: { readonly id: typeof params.id }) =>
        Effect.forEach([...given, ["absent", undefined] as const], ([id, args]) => ask(id, args, session))
      yield* askAll(params)
      const rules: ReadonlyArray<NewApprovalRule> = [
        { effect: "allow", when: [{ pointer: "/amount", op: "at_most", value: 100 }] },
        { effect: "reject", when: [{ pointer: "/amount", op: "greater_than", value: 1_000 }] },
        { effect: "allow", when: [{ pointer: "", op: "absent" }] }
      ]
      const { result } = yield* test(admin, rules)
      yield* admin.approvalRules.replace({ payload: { rules } })
      const { session_id } = yield* agent.sessions.create({})
      const live = (yield* askAll({ id: session_id })).map(({ decision }) => decision)
      const count = (decision: string) => live.filter((one) => one === decision).length
      assert.deepStrictEqual(result.tested, {
        allow: count("allow"),
        reject: count("reject"),
        require_approval: count("pending")
      })
      assert.deepStrictEqual(result.tested, { allow: 3, reject: 1, require_approval: 4 })
    })
  )
})
