import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import type { Page } from "playwright-core"
import type { SqlClient } from "effect/sql"
import { type ApprovalId, ReviewerAnswerId, type SessionId, TaskId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import {
  accessibilityViolations,
  Browser,
  goTo,
  horizontalOverflow,
  openSignedIn,
  skipWithoutBrowser
} from "../support/browser.ts"
import { hostileTexts } from "../support/seedConsoleOrg.ts"
import { answers, reviewedTeam, scriptedModel } from "../support/reviewedTeam.ts"
import { service } from "../support/service.ts"

const model = scriptedModel()

const environment = Layer.provideMerge(Browser.layer, service({ replace: model.layer }))

type Team = Effect.Success<ReturnType<typeof reviewedTeam>>

/** Stores an answer beside the decision of a person about an approval, as the comparison does once the person has decided. */
const storeAnswer = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { group, session_id }: Pick<Team, "group"> & { readonly session_id: SessionId },
  about: {
    readonly step_id: string
    readonly approval_id: ApprovalId
    readonly answer: string
    readonly verdict: string | null
  }
) {
  const answer_id = yield* ReviewerAnswerId.generate
  const { answer, approval_id, step_id, verdict } = about
  yield* sql`
    INSERT INTO reviewer_answers (
      org_id, answer_id, task_id, release_id, session_id, step_id, approval_id, tool, band, mode, answer, reason, calls, tokens,
      requested_at, created_at, verdict, decided_at, counted
    )
    VALUES (
      ${group.org_id}, ${answer_id}, ${group.task_id}, ${group.release_id}, ${session_id}, ${step_id}, ${approval_id}, ${group.tool}, 0,
      'shadow', ${answer}, 'The order is <b>complete</b>', 1, 100, now(), now(), ${verdict},
      CASE WHEN ${verdict}::text IS NOT NULL THEN now() END, ${verdict}::text IS NOT NULL
    )
  `
})

/** Submits a step that waits for a person. */
const pendingStep = Effect.fnUntraced(function* (team: Team, step_id: string) {
  const { approval_id } = yield* team.submit({ step_id, arguments: { amount: 990, order: "A-77" } })
  return approval_id ?? assert.fail("the step waits for a person")
})

