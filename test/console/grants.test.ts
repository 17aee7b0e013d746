import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import {
  accessibilityViolations,
  Browser,
  goTo,
  horizontalOverflow,
  openSignedIn,
  skipWithoutBrowser
} from "../support/browser.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

/** An agent whose refunds wait for a person. */
const agentIn = Effect.fnUntraced(function* (organization: string) {
  const { client } = yield* Countersign
  const agent = yield* client({ preset: "runtime", name: "agent" }, organization)
  const { session_id } = yield* agent.sessions.create({})
  const refund = (step: string, amount: number) =>
    agent.sessions.step({
      params: { id: session_id },
      payload: {
        step_id: StepId.make(step),
        tool: "payments.refund",
        action_class: "write",
        arguments: { amount }
      }
    })
  return { refund, session_id }
})

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("Grants in the console", (it) => {
  const test = skipWithoutBrowser(it)

  test("a reviewer allows further steps with an approval, finds the grant at the step, and revokes it", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const { refund, session_id } = yield* agentIn("granted")
      yield* refund("first", 20)
      const { pageErrors, page } = yield* openSignedIn(
        yield* key({ preset: "reviewer", name: "Ada" }, "granted"),
        "/approvals"
      )
      yield* Effect.promise(async () => {
        await page.getByRole("option", { name: /payments\.refund/ }).click()
        await page.getByRole("button", { name: /^Approve/ }).click()
        await page.getByRole("button", { name: "Allow further steps…" }).click()
        await page.getByLabel("With").selectOption({ label: "arguments that meet conditions" })
        // Nothing can be submitted without a condition.
        await page.getByText("Add a condition on the arguments.").waitFor()
        assert.isTrue(await page.getByRole("button", { name: "Approve", exact: true }).isDisabled())
        await page.getByRole("button", { name: "Add condition" }).click()
        await page.getByLabel("Condition 1, JSON Pointer").fill("/amount")
        await page.getByLabel("Condition 1, comparison").selectOption({ label: "is at most" })
        await page.getByLabel("Condition 1, value").fill("50")
        await page.getByLabel("For", { exact: true }).selectOption({ label: "8 hours" })
        await page.getByLabel("At most, steps (optional)").fill("3")
        assert.deepStrictEqual(await Effect.runPromise(accessibilityViolations(page)), [])
        await page.getByLabel("Comment (optional)").fill("Damaged batch")
        await page.getByRole("button", { name: "Approve", exact: true }).click()
        await page.getByText("Approved by Ada").waitFor()
      })
      const granted = yield* refund("second", 50)
      assert.deepInclude(granted, { decision: "allow", decision_source: "grant" })
      assert.strictEqual((yield* refund("third", 51)).decision, "pending")
      yield* Effect.promise(async () => {
        await goTo(page, `/sessions/${session_id}`)
        await page.getByText("Allowed by a standing grant: Damaged batch").waitFor()
        await page.getByRole("link", { name: "Standing grant" }).click()
        await page.getByRole("cell", { name: /1 of 3/ }).waitFor()
        await page.getByText("/amount is at most 50").waitFor()
        await page.getByRole("link", { name: "Session", exact: true }).waitFor()
        await page.getByRole("link", { name: "← All grants" }).click()
        await page.getByText("Damaged batch").waitFor()
        assert.deepStrictEqual(await Effect.runPromise(accessibilityViolations(page)), [])
        assert.strictEqual(await horizontalOverflow(page), 0)
        await page.getByRole("button", { name: "Revoke" }).click()
        await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click()
        await page.getByText("No active grants").waitFor()
        await page.getByLabel("Show").selectOption({ label: "Ended grants" })
        await page.getByText("Revoked").waitFor()
      })
      assert.strictEqual((yield* refund("fourth", 50)).decision, "pending")
      const narrow = yield* openSignedIn(yield* key({ scopes: ["approvals.read"] }, "granted"), "/grants")
      yield* Effect.promise(async () => {
        await narrow.page.getByLabel("Show").selectOption({ label: "Ended grants" })
        await narrow.page.getByRole("link", { name: "Approval", exact: true }).waitFor()
        assert.strictEqual(await narrow.page.getByRole("link", { name: "Session", exact: true }).count(), 0)
      })
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("an approval that needs several people offers no grant", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const admin = yield* client({}, "several")
      yield* admin.approvalRules.replace({
        payload: { rules: [{ effect: "require_approval", quorum: [{ count: 2 }] }] }
      })
      const { refund } = yield* agentIn("several")
      yield* refund("first", 20)
      const { page } = yield* openSignedIn(yield* key({ preset: "reviewer" }, "several"), "/approvals")
      yield* Effect.promise(async () => {
        await page.getByRole("option", { name: /payments\.refund/ }).click()
        await page.getByRole("button", { name: /^Approve/ }).click()
        await page.getByLabel("Comment (optional)").waitFor()
        assert.strictEqual(await page.getByRole("button", { name: "Allow further steps…" }).count(), 0)
      })
    }).pipe(Effect.scoped, Effect.orDie))
})
