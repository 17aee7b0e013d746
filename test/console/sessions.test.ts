import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import { Browser, skipWithoutBrowser, openSignedIn } from "../support/browser.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("Session page", (it) => {
  const test = skipWithoutBrowser(it)

  test("steps, decisions and outcomes of an agent appear live, and an admin closes the session", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const admin = yield* client({}, "timeline")
      yield* admin.approvalRules.replace({
        payload: { rules: [{ tool: "search.*", effect: "allow", reason: "Read-only" }] }
      })
      const ada = yield* client({ preset: "reviewer", name: "Ada" }, "timeline")
      const agent = yield* client({ preset: "runtime", name: "The agent" }, "timeline")
      const { session_id } = yield* agent.sessions.create({ payload: { metadata: { ticket: "4711" } } })
      const { pageErrors, page } = yield* openSignedIn(yield* key({}, "timeline"), "/sessions")
      yield* Effect.promise(async () => {
        await page.getByRole("row").filter({ hasText: "ticket: 4711" }).getByRole("link").click()
        await page.getByText("No steps yet").waitFor()
      })
      const ask = (step: string, tool: string) =>
        agent.sessions.step({
          params: { id: session_id },
          payload: { step_id: StepId.make(step), tool, action_class: "write" }
        })
      // The events appear without reloading the page.
      yield* ask("one", "search.orders")
      yield* agent.sessions.reportOutcome({
        params: { id: session_id, step_id: StepId.make("one") },
        payload: { status: "failed", error: "<b id=injected>no such order</b>" }
      })
      const searchStep = page.getByRole("listitem").filter({ hasText: "search.orders" })
      yield* Effect.promise(async () => {
        await searchStep.getByText("Read-only").waitFor()
        await searchStep.getByText("Tool failed: <b id=injected>no such order</b>").waitFor()
        assert.strictEqual(await page.locator("#injected").count(), 0)
      })
      const { approval_id } = yield* ask("two", "payments.refund")
      const refundStep = page.getByRole("listitem").filter({ hasText: "payments.refund" })
      yield* Effect.promise(() => refundStep.getByText("due in").waitFor())
      if (approval_id === null) return yield* Effect.die("the step should require approval")
      yield* ada.approvals.decide({
        params: { id: approval_id },
        payload: { decision: "approve", comment: "The order was checked" }
      })
      yield* Effect.promise(async () => {
        await refundStep.getByText("decided by Ada").waitFor()
        await refundStep.getByText("Approved by Ada: The order was checked").waitFor()
        await page.getByRole("button", { name: "Close session" }).click()
        await page.getByRole("dialog").getByRole("button", { name: "Close session" }).click()
        await page.getByText("Session closed").waitFor()
        await page.getByRole("button", { name: "Close session" }).waitFor({ state: "detached" })
      })
      assert.strictEqual((yield* agent.sessions.get({ params: { id: session_id } })).status, "closed")
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))
})
