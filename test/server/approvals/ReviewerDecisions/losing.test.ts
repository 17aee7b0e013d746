import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import type { ReviewerStopReason } from "../../../../src/domain/approvals/Reviewer.ts"
import { missingDecisions } from "../../../../src/domain/approvals/Reviewer/reviewerStanding.ts"
import { type ApprovalId, ReviewerAnswerId } from "../../../../src/domain/Ids.ts"
import { Overview } from "../../../../src/server/console/Overview.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { eventually } from "../../../support/eventually.ts"
import { mailServer } from "../../../support/mail.ts"
import {
  answers,
  countAnswers,
  noAnswer,
  releaseAnother,
  reviewedTeam,
  scriptedModel
} from "../../../support/reviewedTeam.ts"
import { service } from "../../../support/service.ts"

const model = scriptedModel()

const none = { agreed: 0, disagreed: 0 }

/** The fewest decisions that earn the right, so that one false approval ends it. */
const FEWEST =
  1 +
  (missingDecisions(
    { approve: none, reject: none, recent: none },
    { min_lower_bound: 0.95, max_false_approvals: 0.02 }
  ) ?? 0)

type Team = Effect.Success<ReturnType<typeof reviewedTeam>>

const stateOf = ({ admin, task_id }: Team) =>
  Effect.map(
    admin.reviewers.get({ params: { task_id }, query: {} }),
    ({ reviewer: { state, stopped_by, stopped_reason } }) => ({ state, stopped_by, stopped_reason })
  )

const stoppedFor = (stopped_reason: ReviewerStopReason) => ({
  state: "stopped" as const,
  stopped_by: null,
  stopped_reason
})

/** Lets the model decide a step. */
const decideOne = (team: Team) =>
  Effect.andThen(
    model.answer(() => answers("approve")),
    team.submit()
  )

/** A step that waits for a person who has had time to read it, and the model's answer about it. */
const sampledStep = Effect.fnUntraced(function* (team: Team, answer: "approve" | "reject") {
  yield* model.answer(() => answers("unsure"))
  const { approval_id } = yield* team.submit()
  if (approval_id === null) return assert.fail("it waits")
  const { sql } = team
  const ago = (millis: number) => new Date(Date.now() - millis)
  yield* sql`UPDATE approvals SET requested_at = ${ago(600_000)} WHERE approval_id = ${approval_id}`
  // The approval is also cached, with the time of the request.
  yield* sql`
    INSERT INTO reviewer_answers (
      org_id, answer_id, task_id, release_id, session_id, step_id, approval_id, tool, band, mode, answer, reason, calls, tokens,
      requested_at, created_at
    )
    SELECT
      org_id, 'rva_' || substr(approval_id, 5), ${team.task_id}, ${team.group.release_id}, session_id, step_id, approval_id, tool, 0,
      'shadow', ${answer}, '', 1, 0, requested_at, now()
    FROM approvals
    WHERE approval_id = ${approval_id}
    ON CONFLICT (org_id, session_id, step_id, task_id) DO UPDATE SET answer = excluded.answer, mode = excluded.mode
  `
  yield* sql`UPDATE releases SET created_at = ${ago(86_400_000)} WHERE org_id = ${team.group.org_id}`
  return approval_id
})

const reject = ({ person }: Team, id: ApprovalId) =>
  person.approvals.decide({ params: { id }, payload: { decision: "reject", comment: "Not this one" } })