/** Fails unless the page is accessible in both themes and needs no horizontal scrolling, at the sizes of a desk, a tablet and a phone. */
const checkSizes = async (page: Page, about: string) => {
  for (const [width, height] of [
    [1440, 900],
    [1024, 768],
    [390, 844]
  ] as const) {
    await page.setViewportSize({ width, height })
    assert.strictEqual(await horizontalOverflow(page), 0, `${about} at ${width}`)
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme })
      assert.deepStrictEqual(
        await Effect.runPromise(accessibilityViolations(page)),
        [],
        `${about} at ${width}, ${colorScheme}`
      )
    }
  }
  assert.deepStrictEqual(await Effect.runPromise(accessibilityViolations(page, "headings")), [], about)
  await page.emulateMedia({ colorScheme: "light" })
  await page.setViewportSize({ width: 1440, height: 900 })
}

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })(
  "Reviewer models in the console",
  (it) => {
    const test = skipWithoutBrowser(it)

    test("the empty page leads to the form, whose reviewer watches and has its limits changed", () =>
      Effect.gen(function* () {
        const { client, key } = yield* Countersign
        const admin = yield* client({}, "first")
        const { page, pageErrors } = yield* openSignedIn(yield* key({ name: "Grace" }, "first"), "/reviewers")
        yield* Effect.promise(async () => {
          await page.getByText("No reviewers yet").waitFor()
          await checkSizes(page, "the empty page")
          await page.locator(".empty").getByRole("link", { name: "New reviewer" }).click()
          await page.getByLabel("Name", { exact: true }).fill("Small refunds")
          await page.getByLabel("Tools").fill("payments.refund\nvouchers.*")
          await page.getByLabel(/^Amount in the arguments/).fill("/amount")
          await page.getByLabel("Bounds between the bands").fill("1000, 100")
          await page.getByLabel("Calls per day").fill("50")
          await page.getByLabel(/^Your instructions/).fill("Refunds of damaged goods are approved.")
          await checkSizes(page, "the form")
          // What was typed survives another page.
          await goTo(page, "/rules")
          await page.getByRole("heading", { name: "Rules", exact: true }).waitFor()
          await goTo(page, "/reviewers/new")
          assert.strictEqual(await page.getByLabel("Name", { exact: true }).inputValue(), "Small refunds")
          await page.getByLabel(/^Nearest example/).check()
          await page.getByRole("button", { name: "Create reviewer" }).click()
          await page
            .getByText(/bounds in ascending order/)
            .first()
            .waitFor()
          await page.getByLabel("Bounds between the bands").fill("100, 1000")
          await page.getByRole("button", { name: "Create reviewer" }).click()
          await page.getByRole("heading", { name: "Small refunds" }).waitFor()
          await page.getByText("Nothing compared yet").waitFor()
          await page.getByText("Only watches").waitFor()
          await page.getByText("0 of 50").waitFor()
          await page.getByText("up to 100; above 100, up to 1,000; above 1,000").waitFor()
          await page.getByRole("button", { name: "Edit", exact: true }).click()
          await page.getByLabel("Calls per day").fill("60")
          assert.deepStrictEqual(await Effect.runPromise(accessibilityViolations(page)), [])
          await page.getByRole("button", { name: "Save" }).click()
          await page.getByText("0 of 60").waitFor()
          await page.getByRole("link", { name: "← All reviewers" }).click()
          await page.getByRole("row", { name: /Small refunds.*Only watches.*nothing compared yet/ }).waitFor()
        })
        const [reviewer] = (yield* admin.reviewers.list()).reviewers
        const hostile = yield* admin.reviewers.create({
          payload: {
            name: hostileTexts.task,
            tools: [hostileTexts.tool],
            amount: { pointer: `/${"x".repeat(150)}`, bounds: [1] },
            provider: { kind: "examples" }
          }
        })
        yield* Effect.promise(async () => {
          await page.getByRole("row", { name: /alert\(3\)/ }).waitFor()
          await checkSizes(page, "a list with hostile texts")
          await goTo(page, `/reviewers/${hostile.task_id}`)
          await page.getByText("Settings and use").waitFor()
          await checkSizes(page, "a reviewer with hostile texts")
        })
        assert.deepInclude(reviewer, {
          tools: ["payments.refund", "vouchers.*"],
          amount: { pointer: "/amount", bounds: [100, 1_000] },
          daily_calls: 60
        })
        assert.deepStrictEqual(pageErrors, [])
      }).pipe(Effect.scoped, Effect.orDie))

    test("an admin reads the figures and a disagreement, sees what the model would have done, lets it decide, stops it and restores it", () =>
      Effect.gen(function* () {
        const team = yield* reviewedTeam("switch", { reviewer: null, earned: 400 })
        const { admin, person, sql, task_id } = team
        const approval_id = yield* pendingStep(team, "refund-9")
        yield* person.approvals.decide({
          params: { id: approval_id },
          payload: { decision: "reject", comment: "Paid twice already" }
        })
        yield* storeAnswer(sql, team, {
          step_id: "refund-9",
          approval_id,
          answer: "approve",
          verdict: "reject"
        })
        const { key } = yield* Countersign
        const { page, pageErrors } = yield* openSignedIn(
          yield* key({ name: "Grace" }, "switch"),
          "/reviewers"
        )
        yield* Effect.promise(async () => {
          await page.getByRole("row", { name: /refunds-small.*800 of 800/ }).waitFor()
          await checkSizes(page, "the list")
          await page.getByRole("link", { name: "refunds-small" }).click()
          // 400 approvals without a wrong one: at most 2.3 % are wrong, which is more than 2 %.
          await page
            .getByRole("row", { name: /400 of 400|0 of 400/ })
            .getByText(/more agreed approvals are missing/)
            .waitFor()
          await page.getByText("No rule lets it decide").waitFor()
          await checkSizes(page, "the figures")

          await page.getByRole("button", { name: "Disagreements" }).click()
          const record = page.getByRole("article", { name: "payments.refund, refund-9" })
          await record.getByText("Paid twice already").waitFor()
          await record.getByText("The order is <b>complete</b>").waitFor()
          await record.getByText("A-77").waitFor()
          await checkSizes(page, "the disagreements")
          await page.getByRole("button", { name: "Figures" }).click()

          await page.getByRole("button", { name: "Let it decide…" }).click()
          await page.getByText("It would have decided nothing").waitFor()
          await page.getByLabel(/^False approvals at most/).fill("6")
          await page.getByText(/a wrong approval weighs more/).waitFor()
          await page.getByLabel(/^False approvals at most/).fill("4")
          assert.strictEqual(
            await page.getByRole("button", { name: "Let it decide", exact: true }).count(),
            0
          )
          await page.getByRole("button", { name: "What would it have done?" }).click()
          await page.getByRole("button", { name: "Let it decide", exact: true }).waitFor()
          await checkSizes(page, "the switch")
          await page.getByRole("button", { name: "Let it decide", exact: true }).click()
          await page.getByText(/Rule 1, payments\.\*: while people agree with at least 95 %/).waitFor()
          await page.getByRole("row", { name: /May decide/ }).waitFor()
          await page.locator(".page-head").getByText("Decides").waitFor()

          await page.getByRole("button", { name: "Stop", exact: true }).click()
          await page.getByText("People decide every step: a person stopped it").waitFor()
          await checkSizes(page, "the stopped reviewer")
          await page.getByRole("button", { name: "Restore" }).click()
          await page.locator(".page-head").getByText("Decides").waitFor()
          await page.getByRole("button", { name: "Remove" }).click()
          await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click()
          await page.getByText("No rule lets it decide").waitFor()
        })
        const { rules } = yield* admin.approvalRules.get()
        assert.isNull(rules[0]?.reviewer)
        const { entries } = yield* admin.auditLog.list({ query: {} })
        assert.includeMembers(
          entries.map(({ action }) => action),
          ["reviewer.stopped", "reviewer.restored"]
        )
        assert.strictEqual(
          (yield* admin.reviewers.get({ params: { task_id }, query: {} })).reviewer.state,
          "watching"
        )
        assert.deepStrictEqual(pageErrors, [])
      }).pipe(Effect.scoped, Effect.orDie))

    test("a reviewer that lost the right is on every page, and a person looks at its last decisions and marks a wrong one", () =>
      Effect.gen(function* () {
        const team = yield* reviewedTeam("lost")
        const { admin, group, reviewers, session_id, submit, task_id } = team
        yield* model.answer(() => answers("approve", "A small refund"))
        const decided = yield* submit({ arguments: { amount: 12, order: "A-12" } })
        assert.strictEqual(decided.decision_source, "model")
        yield* reviewers.stopReviewer(group.org_id, task_id, "fallen")
        const { key } = yield* Countersign
        const { page, pageErrors } = yield* openSignedIn(yield* key({ name: "Grace" }, "lost"), "/sessions")
        yield* Effect.promise(async () => {
          await page
            .locator("#navigation")
            .getByRole("link", { name: /^Reviewers 1 alert$/ })
            .waitFor()
          await page
            .getByRole("region", { name: "Needs attention" })
            .getByRole("link", { name: /refunds-small no longer decides/ })
            .click()
          await page.getByText("Lost the right").waitFor()
          await page
            .getByText(/People decide every step: people rejected too many of its newest approvals/)
            .waitFor()
          await page.getByRole("link", { name: "Look at its last decisions" }).click()
          const record = page.getByRole("article", { name: `payments.refund, ${decided.step_id}` })
          await record.getByText("A small refund").waitFor()
          await record.getByText("A-12").waitFor()
          await record.getByRole("button", { name: "Right" }).click()
          await page.getByText("1 of 1 found right").waitFor()
          await checkSizes(page, "the decisions to look at")
          await record.getByRole("button", { name: "Right" }).click()
          await record.getByRole("button", { name: "A person would have decided otherwise" }).click()
          await page.getByRole("button", { name: "Mark as wrong" }).click()
          await page.getByText("No decisions to look at").waitFor()
          await page.getByRole("button", { name: "All answers" }).click()
          await page.getByText("Would have decided otherwise").waitFor()

          await goTo(page, `/sessions/${session_id}`)
          await page
            .getByText(/Decided by the model refunds-small, release/)
            .first()
            .waitFor()
          await page
            .getByText(/A small refund/)
            .first()
            .waitFor()
          await goTo(page, "/rules")
          await page.getByText(/Reviewer model refunds-small decides/).waitFor()
        })
        const { answers: listed } = yield* admin.reviewers.answers({ params: { task_id }, query: {} })
        assert.strictEqual(listed.find(({ step_id }) => step_id === decided.step_id)?.wrong_by?.name, "Grace")
        assert.deepStrictEqual(pageErrors, [])
      }).pipe(Effect.scoped, Effect.orDie))

    test("an approval shows what a reviewer had answered only after people have decided, and a person's key sees why it may not switch", () =>
      Effect.gen(function* () {
        const team = yield* reviewedTeam("hidden", { reviewer: null })
        const { person, sql, task_id } = team
        const approval_id = yield* pendingStep(team, "refund-1")
        yield* storeAnswer(sql, team, { step_id: "refund-1", approval_id, answer: "reject", verdict: null })
        const { key } = yield* Countersign
        const { page, pageErrors } = yield* openSignedIn(
          yield* key({ name: "Ada", preset: "reviewer" }, "hidden"),
          `/approvals/${approval_id}`
        )
        yield* Effect.promise(async () => {
          await page.getByRole("heading", { name: "Earlier decisions about this tool" }).waitFor()
          assert.strictEqual(await page.getByText("refunds-small").count(), 0)
          await goTo(page, `/reviewers/${task_id}/answers`)
          await page.getByText("No answers to show").waitFor()
        })
        yield* person.approvals.decide({ params: { id: approval_id }, payload: { decision: "approve" } })
        yield* Effect.promise(async () => {
          await goTo(page, `/approvals/${approval_id}`)
          const section = page.getByRole("region", { name: "Reviewer models" })
          await section.getByText("The order is <b>complete</b>").waitFor()
          await section.getByText("answered beside people").waitFor()
          await checkSizes(page, "the decided approval")
          await section.getByRole("link", { name: "refunds-small" }).click()
          await page.getByText(/that needs the scope rules\.write/).waitFor()
          for (const name of ["Stop", "Let it decide…", "Edit"])
            assert.strictEqual(await page.getByRole("button", { name, exact: true }).count(), 0, name)
        })
        assert.deepStrictEqual(pageErrors, [])
      }).pipe(Effect.scoped, Effect.orDie))

    test("a rule's dialog has the reviewer with its bounds and its conditions, only where people decide alone", () =>
      Effect.gen(function* () {
        const { admin, task_id } = yield* reviewedTeam("rule", { reviewer: null })
        const { key } = yield* Countersign
        const { page, pageErrors } = yield* openSignedIn(yield* key({ name: "Grace" }, "rule"), "/rules")
        yield* Effect.promise(async () => {
          await page.getByRole("button", { name: "Edit rule 1" }).click()
          await page.getByLabel("Timeout action").selectOption({ label: "Allow the step" })
          assert.isTrue(await page.getByLabel("Reviewer model").isDisabled())
          await page.getByLabel("Timeout action").selectOption({ label: "Reject the step" })
          await page.getByLabel("Reviewer model").selectOption({ label: "refunds-small" })
          await page.getByLabel(/^People agree with at least/).fill("97.5")
          await page.getByLabel(/^False approvals at most/).fill("1.5")
          await page.getByLabel(/^To people at random/).fill("20")
          const never = page.getByRole("group", { name: "Never decided by the model" })
          await never.getByRole("button", { name: "Add condition" }).click()
          await page.getByLabel("Never 1, JSON Pointer").fill("/amount")
          await page.getByLabel("Never 1, comparison").selectOption({ label: "is greater than" })
          await page.getByLabel("Never 1, value").fill("500")
          await checkSizes(page, "the dialog")
          await page.getByRole("button", { name: "Update rule" }).click()
          await page.getByText(/decides while people agree with at least 97\.5 %/).waitFor()
          await page.getByText("never if /amount is greater than 500").waitFor()
          await page.getByRole("button", { name: "Save rules" }).click()
          await page.getByText("Rules saved").waitFor()
        })
        const { rules } = yield* admin.approvalRules.get()
        assert.deepStrictEqual(rules[0]?.reviewer, {
          task_id: TaskId.make(task_id),
          min_lower_bound: 0.975,
          max_false_approvals: 0.015,
          sample: 0.2,
          never: [{ pointer: "/amount", op: "greater_than", value: 500 }]
        })
        assert.deepStrictEqual(pageErrors, [])
      }).pipe(Effect.scoped, Effect.orDie))
  }
)
