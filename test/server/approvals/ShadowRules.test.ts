import { assert, layer } from "@effect/vitest"
import { Effect, Result, type Schema, Stream } from "effect"
import { SqlClient } from "effect/sql"
import * as FastCheck from "fast-check"
import type { NewApprovalRule } from "../../../src/api/ApprovalRules.ts"
import { MAX_COUNTED_DIFFERENCES } from "../../../src/domain/approvals/ShadowDifference.ts"
import { StepId, TaskId } from "../../../src/domain/Ids.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { eventually } from "../../support/eventually.ts"
import { pointersOf, send, service } from "../../support/service.ts"

type Client = Effect.Success<ReturnType<Countersign["Service"]["client"]>>

/** An organization with an agent and an open session. */
const team = Effect.fnUntraced(function* (organization: string) {
  const countersign = yield* Countersign
  const admin = yield* countersign.client({}, organization)
  const agent = yield* countersign.client({ preset: "runtime" }, organization)
  const { session_id } = yield* agent.sessions.create({})
  const ask = (step_id: string, tool: string, args?: Schema.Json) =>
    agent.sessions.step({
      params: { id: session_id },
      payload: {
        ...{ step_id: StepId.make(step_id), tool, action_class: "write" },
        ...(args === undefined ? {} : { arguments: args })
      }
    })
  return { admin, agent, ask, session_id }
})

/** All pages of the differences. */
const differencesOf = Effect.fnUntraced(function* (
  { approvalRules }: Client,
  query: { readonly live?: "allow"; readonly shadow?: "reject"; readonly limit?: number } = {}
) {
  const first = yield* approvalRules.listShadowDifferences({ query })
  const differences = [...first.differences]
  for (let cursor = first.next_cursor; cursor !== null;) {
    const next = yield* approvalRules.listShadowDifferences({ query: { ...query, cursor } })
    assert.isNull(next.changes)
    assert.isNotEmpty(next.differences)
    differences.push(...next.differences)
    cursor = next.next_cursor
  }
  return { ...first, differences }
})

const sorted = (changes: ReadonlyArray<object>) => changes.map((one) => JSON.stringify(one)).toSorted()