layer(service({ replace: model.layer }), { excludeTestServices: true, timeout: "120 seconds" })(
  "the right of a reviewer",
  (it) => {
    it.effect("a decision that is committed is answered, also if its reviewers cannot be compared", () =>
      Effect.gen(function* () {
        const team = yield* reviewedTeam("comparison fails")
        yield* model.answer(() => answers("unsure"))
        const { approval_id } = yield* team.submit()
        if (approval_id === null) return assert.fail("it waits")
        yield* team.sql`ALTER TABLE reviewers RENAME TO other_reviewers`
        const { status } = yield* Effect.ensuring(
          team.person.approvals.decide({ params: { id: approval_id }, payload: { decision: "approve" } }),
          Effect.orDie(team.sql`ALTER TABLE other_reviewers RENAME TO reviewers`)
        )
        assert.strictEqual(status, "approved")
      }).pipe(Effect.orDie)
    )

    it.effect("ends with the person's decision by which a bound falls, before the next step", () =>
      Effect.gen(function* () {
        // One false approval among the fewest that earn it is one too many.
        const team = yield* reviewedTeam("bound", { earned: FEWEST })
        yield* decideOne(team)
        const approval_id = yield* sampledStep(team, "approve")
        assert.deepInclude(yield* stateOf(team), { state: "watching" })
        yield* reject(team, approval_id)
        assert.deepStrictEqual(yield* stateOf(team), stoppedFor("bound_lost"))
        yield* model.answer(() => answers("approve"))
        for (let i = 0; i < 5; i++) assert.strictEqual((yield* team.submit()).decision, "pending")
        const { entries } = yield* team.admin.auditLog.list({ query: { action: "reviewer.stopped" } })
        assert.deepStrictEqual(
          entries.map(({ actor, detail, target_id }) => ({ actor, detail, target_id })),
          [{ actor: null, detail: { stopped_reason: "bound_lost" }, target_id: team.task_id }]
        )
      }).pipe(Effect.orDie)
    )

    it.effect("stays with a reviewer whose bound holds after a disagreement", () =>
      Effect.gen(function* () {
        const team = yield* reviewedTeam("bound holds", { earned: 20_000 })
        yield* decideOne(team)
        yield* reject(team, yield* sampledStep(team, "approve"))
        assert.deepInclude(yield* stateOf(team), { state: "watching" })
        assert.strictEqual((yield* decideOne(team)).decision_source, "model")
      }).pipe(Effect.orDie)
    )

    it.effect("is not taken from a reviewer that has decided nothing yet", () =>
      Effect.gen(function* () {
        const team = yield* reviewedTeam("nothing to lose", { earned: FEWEST })
        yield* reject(team, yield* sampledStep(team, "approve"))
        assert.deepInclude(yield* stateOf(team), { state: "watching" })
        yield* releaseAnother(team)
        assert.deepInclude(yield* stateOf(team), { state: "watching" })
      }).pipe(Effect.orDie)
    )

    it.effect("ends when the newest approvals show a fall that the sum of all hides", () =>
      Effect.gen(function* () {
        const team = yield* reviewedTeam("fallen", { earned: 100_000 })
        yield* decideOne(team)
        const { group, sql, task_id } = team
        for (let i = 0; i < 10; i++) {
          const answer_id = yield* ReviewerAnswerId.generate
          yield* sql`
            INSERT INTO reviewer_answers (
              org_id, answer_id, task_id, release_id, session_id, step_id, approval_id, tool, band, mode, answer, reason, calls, tokens,
              requested_at, created_at, verdict, decided_at, counted
            )
            VALUES (
              ${group.org_id}, ${answer_id}, ${task_id}, ${group.release_id}, ${team.session_id}, ${`old ${i}`}, ${`apr_${i}`}, ${group.tool}, 0,
              'shadow', 'approve', '', 1, 0, now(), now(), ${i < 4 ? "reject" : "approve"}, now(), true
            )
          `
        }
        yield* model.answer(() => answers("approve"))
        assert.strictEqual((yield* untilStopped(team)).decision, "pending")
        assert.deepStrictEqual(yield* stateOf(team), stoppedFor("fallen"))
      }).pipe(Effect.orDie)
    )

    it.effect("ends when a person marks one of its decisions as wrong, which counts as a disagreement", () =>
      Effect.gen(function* () {
        const team = yield* reviewedTeam("reversed", { earned: 20_000 })
        const { admin, person, task_id } = team
        const step = yield* decideOne(team)
        const listed = () => admin.reviewers.answers({ params: { task_id }, query: { to_review: "true" } })
        assert.deepStrictEqual((yield* listed()).answers, [])
        const { answers: all } = yield* admin.reviewers.answers({ params: { task_id }, query: {} })
        const answer = all.find(({ mode }) => mode === "decided") ?? assert.fail("it decided")
        const params = { task_id, answer_id: answer.id }
        const marked = yield* person.reviewers.markWrong({ params })
        assert.isNotNull(marked.wrong_at)
        assert.deepInclude(marked, { mode: "decided", verdict: "reject", step_id: step.step_id })
        assert.deepStrictEqual(yield* stateOf(team), stoppedFor("reversed"))
        assert.deepStrictEqual(yield* person.reviewers.markWrong({ params }), marked)
        // The step keeps its decision.
        assert.strictEqual((yield* team.submit({ step_id: step.step_id })).decision, "allow")
        const { figures } = yield* admin.reviewers.get({ params: { task_id }, query: {} })
        assert.deepInclude(figures[0]?.false_approvals, { count: 1, of: 20_001 })
        // Marked, it needs no further look; the other decisions do.
        assert.deepStrictEqual((yield* listed()).answers, [])
        yield* admin.reviewers.restore({ params: { task_id } })
        const second = yield* decideOne(team)
        yield* team.sql`
          UPDATE reviewers SET state = 'watching' WHERE org_id = ${team.group.org_id}
        `
        yield* releaseAnother(team)
        assert.deepStrictEqual(
          (yield* listed()).answers.map(({ step_id }) => step_id),
          [second.step_id]
        )
      }).pipe(Effect.orDie)
    )

    it.effect("is not touched by marks on answers that decided nothing, or by keys that may not decide", () =>
      Effect.gen(function* () {
        const team = yield* reviewedTeam("no decision", { earned: 20_000 })
        const { agent, person, sql, task_id } = team
        const approval_id = yield* sampledStep(team, "approve")
        const [row] = yield* sql<{ readonly answer_id: string }>`
          SELECT answer_id FROM reviewer_answers WHERE approval_id = ${approval_id}
        `
        const params = { task_id, answer_id: ReviewerAnswerId.make(row?.answer_id ?? "") }
        assert.strictEqual((yield* Effect.flip(person.reviewers.markWrong({ params })))._tag, "NOT_FOUND")
        assert.strictEqual(
          (yield* Effect.flip(agent.reviewers.markWrong({ params })))._tag,
          "INSUFFICIENT_SCOPE"
        )
        assert.deepInclude(yield* stateOf(team), { state: "watching" })
      }).pipe(Effect.orDie)
    )

    it.effect("ends after five requests in a row without an answer, and not after four and an answer", () =>
      Effect.gen(function* () {
        const team = yield* reviewedTeam("provider", { earned: 20_000 })
        yield* model.answer(() => noAnswer)
        const asked = () => model.asked.length
        const failUntil = (count: number) =>
          Effect.gen(function* () {
            const end = asked() + count
            while (asked() < end) assert.strictEqual((yield* team.submit()).decision, "pending")
          })
        yield* failUntil(4)
        yield* decideOne(team)
        yield* model.answer(() => noAnswer)
        yield* failUntil(4)
        assert.deepInclude(yield* stateOf(team), { state: "watching" })
        yield* failUntil(1)
        assert.deepStrictEqual(yield* stateOf(team), stoppedFor("provider_failed"))
      }).pipe(Effect.orDie)
    )

    it.effect("ends with another release, and a person gives it back once that one has earned it", () =>
      Effect.gen(function* () {
        const team = yield* reviewedTeam("release", { earned: 20_000 })
        const { admin, group, sql, task_id } = team
        yield* decideOne(team)
        yield* releaseAnother(team)
        assert.deepStrictEqual(yield* stateOf(team), stoppedFor("release_changed"))
        yield* admin.reviewers.restore({ params: { task_id } })
        assert.deepInclude(yield* stateOf(team), { state: "watching", stopped_reason: null })
        // What the earlier release has earned does not count.
        for (let i = 0; i < 5; i++) assert.strictEqual((yield* team.submit()).decision, "pending")
        const { reviewer } = yield* admin.reviewers.get({ params: { task_id }, query: {} })
        yield* countAnswers(
          sql,
          { ...group, release_id: reviewer.release_id },
          { answer: "approve", verdict: "approve", answers: 2_000 }
        )
        const decided = yield* decideOne(team)
        assert.strictEqual(decided.reviewer?.release_id, reviewer.release_id)
      }).pipe(Effect.orDie)
    )

    it.effect("is shown as an alert to those who may change the rules, until it is restored", () =>
      Effect.gen(function* () {
        const team = yield* reviewedTeam("alert", { earned: 20_000 })
        const overview = yield* Overview
        const alerts = Effect.map(overview.alerts(team.principal), ({ reviewers }) => reviewers)
        assert.deepStrictEqual(yield* alerts, [])
        yield* decideOne(team)
        yield* releaseAnother(team)
        const shown = yield* alerts
        assert.deepStrictEqual(
          shown?.map(({ id, name, stopped_reason }) => ({ id, name, stopped_reason })),
          [{ id: team.task_id, name: "refunds-small", stopped_reason: "release_changed" }]
        )
        yield* team.admin.reviewers.restore({ params: { task_id: team.task_id } })
        assert.deepStrictEqual(yield* alerts, [])
      }).pipe(Effect.orDie)
    )
  }
)

