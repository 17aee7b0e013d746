import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { SampleDraw } from "../../../src/server/approvals/ReviewerDecisions.ts"
import { eventually, waitForBlockedStatements } from "../../support/eventually.ts"
import {
  answers,
  countAnswers,
  noAnswer,
  releaseAnother,
  reviewedTeam,
  scriptedModel
} from "../../support/reviewedTeam.ts"
import { pointersOf, service } from "../../support/service.ts"

const model = scriptedModel()

type Team = Effect.Success<ReturnType<typeof reviewedTeam>>

/** Gives the session a grant for another tool, so that its steps are decided under its lock, in a transaction. */
const lockedBySession = ({ person, submit }: Team) =>
  Effect.gen(function* () {
    yield* model.answer(() => answers("unsure"))
    const { approval_id } = yield* submit({ tool: "payments.pay" })
    if (approval_id === null) return assert.fail("it waits")
    yield* person.approvals.decide({
      params: { id: approval_id },
      payload: { decision: "approve", grant: { scope: "tool" } }
    })
  }).pipe(Effect.orDie)

const paths: ReadonlyArray<readonly [name: string, prepare: (team: Team) => Effect.Effect<void>]> = [
  ["a shared statement", () => Effect.void],
  ["a transaction", lockedBySession]
]

/** A model that says when it is asked, and answers when it may. */
const heldModel = Effect.gen(function* () {
  const asked = yield* Deferred.make<void>()
  const mayAnswer = yield* Deferred.make<void>()
  yield* model.answer(() =>
    Deferred.succeed(asked, undefined).pipe(
      Effect.andThen(Deferred.await(mayAnswer)),
      Effect.andThen(answers("approve"))
    )
  )
  return { asked: Deferred.await(asked), answer: Deferred.succeed(mayAnswer, undefined) }
})

/** Submits a step, until the model is asked about it. */
const untilAsked = ({ submit }: Team) =>
  Effect.gen(function* () {
    const { answer, asked } = yield* heldModel
    const step = yield* Effect.forkChild(submit())
    yield* asked
    return { answer, step }
  })

/** The decisions of the model that are stored with steps. */
const storedDecisions = ({ group, sql }: Team) => sql<{ readonly step_id: string; readonly answer: string }>`
  SELECT answers.step_id, answers.answer
  FROM reviewer_answers AS answers
    JOIN governed_steps AS steps USING (org_id, session_id, step_id)
  WHERE org_id = ${group.org_id}
    AND mode = 'decided'
    AND steps.reviewer_task_id = answers.task_id
`

