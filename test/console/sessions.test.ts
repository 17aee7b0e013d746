import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import { Browser, skipWithoutBrowser, openSignedIn } from "../support/browser.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("sessions in a browser", (it) => {
  const test = skipWithoutBrowser(it)

  test("an agent's steps, decisions and outcomes appear as they come, and an admin closes the session", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const admin = yield* client({}, "timeline")
      yield* admin.approval_rules.replace({
        payload: { rules: [{ tool: "search.*", effect: "allow", reason: "Reading harms nobody" }] }
      })
      const ada = yield* client({ preset: "reviewer", name: "Ada" }, "timeline")
      const agent = yield* client({ preset: "runtime", name: "The agent" }, "timeline")
      const { session_id } = yield* agent.sessions.create({ payload: { metadata: { ticket: "4711" } } })
      const { faults, page } = yield* openSignedIn(yield* key({}, "timeline"), "/sessions")
      yield* Effect.promise(async () => {
        await page.getByRole("row").filter({ hasText: "ticket: 4711" }).getByRole("link").click()
        await page.getByText("No step was asked for yet").waitFor()
      })
      const ask = (step: string, tool: string) =>
        agent.sessions.step({
          params: { id: session_id },
          payload: { step_id: StepId.make(step), tool, action_class: "write" }
        })
      // Nobody loads the page again.
      yield* ask("one", "search.orders")
      yield* agent.sessions.complete({
        params: { id: session_id, step_id: StepId.make("one") },
        payload: { status: "failed", error: "<b id=injected>no such order</b>" }
      })
      const found = page.getByRole("listitem").filter({ hasText: "search.orders" })
      yield* Effect.promise(async () => {
        await found.getByText("Reading harms nobody").waitFor()
        await found.getByText("the tool failed: <b id=injected>no such order</b>").waitFor()
        assert.strictEqual(await page.locator("#injected").count(), 0)
      })
      const { approval_id } = yield* ask("two", "payments.refund")
      const held = page.getByRole("listitem").filter({ hasText: "payments.refund" })
      yield* Effect.promise(() => held.getByText("closes in").waitFor())
      if (approval_id === null) return yield* Effect.die("a person should be asked")
      yield* ada.approvals.decide({
        params: { id: approval_id },
        payload: { decision: "approve", comment: "The order was checked" }
      })
      yield* Effect.promise(async () => {
        await held.getByText("was decided by Ada").waitFor()
        await held.getByText("approved by Ada: The order was checked").waitFor()
        await page.getByRole("button", { name: "Close the session" }).click()
        await page.getByRole("dialog").getByRole("button", { name: "Close the session" }).click()
        await page.getByText("The session is closed").waitFor()
        await page.getByRole("button", { name: "Close the session" }).waitFor({ state: "detached" })
      })
      assert.strictEqual((yield* agent.sessions.get({ params: { id: session_id } })).status, "closed")
      assert.deepStrictEqual(faults, [])
    }).pipe(Effect.scoped, Effect.orDie))
})