/** Submits steps until the reviewer is stopped: samples do not look at it. */
const untilStopped = (team: Team) =>
  Effect.gen(function* () {
    for (let i = 0; i < 20; i++) {
      const step = yield* team.submit()
      if ((yield* stateOf(team)).state === "stopped") return step
    }
    return assert.fail("it was not stopped")
  })

describe("the notice about a reviewer", () => {
  it.live("goes to admins by email, once, with the reason and a link", () =>
    Effect.gen(function* () {
      const mail = yield* mailServer()
      const environment = {
        COUNTERSIGN_SMTP_URL: `smtp://127.0.0.1:${mail.port}`,
        COUNTERSIGN_MAIL_FROM: "approvals@example.org"
      }
      const context = yield* Layer.build(service({ replace: model.layer, environment }))
      yield* Effect.gen(function* () {
        const { client } = yield* Countersign
        yield* client({ name: "root", preset: "admin", email: "root@example.org" }, "noticed")
        const team = yield* reviewedTeam("noticed", { earned: 20_000 })
        yield* decideOne(team)
        yield* releaseAnother(team)
        yield* eventually(
          Effect.sync(() => mail.received),
          (received) => received.some(({ headers }) => headers.get("subject")?.includes("reviewer model"))
        )
        const sent = mail.received.find(({ headers }) => headers.get("subject")?.includes("reviewer model"))
        if (sent === undefined) return assert.fail("it was sent")
        assert.strictEqual(sent.headers.get("subject"), "A reviewer model no longer decides: noticed")
        assert.include(sent.text, "refunds-small")
        assert.include(sent.text, "its task has another release, which is not measured yet")
        assert.include(sent.text, `/console/reviewers/${team.task_id}`)
      }).pipe(Effect.provideContext(context))
    }).pipe(Effect.scoped, Effect.orDie)
  )
})