layer(service({ replace: model.layer }), { excludeTestServices: true, timeout: "120 seconds" })(
  "ReviewerDecisions",
  (it) => {
    for (const [path, prepare] of paths) {
      it.effect(`in ${path}, a reviewer that has earned it allows and rejects steps, with its reason`, () =>
        Effect.gen(function* () {
          const team = yield* reviewedTeam(`decides in ${path}`)
          yield* prepare(team)
          const { admin, group, session_id, sql, submit, task_id } = team
          yield* model.answer(() => answers("approve", "A small refund"))
          const allowed = yield* submit({ claim: true })
          const { claim, ...answered } = allowed
          const reviewer = { task_id, release_id: group.release_id, reason: "A small refund" }
          assert.deepInclude(answered, {
            decision: "allow",
            decision_source: "model",
            reason: "Approved by a reviewer model, within the bounds of the rule",
            approval_id: null,
            decided_by: null,
            comment: null,
            grant_id: null,
            reviewer
          })
          const ticket = Buffer.from(claim?.ticket.split(".")[1] ?? "", "base64url").toString()
          assert.include(ticket, '"decision_source":"model"')
          yield* model.answer(() => answers("reject", "Too much"))
          const rejected = yield* submit()
          assert.deepInclude(rejected, { decision: "reject", decision_source: "model" })
          // Repeated, each keeps its decision, whatever the model would say now.
          yield* model.answer(() => answers("unsure"))
          const asked = model.asked.length
          assert.deepStrictEqual(yield* submit({ step_id: rejected.step_id }), rejected)
          assert.strictEqual(model.asked.length, asked)
          assert.sameDeepMembers(
            [...(yield* storedDecisions(team))],
            [
              { step_id: allowed.step_id, answer: "approve" },
              { step_id: rejected.step_id, answer: "reject" }
            ]
          )
          const [governed] = yield* sql<{ readonly data: object }>`
            SELECT data FROM session_events
            WHERE org_id = ${group.org_id} AND type = 'step:governed' AND step_id = ${allowed.step_id}
          `
          assert.deepInclude(governed?.data, { decision_source: "model", reviewer, approval_id: null })
          const { entries } = yield* admin.auditLog.list({ query: {} })
          const logged = entries.filter(({ action }) => action.startsWith("step."))
          assert.deepStrictEqual(
            logged.map(({ action, actor }) => ({ action, actor })),
            [
              { action: "step.rejected_by_model", actor: null },
              { action: "step.approved_by_model", actor: null }
            ]
          )
          assert.deepStrictEqual(logged[1]?.detail, {
            session_id,
            step_id: allowed.step_id,
            tool: "payments.refund",
            task_id,
            release_id: group.release_id
          })
        }).pipe(Effect.orDie)
      )

      it.effect(`in ${path}, a reviewer that is stopped while its model answers decides nothing`, () =>
        Effect.gen(function* () {
          const team = yield* reviewedTeam(`stopped meanwhile in ${path}`)
          yield* prepare(team)
          const { answer, step } = yield* untilAsked(team)
          yield* team.admin.reviewers.stop({ params: { task_id: team.task_id } })
          yield* team.admin.reviewers.restore({ params: { task_id: team.task_id } })
          yield* answer
          // Restored, but of another generation.
          const { approval_id, decision, decision_source } = yield* Fiber.join(step)
          assert.deepStrictEqual([decision, decision_source], ["pending", null])
          assert.isNotNull(approval_id)
          assert.deepStrictEqual(yield* storedDecisions(team), [])
          // Its answer is kept, to be compared with the person's.
          assert.deepStrictEqual(
            yield* team.sql`SELECT mode, answer FROM reviewer_answers WHERE approval_id = ${approval_id}`,
            [{ mode: "shadow", answer: "approve" }]
          )
        }).pipe(Effect.orDie)
      )

      it.effect(
        `in ${path}, other bounds that are stored while the model answers send the step to people`,
        () =>
          Effect.gen(function* () {
            const team = yield* reviewedTeam(`other bounds in ${path}`)
            yield* prepare(team)
            const { answer, step } = yield* untilAsked(team)
            yield* team.setRules({ min_lower_bound: 0.999, max_false_approvals: 0.0005 })
            yield* answer
            assert.strictEqual((yield* Fiber.join(step)).decision, "pending")
            assert.deepStrictEqual(yield* storedDecisions(team), [])
          }).pipe(Effect.orDie)
      )

      it.effect(`in ${path}, a change of other rules while the model answers changes nothing`, () =>
        Effect.gen(function* () {
          const team = yield* reviewedTeam(`other rules in ${path}`)
          yield* prepare(team)
          const { answer, step } = yield* untilAsked(team)
          yield* team.setRules({}, [{ tool: "mail.*", effect: "allow" }])
          yield* answer
          assert.strictEqual((yield* Fiber.join(step)).decision_source, "model")
        }).pipe(Effect.orDie)
      )
    }

    it.effect("a step that is submitted twice at once is decided once", () =>
      Effect.gen(function* () {
        const team = yield* reviewedTeam("twice at once", { reviewer: { sample: 0.05 } })
        let number = 0
        // One says yes and one says no: whichever is written first counts for both.
        yield* model.answer(() => answers(number++ % 2 === 0 ? "approve" : "reject"))
        for (let step = 0; step < 20; step++) {
          // The third rejection in a session is the last.
          const { session_id } = yield* team.agent.sessions.create({})
          const submit = team.submitAs(team.agent, session_id, { step_id: `twice ${step}` })
          const [one, other] = yield* Effect.all([submit, submit], { concurrency: 2 })
          assert.deepStrictEqual(
            [one.decision, one.decision_source, one.approval_id],
            [other.decision, other.decision_source, other.approval_id]
          )
        }
        const decided = yield* storedDecisions(team)
        assert.isAbove(decided.length, 5)
        assert.strictEqual(new Set(decided.map(({ step_id }) => step_id)).size, decided.length)
      }).pipe(Effect.orDie)
    )

    it.effect("a request that ends between the answer and the write has decided nothing", () =>
      Effect.gen(function* () {
        const team = yield* reviewedTeam("ended before the write")
        const { answer, step } = yield* untilAsked(team)
        const isWritten = yield* Deferred.make<void>()
        // Another transaction has the session, so that the write waits for it.
        const blocker = yield* Effect.forkChild(
          team.sql.withTransaction(
            Effect.andThen(
              team.sql`SELECT 1 FROM agent_sessions WHERE session_id = ${team.session_id} FOR UPDATE`,
              Deferred.await(isWritten)
            )
          )
        )
        yield* eventually(
          team.sql`SELECT 1 FROM pg_locks WHERE mode = 'RowShareLock' AND relation = 'agent_sessions'::regclass`,
          (locks) => locks.length > 0
        )
        yield* answer
        yield* waitForBlockedStatements(1)
        yield* Fiber.interrupt(step)
        yield* Deferred.succeed(isWritten, undefined)
        yield* Fiber.join(blocker)
        assert.deepStrictEqual(yield* storedDecisions(team), [])
        const [count] = yield* team.sql<{ readonly steps: number }>`
          SELECT count(*)::int AS steps FROM reviewer_answers WHERE org_id = ${team.group.org_id} AND mode = 'decided'
        `
        assert.strictEqual(count?.steps, 0)
        yield* model.answer(() => answers("approve"))
        assert.strictEqual((yield* team.submit()).decision_source, "model")
      }).pipe(Effect.orDie)
    )

    it.effect("a sampled step is put to the model like any other, and waits for people like any other", () =>
      Effect.gen(function* () {
        const sampled = yield* reviewedTeam("sampled", { reviewer: { sample: 1 } })
        const other = yield* reviewedTeam("without a reviewer", { reviewer: null })
        yield* model.answer(() => answers("approve"))
        const asked = model.asked.length
        const before = yield* sampled.submit({ step_id: "same" })
        assert.strictEqual(model.asked.length, asked + 1)
        const plain = yield* other.submit({ step_id: "same" })
        assert.strictEqual(before.decision, "pending")
        assert.sameMembers(Object.keys(before), Object.keys(plain))
        assert.strictEqual(before.reason, plain.reason)
        const read = ({ admin }: Team, id: typeof before.approval_id) =>
          id === null ? assert.fail("it waits") : admin.approvals.get({ params: { id } })
        const [seen, plainSeen] = [
          yield* read(sampled, before.approval_id),
          yield* read(other, plain.approval_id)
        ]
        assert.sameMembers(Object.keys(seen), Object.keys(plainSeen))
        assert.notInclude(JSON.stringify(seen), "model")
        assert.notInclude(JSON.stringify(seen), sampled.task_id)
        // Its answer is kept beside the approval, and the model is not asked again.
        const kept = yield* sampled.sql`
          SELECT mode, answer, approval_id FROM reviewer_answers WHERE org_id = ${sampled.group.org_id}
        `
        assert.deepStrictEqual(kept, [{ mode: "shadow", answer: "approve", approval_id: before.approval_id }])
      }).pipe(Effect.orDie)
    )

    it.effect("draws are spread evenly from 0 to below 1", () =>
      Effect.gen(function* () {
        const draw = SampleDraw.defaultValue()
        const drawn = Array.from({ length: 10_000 }, draw).toSorted((one, other) => one - other)
        assert.isTrue(drawn.every((number) => number >= 0 && number < 1))
        // The chance that one of them is this far off is below 1 to 10^20.
        for (const share of [0.05, 0.25, 0.5, 0.95])
          assert.approximately(drawn[share * 10_000] ?? NaN, share, 0.05)
      })
    )

    it.effect("the sample is the share of the rule", () =>
      Effect.gen(function* () {
        const { submit } = yield* reviewedTeam("share of the sample", { reviewer: { sample: 0.5 } })
        yield* model.answer(() => answers("approve"))
        model.draws.push(0, 0.499, 0.5, 0.999)
        const decisions = yield* Effect.forEach(Array.from({ length: 4 }), () => submit())
        assert.deepStrictEqual(
          decisions.map(({ decision }) => decision),
          ["pending", "pending", "allow", "allow"]
        )
      }).pipe(Effect.orDie)
    )

    it.effect("people decide about a call that the agent repeats under another id instead of waiting", () =>
      Effect.gen(function* () {
        const { agent, person, submit, submitAs } = yield* reviewedTeam("repeated call")
        const call = { arguments: { order: "A-1" } }
        yield* model.answer(() => answers("unsure"))
        const { approval_id } = yield* submit(call)
        if (approval_id === null) return assert.fail("it waits")
        yield* model.answer(() => answers("approve"))
        const decisions = Effect.map(
          Effect.forEach(Array.from({ length: 10 }), () => submit(call)),
          (steps) => new Set(steps.map(({ decision }) => decision))
        )
        assert.deepStrictEqual(yield* decisions, new Set(["pending"]))
        yield* person.approvals.decide({ params: { id: approval_id }, payload: { decision: "reject" } })
        assert.deepStrictEqual(yield* decisions, new Set(["pending"]))
        // The model decides other calls, also in another session, but not this one.
        assert.strictEqual((yield* submit()).decision_source, "model")
        const { session_id } = yield* agent.sessions.create({})
        const elsewhere = yield* submitAs(agent, session_id)
        assert.strictEqual(elsewhere.decision_source, "model")
        for (let i = 0; i < 5; i++)
          assert.strictEqual((yield* submitAs(agent, session_id, call)).decision, "pending")
      }).pipe(Effect.orDie)
    )

    it.effect("people decide about a call that the agent repeats in another order or another session", () =>
      Effect.gen(function* () {
        const { agent, submitAs } = yield* reviewedTeam("withdrawn call")
        yield* model.answer(() => answers("unsure"))
        const first = yield* agent.sessions.create({})
        const call = { arguments: { order: "A-1", to: { name: "Ada", iban: "1" } } }
        yield* submitAs(agent, first.session_id, call)
        yield* model.answer(() => answers("approve"))
        const reordered = { arguments: { to: { iban: "1", name: "Ada" }, order: "A-1" } }
        for (let i = 0; i < 5; i++)
          assert.strictEqual((yield* submitAs(agent, first.session_id, reordered)).decision, "pending")
        // The agent takes it back, before a person has seen it.
        yield* agent.sessions.close({ params: { id: first.session_id } })
        const { session_id } = yield* agent.sessions.create({})
        for (let i = 0; i < 5; i++)
          assert.strictEqual((yield* submitAs(agent, session_id, call)).decision, "pending")
      }).pipe(Effect.orDie)
    )

    it.effect("people decide about the fourth call of a tool that waits for a model in a session", () =>
      Effect.gen(function* () {
        const { submit } = yield* reviewedTeam("varied at once")
        const before = model.asked.length
        let ended = 0
        const othersEnded = yield* Deferred.make<void>()
        yield* model.answer(() => Effect.andThen(Deferred.await(othersEnded), answers("approve")))
        const decided = yield* Effect.forEach(
          Array.from({ length: 12 }),
          () =>
            Effect.tap(submit(), () =>
              ++ended === 9 ? Deferred.succeed(othersEnded, undefined) : Effect.void
            ),
          { concurrency: 12 }
        )
        assert.strictEqual(model.asked.length, before + 3)
        assert.strictEqual(decided.filter(({ decision_source }) => decision_source === "model").length, 3)
      }).pipe(Effect.orDie)
    )

    for (const answer of ["reject", "unsure"] as const)
      it.effect(`people decide about a tool after the model's third ${answer} in a session`, () =>
        Effect.gen(function* () {
          const { agent, submit, submitAs } = yield* reviewedTeam(`third ${answer}`)
          yield* model.answer(() => answers(answer))
          const asked = model.asked.length
          yield* Effect.repeat(submit(), { until: () => model.asked.length === asked + 3, times: 60 })
          yield* model.answer(() => answers("approve"))
          for (let i = 0; i < 5; i++) assert.strictEqual((yield* submit()).decision, "pending")
          const { session_id } = yield* agent.sessions.create({})
          const elsewhere = yield* submitAs(agent, session_id)
          assert.strictEqual(elsewhere.decision_source, "model")
        }).pipe(Effect.orDie)
      )

    it.effect("an agent cannot try its steps on the model by running its task", () =>
      Effect.gen(function* () {
        const { admin, agent, task_id } = yield* reviewedTeam("tried out")
        yield* model.answer(() => answers("approve"))
        const asked = model.asked.length
        const input = { tool: "payments.refund", action_class: "write", arguments: { amount: 10 } }
        const run = { params: { id: task_id }, payload: { input } }
        for (const by of [agent, admin]) {
          const refused = yield* Effect.flip(by.tasks.run(run))
          assert.strictEqual(refused._tag, "NOT_FOUND")
        }
        const logged = { ...run, payload: { input, answer: { decision: "approve", reason: "" } } }
        assert.strictEqual((yield* Effect.flip(agent.tasks.run(logged)))._tag, "NOT_FOUND")
        assert.strictEqual(model.asked.length, asked)
      }).pipe(Effect.orDie)
    )

    it.effect("a long reason is cut between characters", () =>
      Effect.gen(function* () {
        const { submit } = yield* reviewedTeam("long reason")
        yield* model.answer(() => answers("approve", `a${"😀".repeat(999)}`))
        const { reviewer } = yield* submit()
        assert.isTrue(reviewer?.reason.isWellFormed())
      }).pipe(Effect.orDie)
    )

    it.effect("people decide if the model is unsure, fails, or does not answer within five seconds", () =>
      Effect.gen(function* () {
        const team = yield* reviewedTeam("no answer")
        yield* model.answer(() => answers("unsure", "I cannot tell"))
        const unsure = yield* team.submit()
        assert.strictEqual(unsure.decision, "pending")
        assert.notInclude(JSON.stringify(unsure), "I cannot tell")
        yield* model.answer(() => noAnswer)
        assert.strictEqual((yield* team.submit()).decision, "pending")
        const started = performance.now()
        yield* model.answer(() => Effect.never)
        assert.strictEqual((yield* team.submit()).decision, "pending")
        assert.isBelow(performance.now() - started, 20_000)
        assert.deepStrictEqual(yield* storedDecisions(team), [])
      }).pipe(Effect.orDie)
    )

    it.effect("a release that becomes live while the model answers does not get its decision", () =>
      Effect.gen(function* () {
        const team = yield* reviewedTeam("another release meanwhile")
        const { answer, step } = yield* untilAsked(team)
        yield* releaseAnother(team)
        yield* answer
        assert.strictEqual((yield* Fiber.join(step)).decision, "pending")
      }).pipe(Effect.orDie)
    )

    const refusals: ReadonlyArray<
      readonly [name: string, options: Parameters<typeof reviewedTeam>[1], step?: object]
    > = [
      ["it has earned nothing yet", { earned: 0 }],
      ["it has earned it for smaller amounts", { amount: { pointer: "/amount", bounds: [5] } }],
      [
        "the arguments have no amount",
        { amount: { pointer: "/amount", bounds: [5] } },
        { arguments: { other: 1 } }
      ],
      ["it has earned it for another tool", {}, { tool: "payments.pay" }],
      [
        "a condition of `never` holds",
        { reviewer: { never: [{ pointer: "/amount", op: "at_least", value: 10 }] } }
      ],
      [
        "a condition of `never` cannot be judged",
        { reviewer: { never: [{ pointer: "/customer", op: "equals", value: "VIP" }] } }
      ],
      ["the arguments are too large to be read", {}, { arguments: { note: "x".repeat(20_000) } }]
    ]
    for (const [name, options, step] of refusals) {
      it.effect(`people decide if ${name}`, () =>
        Effect.gen(function* () {
          const team = yield* reviewedTeam(name, options)
          yield* model.answer(() => answers("approve"))
          for (let i = 0; i < 5; i++) assert.strictEqual((yield* team.submit(step)).decision, "pending")
        }).pipe(Effect.orDie)
      )
    }

    it.effect("people decide about a step that the key of a person submits", () =>
      Effect.gen(function* () {
        const { admin, submitAs } = yield* reviewedTeam("own key")
        yield* model.answer(() => answers("approve"))
        const { session_id } = yield* admin.sessions.create({})
        for (let i = 0; i < 5; i++)
          assert.strictEqual((yield* submitAs(admin, session_id)).decision, "pending")
      }).pipe(Effect.orDie)
    )

    it.effect("a grant of a person comes first, and the model is not asked", () =>
      Effect.gen(function* () {
        const { person, submit } = yield* reviewedTeam("grant first")
        yield* model.answer(() => answers("unsure"))
        const { approval_id } = yield* submit()
        if (approval_id === null) return assert.fail("it waits")
        yield* person.approvals.decide({
          params: { id: approval_id },
          payload: { decision: "approve", grant: { scope: "tool", max_uses: 2 } }
        })
        yield* model.answer(() => answers("reject"))
        for (let i = 0; i < 2; i++) assert.strictEqual((yield* submit()).decision_source, "grant")
        // Used up, it is the reviewer's turn again.
        assert.strictEqual((yield* submit()).decision_source, "model")
      }).pipe(Effect.orDie)
    )

    it.effect("a grant that a person gives while the model answers comes first", () =>
      Effect.gen(function* () {
        const team = yield* reviewedTeam("grant meanwhile")
        yield* model.answer(() => answers("unsure"))
        const { approval_id } = yield* team.submit()
        if (approval_id === null) return assert.fail("it waits")
        const { answer, step } = yield* untilAsked(team)
        yield* team.person.approvals.decide({
          params: { id: approval_id },
          payload: { decision: "approve", grant: { scope: "tool", max_uses: 1 } }
        })
        yield* answer
        assert.strictEqual((yield* Fiber.join(step)).decision_source, "grant")
        assert.deepStrictEqual(yield* storedDecisions(team), [])
      }).pipe(Effect.orDie)
    )

    it.effect("a rule with a reviewer that must not have one is refused, with the place", () =>
      Effect.gen(function* () {
        const { admin, task_id } = yield* reviewedTeam("refused rules")
        const reviewer = { task_id, min_lower_bound: 0.95, max_false_approvals: 0.02 }
        const pointers = (rule: object) =>
          admin.approvalRules
            .replace({ payload: { rules: [{ effect: "require_approval", reviewer, ...rule }] } })
            .pipe(Effect.flip, Effect.map(pointersOf))
        assert.deepStrictEqual(yield* pointers({ effect: "allow" }), ["#/rules/0/reviewer"])
        assert.deepStrictEqual(yield* pointers({ effect: "reject" }), ["#/rules/0/reviewer"])
        assert.deepStrictEqual(yield* pointers({ timeout_action: "allow" }), ["#/rules/0/reviewer"])
        assert.deepStrictEqual(yield* pointers({ quorum: [{ count: 2 }] }), ["#/rules/0/reviewer"])
        assert.deepStrictEqual(yield* pointers({ reviewer: { ...reviewer, max_false_approvals: 0.05 } }), [
          "#/rules/0/reviewer/max_false_approvals"
        ])
        assert.deepStrictEqual(yield* pointers({ reviewer: { ...reviewer, sample: 0.01 } }), [
          "#/rules/0/reviewer/sample"
        ])
        const unknown = `tsk_${"0".repeat(32)}`
        assert.deepStrictEqual(yield* pointers({ reviewer: { ...reviewer, task_id: unknown } }), [
          "#/rules/0/reviewer/task_id"
        ])
      }).pipe(Effect.orDie)
    )

    it.effect("rules with the reviewer leave its decisions as they are in a test of rules, others ask", () =>
      Effect.gen(function* () {
        const team = yield* reviewedTeam("tested")
        yield* model.answer(() => answers("approve"))
        yield* team.submit()
        const { rules } = yield* team.admin.approvalRules.get({})
        const more = (given: typeof rules) =>
          Effect.map(team.testRules(given), ({ more_questions }) => more_questions)
        assert.strictEqual(yield* more(rules), 0)
        assert.strictEqual(yield* more(rules.map((rule) => ({ ...rule, reviewer: null }))), 1)
      }).pipe(Effect.orDie)
    )

    it.effect("an organization has at most 16 steps that wait for a model; people decide further ones", () =>
      Effect.gen(function* () {
        const team = yield* reviewedTeam("crowded")
        let asked = 0
        const full = yield* Deferred.make<void>()
        const mayAnswer = yield* Deferred.make<void>()
        yield* model.answer(() =>
          Effect.suspend(() => (++asked === 16 ? Deferred.succeed(full, undefined) : Effect.void)).pipe(
            Effect.andThen(Deferred.await(mayAnswer)),
            Effect.andThen(answers("approve"))
          )
        )
        // Before the model is asked: from then on it has five seconds.
        const sessions = yield* Effect.forEach(Array.from({ length: 18 }), () =>
          team.agent.sessions.create({})
        )
        const [last, further, ...others] = sessions.map(({ session_id }) =>
          team.submitAs(team.agent, session_id)
        )
        if (last === undefined || further === undefined) return assert.fail("there are 18 sessions")
        const steps = yield* Effect.forEach(others, (step) => Effect.forkChild(step))
        yield* Deferred.await(full)
        assert.strictEqual((yield* further).decision, "pending")
        assert.strictEqual(asked, 16)
        yield* Deferred.succeed(mayAnswer, undefined)
        const decided = yield* Effect.forEach(steps, (step) => Fiber.join(step))
        assert.deepStrictEqual(
          decided.map(({ decision_source }) => decision_source),
          Array.from({ length: 16 }, () => "model" as const)
        )
        assert.strictEqual((yield* last).decision_source, "model")
      }).pipe(Effect.orDie)
    )

    it.effect("a reviewer that approves everything, or earned it with easy steps only, decides nothing", () =>
      Effect.gen(function* () {
        yield* model.answer(() => answers("approve"))
        const always = yield* reviewedTeam("always approves", { earned: 0 })
        yield* countAnswers(always.sql, always.group, {
          answer: "approve",
          verdict: "approve",
          answers: 9_700
        })
        yield* countAnswers(always.sql, always.group, { answer: "approve", verdict: "reject", answers: 300 })
        const easy = yield* reviewedTeam("easy only", {
          earned: 0,
          amount: { pointer: "/amount", bounds: [5, 100] }
        })
        yield* countAnswers(easy.sql, easy.group, { answer: "approve", verdict: "approve", answers: 9_700 })
        for (let i = 0; i < 5; i++) {
          assert.strictEqual((yield* always.submit()).decision, "pending")
          assert.strictEqual((yield* easy.submit()).decision, "pending")
        }
        assert.strictEqual((yield* easy.submit({ arguments: { amount: 1 } })).decision_source, "model")
      }).pipe(Effect.orDie)
    )
  }
)
