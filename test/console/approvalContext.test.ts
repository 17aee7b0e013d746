import { assert, layer } from "@effect/vitest"
import { Effect, Layer, type Schema } from "effect"
import { StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import { accessibilityViolations, Browser, openSignedIn, skipWithoutBrowser } from "../support/browser.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

/** An agent that looked up an order and asks to refund it. */
const refundRequest = (organization: string, refund: Schema.Json) =>
  Effect.gen(function* () {
    const { client, key } = yield* Countersign
    const admin = yield* client({}, organization)
    yield* admin.approvalRules.replace({
      payload: {
        rules: [
          { tool: "search.*", effect: "allow" },
          {
            effect: "require_approval",
            reason: "Money leaves the house",
            summary_template: "Refund {amount_cents|money:EUR} on order {order}",
            escalation_seconds: 7_200
          }
        ]
      }
    })
    const agent = yield* client({ preset: "runtime", name: "support agent" }, organization)
    const { session_id } = yield* agent.sessions.create({
      payload: { metadata: { ticket: "SUP-9001", customer: "Maria Weber" } }
    })
    const submit = (step: string, tool: string, args: Schema.Json) =>
      agent.sessions.step({
        params: { id: session_id },
        payload: {
          step_id: StepId.make(step),
          tool,
          action_class: "write",
          arguments: args,
          summary: "A \u202esmall refund, <b>as agreed</b>"
        }
      })
    const complete = (step: string, result: Schema.Json) =>
      agent.sessions.reportOutcome({
        params: { id: session_id, step_id: StepId.make(step) },
        payload: { status: "succeeded", result }
      })
    yield* submit("look-up", "search.orders", { order: 4711 })
    yield* complete("look-up", { order: 4711, total_cents: 12_900 })
    const { approval_id } = yield* submit("refund", "payments.refund", refund)
    const ada = yield* key({ preset: "reviewer", name: "Ada" }, organization)
    return { ada, approval_id, complete }
  })

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("Deciding with context", (it) => {
  const test = skipWithoutBrowser(it)

  test("the reviewer sees who asks, why, for whom, the steps before, and that the amount is ten times the order's", () =>
    Effect.gen(function* () {
      const { ada, approval_id, complete } = yield* refundRequest("context", {
        order: 4711,
        amount_cents: 129_000
      })
      const { page, pageErrors } = yield* openSignedIn(ada, `/approvals/${approval_id}`)
      yield* Effect.promise(async () => {
        const request = page.getByRole("region", { name: "Request" })
        await request.getByText("support agent").waitFor()
        await request.getByText("Money leaves the house").waitFor()
        await request.getByText("SUP-9001").waitFor()
        await request.getByText("Maria Weber").waitFor()
        await page.getByRole("heading", { name: "Refund 1,290.00 EUR on order 4711" }).waitFor()
        const claim = page.getByRole("figure")
        await claim.getByText("The agent’s claim, which nobody has checked").waitFor()
        assert.include((await claim.textContent()) ?? "", "A U+202Esmall refund, <b>as agreed</b>")
        const deadline = page.getByRole("region", { name: "Deadline" })
        assert.match(
          (await deadline.textContent()) ?? "",
          /^Reviewers decide until .+\. If nobody does, admins have another 2 h, and then the step is rejected\.$/u
        )
        await page.getByText("Nobody has decided about this tool yet.").waitFor()
        const row = page.getByRole("listbox").getByRole("option")
        assert.match(
          (await row.textContent()) ?? "",
          /Refund 1,290\.00 EUR on order 4711.*SUP-9001 · “Maria Weber” · support agent · payments\.refund/u
        )
        const earlier = page.getByRole("region", { name: "Earlier steps" })
        await earlier.getByText("search.orders").first().waitFor()
        const found = (await earlier.textContent()) ?? ""
        assert.include(found, "amount_cents 129000 is 10 times total_cents 12900 of search.orders")
        assert.include(found, "order: 4711 · total_cents: 12900")
      })
      assert.deepStrictEqual(yield* accessibilityViolations(page), [])
      yield* Effect.promise(async () => {
        await page.locator("[aria-keyshortcuts=a]").waitFor()
        await page.keyboard.press("a")
        await page.getByLabel("Comment").press("Enter")
        await page.getByText("Approved by Ada").waitFor()
        // Closed: nothing speaks of the future any more.
        assert.strictEqual(await page.getByText("If nobody does").count(), 0)
        assert.strictEqual(await page.getByText("Assigned to").count(), 0)
        await page.getByText("The agent has not reported an outcome yet.").waitFor()
      })
      yield* complete("refund", { error: "insufficient funds" })
      yield* Effect.promise(() =>
        page.getByRole("region", { name: "Outcome" }).getByText("insufficient funds").first().waitFor()
      )
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("the rule that asks is a link, and the rules page shows it", () =>
    Effect.gen(function* () {
      const { ada, approval_id } = yield* refundRequest("rule link", { order: 4711 })
      const { page } = yield* openSignedIn(ada, `/approvals/${approval_id}`)
      yield* Effect.promise(async () => {
        await page.getByRole("heading", { name: "Refund [amount_cents: missing] on order 4711" }).waitFor()
        await page.getByRole("link", { name: "Rule 2" }).click()
        const linked = page.locator(".rule.linked")
        await linked.getByText("Money leaves the house").waitFor()
        assert.strictEqual(await linked.count(), 1)
      })
    }).pipe(Effect.scoped, Effect.orDie))

  test("folded arguments are shown before an approval, and the focus stays on the page's controls", () =>
    Effect.gen(function* () {
      const { ada, approval_id } = yield* refundRequest("folded", {
        order: 4711,
        note: `${"x".repeat(700)} the end of the note`,
        deep: { one: { two: { three: { four: "the harmful part" } } } }
      })
      const { page } = yield* openSignedIn(ada, `/approvals/${approval_id}`)
      yield* Effect.promise(async () => {
        // Until then the page may show the approval again, with its parts folded.
        await page.getByText("Live · sorted by deadline").waitFor()
        await page.getByText("2 parts are not shown").waitFor()
        assert.strictEqual(await page.getByRole("button", { name: "Approve" }).count(), 0)
        assert.strictEqual(await page.getByText("the harmful part").count(), 0)
        await page.locator("[aria-keyshortcuts=a]").waitFor()
        await page.keyboard.press("a")
        await page.getByText("the harmful part").waitFor()
        await page.getByText("the end of the note").waitFor()
        assert.strictEqual(await page.getByLabel("Comment").count(), 0)
        while ((await page.getByLabel("Comment").count()) === 0) {
          await page.locator("[aria-keyshortcuts=a], form").first().waitFor()
          await page.keyboard.press("a")
        }
        await page.keyboard.press("Escape")
        await page.getByRole("button", { name: "Approve" }).waitFor()
        assert.match(String(await page.evaluate("document.activeElement.textContent")), /^Approve/)
        await page.locator("[aria-keyshortcuts=a]").waitFor()
        await page.keyboard.press("a")
        await page.getByLabel("Comment").press("Enter")
        await page.getByText("Approved by Ada").waitFor()
        assert.include(String(await page.evaluate("document.activeElement.textContent")), "Approved by Ada")
      })
    }).pipe(Effect.scoped, Effect.orDie))
})