layer(service(), { excludeTestServices: true })("ShadowRules", (it) => {
  it.effect("an organization starts without shadow rules, and can remove none", () =>
    Effect.gen(function* () {
      const { admin } = yield* team("nothing")
      const none = { active: false, rules: [], revision: 0, since: null, warnings: [] }
      assert.deepStrictEqual(yield* admin.approvalRules.getShadow({}), none)
      assert.deepStrictEqual(yield* admin.approvalRules.listShadowDifferences({ query: {} }), {
        differences: [],
        next_cursor: null,
        revision: 0,
        changes: []
      })
      yield* admin.approvalRules.removeShadow({})
      assert.deepStrictEqual(yield* admin.approvalRules.getShadow({}), none)
      const refused = yield* Effect.flip(admin.approvalRules.promoteShadow({ payload: {} }))
      assert.strictEqual(refused._tag, "NOT_FOUND")
    })
  )

  it.effect("shadow rules decide nothing, and each step on which they differ says so", () =>
    Effect.gen(function* () {
      const { admin, ask, session_id } = yield* team("differ")
      const live = yield* admin.approvalRules.replace({
        payload: { rules: [{ tool: "read", effect: "allow" }] }
      })
      assert.strictEqual((yield* ask("before", "read")).decision, "allow")
      const shadow = yield* admin.approvalRules.replaceShadow({
        payload: {
          rules: [
            { tool: "read", effect: "reject", reason: "No reading" },
            {
              tool: "pay",
              effect: "allow",
              when: [{ pointer: "/amount", op: "at_most", value: 100 }]
            }
          ]
        }
      })
      assert.deepStrictEqual(yield* admin.approvalRules.getShadow({}), shadow)
      assert.deepStrictEqual(yield* admin.approvalRules.get({}), live)
      assert.strictEqual((yield* ask("read", "read")).decision, "allow")
      const small = yield* ask("small", "pay", { amount: 40 })
      const large = yield* ask("large", "pay", { amount: 400 })
      assert.deepStrictEqual([small.decision, large.decision], ["pending", "pending"])
      // Resumed steps are not compared again.
      assert.strictEqual((yield* ask("read", "read")).decision, "allow")

      const { changes, differences, revision } = yield* differencesOf(admin)
      assert.strictEqual(revision, shadow.revision)
      assert.deepStrictEqual(
        sorted(changes ?? []),
        sorted([
          { live: "require_approval", shadow: "allow", steps: 1 },
          { live: "allow", shadow: "reject", steps: 1 }
        ])
      )
      const [pay, read] = differences
      assert.lengthOf(differences, 2)
      assert.deepInclude(pay, {
        session_id,
        step_id: StepId.make("small"),
        tool: "pay",
        live: { effect: "require_approval", rule_id: null, reason: small.reason },
        approval_id: small.approval_id,
        outcome: null
      })
      assert.deepStrictEqual(pay?.shadow, {
        effect: "allow",
        rule_id: shadow.rules[1]?.id ?? null,
        reason: "A rule allows this step (rule 2: /amount at_most)"
      })
      assert.strictEqual(read?.live.rule_id, live.rules[0]?.id)
      assert.deepInclude(read?.shadow, { effect: "reject", reason: "No reading" })
      if (small.approval_id === null) return assert.fail("it waits for a person")
      yield* admin.approvals.decide({ params: { id: small.approval_id }, payload: { decision: "reject" } })
      assert.deepInclude((yield* differencesOf(admin)).differences[0], {
        outcome: "reject",
        decision_source: "human"
      })
    })
  )

  it.effect("every difference is on one page, whatever the page's size and filter, and in one count", () =>
    Effect.gen(function* () {
      const { admin, session_id } = yield* team("pages")
      const { revision } = yield* admin.approvalRules.replaceShadow({ payload: { rules: [] } })
      const sql = yield* SqlClient.SqlClient
      // Several steps share each time, so that the order within it matters.
      yield* sql`
        INSERT INTO governed_steps (
          org_id, session_id, step_id, tool, action_class, arguments_digest, decision, reason, requested_by_id, requested_at,
          shadow_effect, shadow_reason, shadow_revision
        )
        SELECT org_id, session_id, 'seeded ' || n, 'search', 'read', '', CASE WHEN n % 2 = 0 THEN 'allow' ELSE 'reject' END, '', 'key',
          date_trunc('seconds', now()) - n / 4 * interval '1 second',
          CASE WHEN n % 7 <> 0 THEN 'require_approval' WHEN n % 2 = 0 THEN 'reject' ELSE 'allow' END, '', ${revision}
        FROM agent_sessions, generate_series(1, 60) AS n
        WHERE session_id = ${session_id}
      `
      const all = yield* differencesOf(admin, { limit: 100 })
      assert.lengthOf(all.differences, 60)
      const times = all.differences.map(({ requested_at }) => requested_at.epochMilliseconds)
      assert.deepStrictEqual(
        times,
        times.toSorted((one, other) => other - one)
      )
      for (const limit of [1, 7, 59, 60]) {
        const paged = yield* differencesOf(admin, { limit })
        assert.deepStrictEqual(paged.differences, all.differences)
        assert.deepStrictEqual(paged.changes, all.changes)
      }
      const some = yield* differencesOf(admin, { live: "allow", shadow: "reject", limit: 2 })
      assert.deepStrictEqual(
        some.differences,
        all.differences.filter(({ live, shadow }) => live.effect === "allow" && shadow.effect === "reject")
      )
      assert.isNotEmpty(some.differences)
      assert.strictEqual(
        all.changes?.reduce((sum, { steps }) => sum + steps, 0),
        60
      )
      for (const { live, shadow, steps } of all.changes ?? []) {
        const listed = all.differences.filter(
          (one) => one.live.effect === live && one.shadow.effect === shadow
        )
        assert.lengthOf(listed, steps)
      }
    })
  )

  it.effect("the lists and the counts read the index of differences alone, and count up to a limit", () =>
    Effect.gen(function* () {
      const { admin, session_id } = yield* team("many")
      const { revision } = yield* admin.approvalRules.replaceShadow({ payload: { rules: [] } })
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        INSERT INTO governed_steps (
          org_id, session_id, step_id, tool, action_class, arguments_digest, decision, reason, requested_by_id, requested_at,
          shadow_effect, shadow_reason, shadow_revision
        )
        SELECT org_id, session_id, 'seeded ' || n, 'search', 'read', '', 'allow', '', 'key', now(),
          CASE WHEN n <= ${MAX_COUNTED_DIFFERENCES + 5}::int THEN 'reject' END, CASE WHEN n <= ${MAX_COUNTED_DIFFERENCES + 5}::int THEN '' END,
          CASE WHEN n <= ${MAX_COUNTED_DIFFERENCES + 5}::int THEN ${revision}::int END
        FROM agent_sessions, generate_series(1, 30000) AS n
        WHERE session_id = ${session_id}
      `
      yield* sql`ANALYZE governed_steps`
      const { changes, differences } = yield* admin.approvalRules.listShadowDifferences({ query: {} })
      assert.deepStrictEqual(changes, [{ live: "allow", shadow: "reject", steps: MAX_COUNTED_DIFFERENCES }])
      assert.lengthOf(differences, 50)
      const plan = yield* sql<{ readonly "QUERY PLAN": string }>`
        EXPLAIN
        SELECT
        FROM governed_steps
        WHERE org_id = (SELECT org_id FROM agent_sessions WHERE session_id = ${session_id})
          AND shadow_revision = ${revision}
          AND decision = 'allow'
          AND shadow_effect = 'reject'
        LIMIT 10000
      `
      assert.include(plan.map((row) => row["QUERY PLAN"]).join("\n"), "governed_steps_shadow")
    })
  )

  it.effect("another list starts counting again, and a removed one has no differences", () =>
    Effect.gen(function* () {
      const { admin, agent, ask, session_id } = yield* team("again")
      yield* admin.approvalRules.replaceShadow({ payload: { rules: [{ effect: "allow" }] } })
      yield* ask("one", "pay")
      assert.lengthOf((yield* differencesOf(admin)).differences, 1)
      yield* admin.approvalRules.replaceShadow({ payload: { rules: [{ effect: "reject" }] } })
      assert.lengthOf((yield* differencesOf(admin)).differences, 0)
      yield* ask("two", "pay")
      const { differences } = yield* differencesOf(admin)
      assert.deepStrictEqual(
        differences.map(({ step_id }) => String(step_id)),
        ["two"]
      )
      yield* admin.approvalRules.removeShadow({})
      yield* ask("three", "pay")
      assert.lengthOf((yield* differencesOf(admin)).differences, 0)
      assert.deepInclude(yield* admin.approvalRules.getShadow({}), { active: false, revision: 3 })
      // A list after a removal does not bring back the differences of one before it.
      yield* admin.approvalRules.replaceShadow({ payload: { rules: [{ effect: "reject" }] } })
      assert.lengthOf((yield* differencesOf(admin)).differences, 0)
      yield* ask("four", "pay")
      assert.lengthOf((yield* differencesOf(admin)).differences, 1)
      yield* agent.sessions.close({ params: { id: session_id } })
      const { entries } = yield* admin.auditLog.list({ query: { limit: 3, action: "rules.shadow_removed" } })
      assert.deepStrictEqual(entries[0]?.detail, { revision: 2 })
    })
  )

  it.effect("shadow rules are checked like live ones, and nothing is stored of a list that is refused", () =>
    Effect.gen(function* () {
      const { admin } = yield* team("refused")
      const refused = (rules: ReadonlyArray<NewApprovalRule>) =>
        Effect.map(
          Effect.flip(admin.approvalRules.replaceShadow({ payload: { rules } })),
          (error) => [error._tag, ...pointersOf(error)] as const
        )
      const unknown = TaskId.make(`tsk_${"0".repeat(12)}7${"0".repeat(3)}8${"0".repeat(15)}`)
      assert.deepStrictEqual(yield* refused([{ effect: "allow", task_id: unknown }]), [
        "INVALID_REQUEST",
        "#/rules/0/task_id"
      ])
      assert.deepStrictEqual(
        yield* refused([{ effect: "require_approval", quorum: [{ group: "nobody" }] }]),
        ["UNKNOWN_GROUP", "#/rules/0/quorum/0/group"]
      )
      const conditions = Array.from({ length: 21 }, () => ({ pointer: "/a", op: "exists" as const }))
      assert.strictEqual((yield* refused([{ effect: "allow", when: conditions }]))[0], "RULES_TOO_LARGE")
      const many = Array.from({ length: 1_001 }, () => ({ effect: "allow" as const }))
      assert.deepStrictEqual(yield* refused(many), ["RULES_TOO_LARGE", "#/rules"])
      assert.deepInclude(yield* admin.approvalRules.getShadow({}), { active: false, revision: 0 })
    })
  )

  it.effect("a shadow rule with the id of a stored one keeps its conditions, or names them", () =>
    Effect.gen(function* () {
      const { admin } = yield* team("known members")
      const when = [{ pointer: "/amount", op: "at_most" as const, value: 100 }]
      const { rules } = yield* admin.approvalRules.replace({
        payload: { rules: [{ effect: "allow", when }] }
      })
      const id = rules[0]?.id
      if (id === undefined) return assert.fail("there is a rule")
      const refused = yield* Effect.flip(
        admin.approvalRules.replaceShadow({ payload: { rules: [{ id, effect: "allow" }] } })
      )
      assert.deepStrictEqual(pointersOf(refused), ["#/rules/0/when"])
      const shadow = yield* admin.approvalRules.replaceShadow({
        payload: { rules: [{ id, effect: "allow", when: [] }] }
      })
      assert.strictEqual(shadow.rules[0]?.id, id)
    })
  )

  it.effect("of concurrent replacements of one revision exactly one is accepted", () =>
    Effect.gen(function* () {
      const { admin } = yield* team("race")
      const results = yield* Effect.all(
        Array.from({ length: 6 }, (_, index) =>
          Effect.result(
            admin.approvalRules.replaceShadow({
              payload: { revision: 0, rules: [{ effect: "reject", reason: `number ${index}` }] }
            })
          )
        ),
        { concurrency: "unbounded" }
      )
      const [won, ...others] = results.filter(Result.isSuccess)
      assert.lengthOf(others, 0)
      assert.deepStrictEqual(yield* admin.approvalRules.getShadow({}), won?.success)
      for (const { failure } of results.filter(Result.isFailure)) {
        assert.deepInclude(failure, { _tag: "RULES_CHANGED", current_revision: 1 })
      }
    })
  )

  it.effect("promotion makes the shadow rules live at the revisions it names, and removes them", () =>
    Effect.gen(function* () {
      const { admin, ask } = yield* team("promote")
      const live = yield* admin.approvalRules.replace({ payload: { rules: [{ effect: "reject" }] } })
      const shadow = yield* admin.approvalRules.replaceShadow({ payload: { rules: [{ effect: "allow" }] } })
      assert.strictEqual((yield* ask("before", "pay")).decision, "reject")
      const promote = (payload: { readonly revision?: number; readonly shadow_revision?: number }) =>
        admin.approvalRules.promoteShadow({ payload })
      const stale = yield* Effect.flip(promote({ revision: live.revision - 1 }))
      assert.deepInclude(stale, { _tag: "RULES_CHANGED", current_revision: live.revision })
      const other = yield* Effect.flip(promote({ shadow_revision: shadow.revision + 1 }))
      assert.deepInclude(other, { _tag: "RULES_CHANGED", current_revision: shadow.revision })
      assert.deepStrictEqual(yield* admin.approvalRules.getShadow({}), shadow)
      assert.deepStrictEqual(yield* admin.approvalRules.get({}), live)

      const promoted = yield* promote({ revision: live.revision, shadow_revision: shadow.revision })
      assert.deepStrictEqual(promoted, {
        rules: shadow.rules,
        revision: live.revision + 1,
        warnings: []
      })
      assert.deepStrictEqual(yield* admin.approvalRules.get({}), promoted)
      assert.deepInclude(yield* admin.approvalRules.getShadow({}), {
        active: false,
        rules: [],
        revision: shadow.revision + 1
      })
      assert.strictEqual((yield* ask("after", "pay")).decision, "allow")
      assert.lengthOf((yield* differencesOf(admin)).differences, 0)
      const { entries } = yield* admin.auditLog.list({ query: { limit: 1 } })
      assert.deepInclude(entries[0], {
        action: "rules.replaced",
        detail: { revision: promoted.revision, rules: 1, shadow_revision: shadow.revision }
      })
    })
  )

  it.effect("shadow rules that name what is gone are not promoted", () =>
    Effect.gen(function* () {
      const { admin } = yield* team("gone")
      const { key_id } = yield* Effect.map(
        admin.apiKeys.create({ payload: { name: "Treasurer", preset: "reviewer", groups: ["treasury"] } }),
        ({ key }) => ({ key_id: key.id })
      )
      const shadow = yield* admin.approvalRules.replaceShadow({
        payload: { rules: [{ effect: "require_approval", quorum: [{ group: "treasury" }] }] }
      })
      yield* admin.apiKeys.revoke({ params: { id: key_id }, query: {} })
      const refused = yield* Effect.flip(admin.approvalRules.promoteShadow({ payload: {} }))
      assert.strictEqual(refused._tag, "UNKNOWN_GROUP")
      assert.deepStrictEqual(yield* admin.approvalRules.getShadow({}), shadow)
      assert.deepStrictEqual(yield* admin.approvalRules.get({}), { rules: [], revision: 0, warnings: [] })
    })
  )

  it.effect(
    "reading them needs approvals.read, changing them rules.write, and cursors must be their own",
    () =>
      Effect.gen(function* () {
        const countersign = yield* Countersign
        const { admin } = yield* team("scopes")
        yield* admin.approvalRules.replaceShadow({ payload: { rules: [] } })
        const agent = yield* countersign.client({ preset: "integration" }, "scopes")
        const reviewer = yield* countersign.client({ preset: "reviewer" }, "scopes")
        const read = yield* Effect.flip(agent.approvalRules.getShadow({}))
        assert.strictEqual(read._tag, "INSUFFICIENT_SCOPE")
        assert.isTrue((yield* reviewer.approvalRules.getShadow({})).active)
        for (const change of [
          reviewer.approvalRules.replaceShadow({ payload: { rules: [] } }),
          reviewer.approvalRules.removeShadow({}),
          reviewer.approvalRules.promoteShadow({ payload: {} })
        ]) {
          const error: { readonly _tag: string } = yield* Effect.flip(
            Effect.mapError(Effect.asVoid(change), ({ _tag }) => ({ _tag }))
          )
          assert.strictEqual(error._tag, "INSUFFICIENT_SCOPE")
        }
        const key = yield* countersign.key({}, "scopes")
        for (const text of ["", "nonsense", "1 ses_1 step", "-1 x y", "\u0000"]) {
          const cursor = Buffer.from(text).toString("base64url")
          const { status } = yield* send(`/v1/approval-rules/shadow/differences?cursor=${cursor}`, { key })
          assert.strictEqual(status, 400, text)
        }
      })
  )

  it.effect("the differences of steps are what a test of the same rules says about these steps", () =>
    Effect.gen(function* () {
      const { admin, agent } = yield* team("property")
      const tools = FastCheck.constantFrom("pay", "pay.refund", "read")
      const patterns = FastCheck.constantFrom("*", "pay*", "read")
      const effects = FastCheck.constantFrom("allow" as const, "reject" as const, "require_approval" as const)
      const when = FastCheck.constantFrom(
        [],
        [{ pointer: "/amount", op: "at_most" as const, value: 100 }],
        [{ pointer: "/to", op: "matches" as const, value: "^a+$" }],
        [{ pointer: "", op: "absent" as const }]
      )
      const rules = FastCheck.array(FastCheck.record({ tool: patterns, effect: effects, when }), {
        maxLength: 5
      })
      const argumentsOf = FastCheck.constantFrom<Schema.Json | undefined>(
        undefined,
        null,
        { amount: 10 },
        { amount: 1_000, to: "aaa" },
        { amount: "10" },
        { amount: 40, note: "é".repeat(40_000) }
      )
      const steps = FastCheck.array(FastCheck.record({ tool: tools, arguments: argumentsOf }), {
        minLength: 1,
        maxLength: 8
      })
      const runs = FastCheck.sample(FastCheck.tuple(rules, rules, steps), { numRuns: 15 })
      for (const [live, shadow, asked] of runs) {
        yield* admin.approvalRules.replace({ payload: { rules: live } })
        const { since } = yield* admin.approvalRules.replaceShadow({ payload: { rules: shadow } })
        if (since === null) return assert.fail("there are shadow rules")
        const { session_id } = yield* agent.sessions.create({})
        yield* Effect.forEach(
          asked,
          ({ arguments: args, tool }, index) =>
            agent.sessions.step({
              params: { id: session_id },
              payload: {
                ...{ step_id: StepId.make(String(index)), tool, action_class: "write" },
                ...(args === undefined ? {} : { arguments: args })
              }
            }),
          { concurrency: 4 }
        )
        const lines = yield* Stream.runCollect(
          yield* admin.approvalRules.test({ payload: { rules: shadow, since } })
        )
        const result = lines.at(-1)
        if (result?.type !== "result") return assert.fail("the last line is the result")
        assert.strictEqual(result.steps, asked.length)
        const { changes } = yield* admin.approvalRules.listShadowDifferences({ query: {} })
        assert.deepStrictEqual(
          sorted(changes ?? []),
          sorted(
            result.changes.map(({ recorded, tested, ...one }) => ({ live: recorded, shadow: tested, ...one }))
          )
        )
      }
    })
  )

  it.effect(
    "a step that a grant allowed differs only from rules that reject it, as in a test of these rules",
    () =>
      Effect.gen(function* () {
        const countersign = yield* Countersign
        const { admin, ask } = yield* team("granted")
        const reviewer = yield* countersign.client({ preset: "reviewer", name: "Ada" }, "granted")
        yield* admin.approvalRules.replace({ payload: { rules: [{ effect: "require_approval" }] } })
        const { approval_id } = yield* ask("first", "pay")
        if (approval_id === null) return assert.fail("it waits for a person")
        const { grant } = yield* reviewer.approvals.decide({
          params: { id: approval_id },
          payload: { decision: "approve", grant: { scope: "tool" } }
        })
        assert.isNotNull(grant)
        for (const effect of ["require_approval", "allow", "reject"] as const) {
          const rules = [{ effect }]
          const { since } = yield* admin.approvalRules.replaceShadow({ payload: { rules } })
          if (since === null) return assert.fail("there are shadow rules")
          assert.strictEqual((yield* ask(effect, "pay")).decision, "allow")
          const { changes } = yield* admin.approvalRules.listShadowDifferences({ query: {} })
          assert.deepStrictEqual(
            changes,
            effect === "reject" ? [{ live: "allow", shadow: "reject", steps: 1 }] : []
          )
          const lines = yield* Stream.runCollect(
            yield* admin.approvalRules.test({ payload: { rules, since } })
          )
          const result = lines.at(-1)
          if (result?.type !== "result") return assert.fail("the last line is the result")
          assert.deepStrictEqual(
            result.changes,
            effect === "reject" ? [{ recorded: "allow", tested: "reject", steps: 1 }] : []
          )
        }
      })
  )

  it.effect("erasing a session removes its differences", () =>
    Effect.gen(function* () {
      const { admin, agent } = yield* team("erased")
      yield* admin.approvalRules.replaceShadow({ payload: { rules: [{ effect: "allow" }] } })
      for (const customer of ["c-1", "c-2"]) {
        const { session_id } = yield* agent.sessions.create({ payload: { metadata: { customer } } })
        yield* agent.sessions.step({
          params: { id: session_id },
          payload: { step_id: StepId.make(customer), tool: "pay", action_class: "write" }
        })
      }
      assert.lengthOf((yield* differencesOf(admin)).differences, 2)
      yield* admin.deletions.erase({ payload: { metadata_key: "customer", metadata_value: "c-1" } })
      const left = yield* eventually(differencesOf(admin), ({ differences }) => differences.length === 1)
      assert.deepInclude(left, { changes: [{ live: "require_approval", shadow: "allow", steps: 1 }] })
      assert.strictEqual(left.differences[0]?.step_id, "c-2")
    })
  )

  it.effect("a step of another organization is no difference of this one", () =>
    Effect.gen(function* () {
      const ours = yield* team("ours")
      const theirs = yield* team("theirs")
      yield* ours.admin.approvalRules.replaceShadow({ payload: { rules: [{ effect: "allow" }] } })
      yield* theirs.admin.approvalRules.replaceShadow({ payload: { rules: [{ effect: "reject" }] } })
      yield* theirs.ask("one", "pay")
      assert.lengthOf((yield* differencesOf(ours.admin)).differences, 0)
      assert.lengthOf((yield* differencesOf(theirs.admin)).differences, 1)
    })
  )
})
