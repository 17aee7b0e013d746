import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import { Browser, holdRequest, skipWithoutBrowser, openSignedIn } from "../support/browser.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

/** Opens the rules page with two rules: the first rejects everything, the second allows searching. */
const openTwoRules = (organization: string) =>
  Effect.gen(function* () {
    const { client, key } = yield* Countersign
    const admin = yield* client({}, organization)
    yield* admin.approvalRules.replace({
      payload: {
        rules: [
          { tool: "*", effect: "reject", reason: "Nothing" },
          { tool: "search.*", effect: "allow", reason: "Reading" }
        ]
      }
    })
    const { pageErrors, page } = yield* openSignedIn(yield* key({}, organization), "/rules")
    yield* Effect.promise(async () => {
      await page.getByLabel("Tool").fill("search.products")
      await page.getByText("Matches rule 1").waitFor()
    })
    const tools = Effect.map(admin.approvalRules.get(), ({ rules }) => rules.map(({ tool }) => tool))
    return { admin, pageErrors, page, tools }
  })

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("Rules page", (it) => {
  const test = skipWithoutBrowser(it)

  test("a rule is moved by keyboard and tested, and a concurrent change is overwritten only after confirmation", () =>
    Effect.gen(function* () {
      const { admin, pageErrors, page, tools } = yield* openTwoRules("keyboard")
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "Move rule 2 up" }).press("Enter")
        await page.getByRole("status").getByText("Rule 2 is now rule 1").waitFor()
        await page.getByText("Uses the unsaved rules on this page").waitFor()
      })
      yield* admin.approvalRules.replace({ payload: { rules: [] } })
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "Save rules" }).click()
        await page.getByText("The rules changed while you were editing").waitFor()
        await page.getByRole("button", { name: "Overwrite with mine" }).click()
        await page.getByText("Rules saved").waitFor()
      })
      assert.deepStrictEqual(yield* tools, ["search.*", "*"])
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("no change is taken while the rules are saved, which would overwrite it", () =>
    Effect.gen(function* () {
      const { page, tools } = yield* openTwoRules("saving")
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "Move rule 2 up" }).press("Enter")
        const save = await holdRequest(page, "**/approval-rules")
        await page.getByRole("button", { name: "Save rules" }).click()
        await save.asked
        await page.getByLabel("Remove rule 2").press("Enter")
        assert.strictEqual(await page.locator(".rule").count(), 2)
        save.answer()
        await page.getByText("Rules saved").waitFor()
        await page.locator("[inert]").first().waitFor({ state: "detached" })
      })
      assert.deepStrictEqual(yield* tools, ["search.*", "*"])
    }).pipe(Effect.scoped, Effect.orDie))

  test("a rule's summary is previewed with recent steps, and a fault in it is shown with its place", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const admin = yield* client({}, "summary")
      yield* admin.approvalRules.replace({ payload: { rules: [{ effect: "require_approval" }] } })
      const agent = yield* client({ preset: "runtime" }, "summary")
      const { session_id } = yield* agent.sessions.create({})
      yield* agent.sessions.step({
        params: { id: session_id },
        payload: {
          step_id: StepId.make("1"),
          tool: "payments.refund",
          action_class: "write",
          arguments: { amount_cents: 129_000, order: "4711, as \u202eagreed" }
        }
      })
      const { pageErrors, page } = yield* openSignedIn(yield* key({}, "summary"), "/rules")
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "Edit rule 1" }).click()
        const summary = page.getByLabel("Summary (optional)")
        await summary.fill("Refund {amount_cents|mony} on {order}")
        await page.getByText("At character 22: Expected a format").waitFor()
        await page.getByRole("button", { name: "Update rule" }).click()
        await summary.fill("Refund {amount_cents|money:EUR} on {order}")
        await page
          .getByRole("status", { name: "Preview of the summary" })
          .getByText("Refund 1,290.00 EUR on “4711, as U+202Eagreed”")
          .waitFor()
        await page.getByRole("button", { name: "Update rule" }).click()
        await page.getByText("Summary: Refund {amount_cents|money:EUR} on {order}").waitFor()
        await page.getByRole("button", { name: "Save rules" }).click()
        await page.getByText("Rules saved").waitFor()
      })
      const [rule] = (yield* admin.approvalRules.get()).rules
      assert.strictEqual(rule?.summary_template, "Refund {amount_cents|money:EUR} on {order}")
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("a rule's quorum is edited, and a group that nobody has is named", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const admin = yield* client({}, "quorum")
      yield* client({ preset: "reviewer", groups: ["finance"] }, "quorum")
      yield* admin.approvalRules.replace({ payload: { rules: [{ effect: "require_approval" }] } })
      const { pageErrors, page } = yield* openSignedIn(yield* key({}, "quorum"), "/rules")
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "Edit rule 1" }).click()
        await page.getByLabel("People, part 1").fill("2")
        await page.getByLabel("Group, part 1").fill("finance")
        await page.getByRole("button", { name: "And others" }).click()
        await page.getByLabel("Group, part 2").fill("legal")
        await page.getByRole("button", { name: "Update rule" }).click()
        await page.getByText("Approval by 2 of finance and 1 of legal").waitFor()
        await page.getByRole("button", { name: "Save rules" }).click()
        await page.getByText("No usable API key with approvals.decide has this group").waitFor()
        await page.getByRole("button", { name: "Edit rule 1" }).click()
        await page.getByRole("button", { name: "Remove part 2" }).click()
        await page.getByRole("button", { name: "Update rule" }).click()
        await page.getByRole("button", { name: "Save rules" }).click()
        await page.getByText("Rules saved").waitFor()
      })
      assert.deepStrictEqual((yield* admin.approvalRules.get()).rules[0]?.quorum, [
        { count: 2, group: "finance" }
      ])
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("a number of a rule can be cleared and typed anew, and a rule without it is not accepted", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const admin = yield* client({}, "numbers")
      yield* client({ preset: "reviewer", groups: ["legal"] }, "numbers")
      const quorum = [
        { count: 1, group: null },
        { count: 2, group: "legal" }
      ]
      yield* admin.approvalRules.replace({
        payload: { rules: [{ effect: "require_approval", quorum, escalation_seconds: 7_200 }] }
      })
      const { pageErrors, page } = yield* openSignedIn(yield* key({}, "numbers"), "/rules")
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "Edit rule 1" }).click()
        const people = page.getByLabel("People, part 1")
        const review = page.getByLabel("Review window", { exact: true })
        const update = page.getByRole("button", { name: "Update rule" })
        for (const field of [people, review]) {
          await field.press("End")
          await field.press("Backspace")
          assert.strictEqual(await field.inputValue(), "")
          await update.click()
          await field.pressSequentially("3")
          assert.strictEqual(await field.inputValue(), "3")
        }
        // More than the limit is shown until it is corrected.
        await people.pressSequentially("0")
        await update.click()
        assert.strictEqual(await people.inputValue(), "30")
        await people.press("Backspace")
        // The next part moves up, with its own number.
        await page.getByRole("button", { name: "Remove part 1" }).click()
        assert.strictEqual(await people.inputValue(), "2")
        await page.getByLabel("Escalation window (admins)", { exact: true }).fill("")
        await update.click()
        await page.getByRole("button", { name: "Save rules" }).click()
        await page.getByText("Rules saved").waitFor()
      })
      const [rule] = (yield* admin.approvalRules.get()).rules
      assert.deepStrictEqual(rule?.quorum, [{ count: 2, group: "legal" }])
      assert.strictEqual(rule?.review_seconds, 3 * 3_600)
      assert.isNull(rule?.escalation_seconds)
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("a rule's budgets are edited, their faults shown, and the edited list is tested with them", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const admin = yield* client({}, "budgets")
      yield* admin.approvalRules.replace({ payload: { rules: [{ tool: "pay", effect: "allow" }] } })
      const { pageErrors, page } = yield* openSignedIn(yield* key({}, "budgets"), "/rules")
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "Edit rule 1" }).click()
        await page.getByRole("button", { name: "Add budget" }).click()
        await page.getByRole("button", { name: "Update rule" }).click()
        await page.getByText("Set a number of steps, a sum, or both.").waitFor()
        await page.getByLabel("Steps at most").fill("20")
        await page.getByLabel("Sum of").fill("/amount")
        await page.getByLabel("Sum at most").fill("99.5")
        await page.getByLabel("Separately for each value of").fill("/account")
        await page.getByRole("button", { name: "Update rule" }).click()
        await page
          .getByText("at most 20 steps and 99.5 of /amount per session and /account in 1 day")
          .waitFor()
        await page.getByLabel("Tool").fill("pay")
        await page.getByLabel("Arguments").fill('{"amount":100,"account":"a"}')
        await page.getByText("and this step needs 100").waitFor()
        await page.getByRole("button", { name: "Save rules" }).click()
        await page.getByText("Rules saved").waitFor()
      })
      assert.deepStrictEqual((yield* admin.approvalRules.get()).rules[0]?.budgets, [
        {
          per: "session",
          window_seconds: 86_400,
          count: 20,
          sum: { pointer: "/amount", at_most: 99.5 },
          by: ["/account"]
        }
      ])
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("a rule that allows any tool is warned about while it is edited, once it is before a rejection", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const admin = yield* client({}, "warnings")
      const { warnings } = yield* admin.approvalRules.replace({
        payload: { rules: [{ tool: "payments.*", effect: "reject" }, { effect: "allow" }] }
      })
      assert.deepStrictEqual(warnings, [])
      const { pageErrors, page } = yield* openSignedIn(yield* key({}, "warnings"), "/rules")
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "Move rule 2 up" }).click()
        await page.getByText("Allows any tool before a later rule that rejects").waitFor()
        await page.getByRole("button", { name: "Save rules" }).click()
        await page.getByText("Rules saved").waitFor()
      })
      const saved = yield* admin.approvalRules.get()
      assert.deepStrictEqual(
        saved.warnings.map(({ pointer }) => pointer),
        ["#/rules/0"]
      )
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("a saved budget whose pointer led to a number in no recorded step is warned about", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const admin = yield* client({}, "pointer")
      const { session_id } = yield* admin.sessions.create({})
      yield* admin.sessions.step({
        params: { id: session_id },
        payload: {
          step_id: StepId.make("1"),
          tool: "payments.refund",
          action_class: "write",
          arguments: { amount: 5 }
        }
      })
      const sum = { pointer: "/amount_cents", at_most: 500 }
      yield* admin.approvalRules.replace({
        payload: {
          rules: [
            {
              tool: "payments.*",
              effect: "allow",
              budgets: [{ per: "organization", window_seconds: 86_400, sum }]
            }
          ]
        }
      })
      const { pageErrors, page } = yield* openSignedIn(yield* key({}, "pointer"), "/rules")
      yield* Effect.promise(() =>
        page.locator(".rule").first().getByText('has a number at "/amount_cents"').waitFor()
      )
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("a rule is reordered by dragging its handle", () =>
    Effect.gen(function* () {
      const { pageErrors, page, tools } = yield* openTwoRules("drag")
      yield* Effect.promise(async () => {
        const handle = page.getByRole("button", { name: /^Move rule 2 by/ })
        await handle.dragTo(page.locator(".rule").first(), { targetPosition: { x: 200, y: 2 } })
        await page.getByRole("status").getByText("Rule 2 is now rule 1").waitFor()
        await page.getByRole("button", { name: "Save rules" }).click()
        await page.getByText("Rules saved").waitFor()
      })
      assert.deepStrictEqual(yield* tools, ["search.*", "*"])
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("a rule is reordered by keyboard on its drag handle", () =>
    Effect.gen(function* () {
      const { page } = yield* openTwoRules("handle")
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: /^Move rule 2 by/ }).focus()
        await page.keyboard.press("ArrowUp")
        await page.locator(".rule").first().getByText("Reading").waitFor()
        await page.getByRole("status").getByText("Rule 2 is now rule 1").waitFor()
        // The rule keeps the focus, and is moved on.
        await page
          .locator(":focus")
          .and(page.getByRole("button", { name: /^Move rule 1 by/ }))
          .waitFor()
        await page.keyboard.press("ArrowDown")
        await page.locator(".rule").nth(1).getByText("Reading").waitFor()
      })
    }).pipe(Effect.scoped, Effect.orDie))

  test("a rule is created, tested on a step and edited, and another one is removed", () =>
    Effect.gen(function* () {
      const { pageErrors, page, tools, admin } = yield* openTwoRules("written")
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "New rule" }).click()
        const dialog = page.getByRole("dialog")
        await dialog.getByLabel("Tool").fill("payments.*")
        await dialog.getByLabel("Review window", { exact: true }).fill("2")
        await dialog.getByLabel("Review window, unit").selectOption("hours")
        await dialog.getByLabel("Reason").fill("Payments require a second person")
        await dialog.getByRole("button", { name: "Add rule" }).click()
        // At the end it would never be reached, as the other one.
        await page.getByText("Added as rule 1, above the rule that matches all its steps").waitFor()
        await page.locator(".rule").nth(2).getByText("Never reached: rule 2 matches all its steps").waitFor()
        await page.getByRole("button", { name: "Remove rule 2" }).click()
        await page.getByText("Never reached").first().waitFor({ state: "detached" })
        await page.getByLabel("Tool").fill("payments.refund")
        await page.getByText("Matches rule 1").waitFor()
        await page.getByRole("status").getByText("Review window 2 h · on timeout: reject").waitFor()
        await page.getByRole("button", { name: "Edit rule 1" }).click()
        await dialog.getByLabel("Effect").selectOption({ label: "Allow" })
        await dialog.getByRole("button", { name: "Update rule" }).click()
        await page.getByRole("status").getByText("allowed").waitFor()
        await page.getByRole("button", { name: "Save rules" }).click()
        await page.getByText("Rules saved").waitFor()
      })
      assert.deepStrictEqual(yield* tools, ["payments.*", "search.*"])
      const { rules } = yield* admin.approvalRules.get()
      assert.deepInclude(rules[0], { effect: "allow", reason: "Payments require a second person" })
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("conditions are written with suggestions from past steps, tested on arguments, and kept when a rule is edited", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const admin = yield* client({}, "conditions")
      const { session_id } = yield* admin.sessions.create({})
      for (const currency of ["EUR", "USD"]) {
        yield* admin.sessions.step({
          params: { id: session_id },
          payload: {
            step_id: StepId.make(currency),
            tool: "payments.refund",
            action_class: "write",
            arguments: { amount: 250, currency, customer: { tier: "gold" } }
          }
        })
      }
      const every = [{ pointer: "", op: "ends_with" as const, value: "@acme.com" }]
      yield* admin.approvalRules.replace({
        payload: { rules: [{ effect: "reject", when: [{ pointer: "/to", op: "every", value: every }] }] }
      })
      const { pageErrors, page } = yield* openSignedIn(yield* key({}, "conditions"), "/rules")
      const dialog = page.getByRole("dialog")
      const suggested = (list: string) =>
        dialog
          .locator(list)
          .locator("option")
          .evaluateAll((options) => options.map((one) => one.getAttribute("value")))
      yield* Effect.promise(async () => {
        await page.getByText('/to has only elements with (value ends with "@acme.com")').waitFor()
        await page.getByRole("button", { name: "New rule" }).click()
        await dialog.getByLabel("Tool").fill("payments.*")
        await dialog.getByLabel("Effect").selectOption({ label: "Allow" })
        await dialog.getByRole("button", { name: "Add condition" }).click()
        await dialog.locator('datalist option[value="/customer/tier"]').waitFor({ state: "attached" })
      })
      assert.deepStrictEqual(yield* Effect.promise(async () => suggested("datalist >> nth=0")), [
        "/amount",
        "/currency",
        "/customer",
        "/customer/tier"
      ])
      yield* Effect.promise(async () => {
        await dialog.getByLabel("Condition 1, JSON Pointer").fill("/currency")
        await dialog.locator("datalist option[value='\"USD\"']").waitFor({ state: "attached" })
        await dialog.getByLabel("Condition 1, value").fill("EUR")
        await dialog.getByRole("button", { name: "Add rule" }).click()
        await dialog.getByText("Invalid JSON").waitFor()
        await dialog.getByLabel("Condition 1, value").fill('"EUR"')
        await dialog.getByRole("button", { name: "Add condition" }).click()
        await dialog.getByLabel("Condition 2, JSON Pointer").fill("/amount")
        await dialog.getByLabel("Condition 2, comparison").selectOption({ label: "is at most" })
        await dialog.getByLabel("Condition 2, value").fill("300")
        await dialog.getByRole("button", { name: "Add rule" }).click()
        await page.getByRole("button", { name: "Move rule 2 up" }).click()
        await page.getByLabel("Tool").fill("payments.refund")
        await page.getByLabel("Arguments").fill('{"amount": 300, "currency": "EUR"}')
        await page.getByRole("status").getByText("rule 1: /currency equals, /amount at_most").waitFor()
        await page
          .getByLabel("Arguments")
          .fill('{"amount": "300", "currency": "EUR", "to": ["eve@evil.com"]}')
        await page.getByText("/amount has another type than expected").waitFor()
        await page.getByRole("button", { name: "Edit rule 1" }).click()
        await dialog.getByLabel("Reason").fill("Small refunds")
        await dialog.getByRole("button", { name: "Update rule" }).click()
        await page.getByRole("button", { name: "Save rules" }).click()
        await page.getByText("Rules saved").waitFor()
      })
      const { rules } = yield* admin.approvalRules.get()
      assert.deepStrictEqual(
        rules.map(({ reason, when }) => ({ reason, when })),
        [
          {
            reason: "Small refunds",
            when: [
              { pointer: "/currency", op: "equals", value: "EUR" },
              { pointer: "/amount", op: "at_most", value: 300 }
            ]
          },
          { reason: "", when: [{ pointer: "/to", op: "every", value: every }] }
        ]
      )
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("unsaved rules are tried on past steps, and what a person rejected and would now run is listed first", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const admin = yield* client({}, "past steps")
      const agent = yield* client({ preset: "runtime" }, "past steps")
      const reviewer = yield* client({ preset: "reviewer", name: "Ada" }, "past steps")
      const { session_id } = yield* agent.sessions.create({})
      for (const [tool, decision] of [
        ["mail.send", "approve"],
        ["payments.refund", "reject"]
      ] as const) {
        const { approval_id } = yield* agent.sessions.step({
          params: { id: session_id },
          payload: { step_id: StepId.make(tool), tool, action_class: "write" }
        })
        if (approval_id === null) return assert.fail("it waits for a person")
        yield* reviewer.approvals.decide({
          params: { id: approval_id },
          payload: { decision, comment: "No receipt" }
        })
      }
      const { pageErrors, page } = yield* openSignedIn(yield* key({}, "past steps"), "/rules")
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "New rule" }).click()
        const dialog = page.getByRole("dialog")
        await dialog.getByLabel("Tool").fill("payments.*")
        await dialog.getByLabel("Effect").selectOption({ label: "Allow" })
        await dialog.getByRole("button", { name: "Add rule" }).click()
        await page.getByLabel("Steps of the last").selectOption({ label: "7 days" })
        await page.getByRole("button", { name: "Try the rules" }).press("Enter")
        await page.getByText("2 steps evaluated").waitFor()
        await page.getByText("1 fewer questions, 0 more").waitFor()
        await page.getByRole("heading", { name: "A person rejected these, and they would run: 1" }).waitFor()
        await page.getByText("Comment: No receipt").waitFor()
        await page.getByRole("button", { name: "Remove rule 1" }).click()
        await page.getByText("The rules changed since this test").waitFor()
        await page.getByRole("link", { name: "payments.refund" }).click()
        await page.waitForURL("**/approvals/apr_*")
      })
      assert.deepStrictEqual((yield* admin.approvalRules.get()).rules, [])
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("a suggestion is taken over into the list, before the rule that asks, and saved only with it", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const admin = yield* client({}, "suggested")
      const sql = yield* SqlClient.SqlClient
      const { rules } = yield* admin.approvalRules.replace({
        payload: { rules: [{ tool: "drop", effect: "reject" }, { effect: "require_approval" }] }
      })
      const agent = yield* client({ preset: "runtime" }, "suggested")
      const { session_id } = yield* agent.sessions.create({})
      const { approval_id } = yield* agent.sessions.step({
        params: { id: session_id },
        payload: { step_id: StepId.make("refund"), tool: "payments.refund", action_class: "write" }
      })
      if (approval_id === null) return assert.fail("it waits for a person")
      yield* admin.approvals.decide({ params: { id: approval_id }, payload: { decision: "reject" } })
      // The same decision a hundred times, each after a while, as a person makes them.
      yield* sql`
        UPDATE approvals
        SET requested_at = now() - interval '2 hours', decided_at = now() - interval '1 hour'
        WHERE approval_id = ${approval_id}
      `
      yield* sql`
        INSERT INTO approvals (
          org_id, approval_id, session_id, step_id, tool, action_class, arguments_digest, status, stage, requested_at,
          requested_by_id, review_deadline_at, expires_at, timeout_action, self_approval, outcome, decision_source, decided_at,
          decided_by_id, decided_by_name
        )
        SELECT
          org_id, 'apr_' || lpad(n::text, 32, '0'), session_id, step_id || n, tool, action_class, arguments_digest, status, stage,
          requested_at, requested_by_id, review_deadline_at, expires_at, timeout_action, self_approval, 'allow', decision_source,
          decided_at - n * interval '10 seconds', decided_by_id, decided_by_name
        FROM approvals, generate_series(1, 100) AS n
        WHERE approval_id = ${approval_id}
      `
      yield* sql`UPDATE approvals SET status = 'approved' WHERE session_id = ${session_id} AND outcome = 'allow'`
      const { pageErrors, page } = yield* openSignedIn(yield* key({}, "suggested"), "/rules")
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "Suggestions" }).press("Enter")
        await page.getByText(/decisions by 1 person, 1 exception/).waitFor()
        await page.getByText(/% would be decided otherwise/).waitFor()
        await page.getByRole("button", { name: "Take over" }).press("Enter")
        await page.getByText("In the list").waitFor()
        await page.getByText("Unsaved changes").waitFor()
      })
      assert.lengthOf((yield* admin.approvalRules.get()).rules, 2)
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "Save rules" }).click()
        await page.getByText("Rules saved").waitFor()
      })
      const saved = (yield* admin.approvalRules.get()).rules
      assert.deepStrictEqual(
        saved.map(({ effect, id, tool }) => [tool, effect, rules.some((one) => one.id === id)]),
        [
          ["drop", "reject", true],
          ["payments.refund", "allow", false],
          ["*", "require_approval", true]
        ]
      )
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("edited rules are saved as shadow rules, their differences read, and they are promoted or removed", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const admin = yield* client({}, "shadow")
      const live = yield* admin.approvalRules.replace({ payload: { rules: [{ effect: "allow" }] } })
      const { session_id } = yield* admin.sessions.create({})
      const ask = (step_id: string) =>
        admin.sessions.step({
          params: { id: session_id },
          payload: { step_id: StepId.make(step_id), tool: "payments.refund", action_class: "write" }
        })
      const { pageErrors, page } = yield* openSignedIn(yield* key({}, "shadow"), "/rules")
      const dialog = page.getByRole("dialog")
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "Edit rule 1" }).click()
        await dialog.getByLabel("Effect").selectOption({ label: "Reject" })
        await dialog.getByLabel("Reason").fill("Frozen")
        await dialog.getByRole("button", { name: "Update rule" }).click()
        await page.getByRole("button", { name: "Shadow rules", exact: true }).press("Enter")
        await page.getByText("There are no shadow rules").waitFor()
        await page.getByRole("button", { name: "Save the rules on this page as shadow rules" }).press("Enter")
        await page.getByText("Shadow rules saved").waitFor()
        await page.getByText("No differences").waitFor()
        await page.getByRole("button", { name: "Edit on this page" }).press("Enter")
        await dialog.getByText("Unsaved changes on this page are discarded").waitFor()
        await dialog.getByRole("button", { name: "Cancel" }).press("Enter")
        await page.getByRole("button", { name: "Discard changes" }).click()
      })
      assert.deepStrictEqual(yield* admin.approvalRules.get(), live)
      assert.strictEqual((yield* ask("one")).decision, "allow")
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "Reload" }).press("Enter")
        const list = page.getByRole("list", { name: "Steps on which the shadow rules differ" })
        await list.getByText("Shadow: Frozen").waitFor()
        await page.getByLabel("Differences").selectOption({ label: "Allow → Reject: 1" })
        await list.getByRole("link", { name: "payments.refund" }).waitFor()
        await page.getByRole("button", { name: "Edit on this page" }).press("Enter")
        await page.getByText("Unsaved changes").waitFor()
        await page.getByRole("button", { name: "Promote" }).press("Enter")
        await dialog.getByText("Unsaved changes on this page are discarded").waitFor()
        await dialog.getByRole("button", { name: "Promote" }).press("Enter")
        await page.getByText("Shadow rules are live").waitFor()
        await page.getByText("There are no shadow rules").waitFor()
      })
      const promoted = yield* admin.approvalRules.get()
      assert.deepInclude(promoted.rules[0], { effect: "reject", reason: "Frozen" })
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "Save the rules on this page as shadow rules" }).click()
        await page.getByRole("button", { name: "Remove", exact: true }).last().press("Enter")
        await dialog.getByRole("button", { name: "Remove" }).press("Enter")
        await page.getByText("Shadow rules removed").waitFor()
        await page.getByText("There are no shadow rules").waitFor()
      })
      assert.isFalse((yield* admin.approvalRules.getShadow()).active)
      assert.deepStrictEqual(yield* admin.approvalRules.get(), promoted)
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))
})
