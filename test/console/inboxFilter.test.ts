import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import { accessibilityViolations, Browser, openSignedIn, skipWithoutBrowser } from "../support/browser.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

/** An organization in which two refunds and a mail wait for reviewers, and a deployment waits for a group. */
const busyInbox = (organization: string) =>
  Effect.gen(function* () {
    const { client, key } = yield* Countersign
    const admin = yield* client({}, organization)
    yield* client({ preset: "reviewer", groups: ["ops"] }, organization)
    yield* admin.approvalRules.replace({
      payload: {
        rules: [
          { tool: "payments.*", effect: "require_approval", summary_template: "Refund {cents|money:EUR}" },
          { tool: "deploy", effect: "require_approval", quorum: [{ group: "ops" }] },
          { effect: "require_approval" }
        ]
      }
    })
    const agent = yield* client({ preset: "runtime", name: "support agent" }, organization)
    for (const [step, tool, cents, ticket] of [
      ["one", "payments.refund", 1_290, "SUP-1"],
      ["two", "mail.send", 0, "SUP-2"],
      ["three", "payments.refund", 4_500, "SUP-3"],
      ["four", "deploy", 0, "OPS-4"]
    ] as const) {
      const { session_id } = yield* agent.sessions.create({ payload: { metadata: { ticket } } })
      yield* agent.sessions.step({
        params: { id: session_id },
        payload: { step_id: StepId.make(step), tool, action_class: "write", arguments: { cents } }
      })
    }
    return yield* key({ preset: "reviewer", name: "Ada" }, organization)
  })

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("Filter of the inbox", (it) => {
  const test = skipWithoutBrowser(it)

  test("a reviewer sees what the key can decide, and the filter is in the address", () =>
    Effect.gen(function* () {
      const { page, pageErrors } = yield* openSignedIn(yield* busyInbox("filter"), "/approvals")
      yield* Effect.promise(async () => {
        const rows = page.getByRole("listbox").getByRole("option")
        await page.getByRole("button", { name: "Mine 3" }).waitFor()
        assert.strictEqual(await rows.count(), 3)
        assert.match(
          (await rows.first().textContent()) ?? "",
          /Refund 12\.90 EUR.*SUP-1 · support agent · payments\.refund/u
        )
        assert.match(
          (await rows.nth(1).textContent()) ?? "",
          /mail\.sendcents 0.*SUP-2 · support agent · write/u
        )
        await page.getByRole("button", { name: "All 4" }).click()
        await page.getByRole("option", { name: /deploy/u }).waitFor()
        await page.getByRole("searchbox", { name: /Filter by tool/u }).fill("refund sup-3")
        await page.waitForFunction(() => document.querySelectorAll("[role=option]").length === 1)
        await rows.first().click()
        await page.getByRole("heading", { name: "Refund 45.00 EUR" }).waitFor()
        const address = new URL(page.url())
        assert.deepStrictEqual(Object.fromEntries(address.searchParams), {
          show: "all",
          text: "refund sup-3"
        })
        await page.reload()
        await page.getByRole("heading", { name: "Refund 45.00 EUR" }).waitFor()
        assert.strictEqual(await rows.count(), 1)
        await page.getByRole("searchbox", { name: /Filter by tool/u }).fill("nothing like it")
        await page.getByText("No approval matches").waitFor()
      })
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("approvals are grouped by tool, and j follows the order of the groups", () =>
    Effect.gen(function* () {
      const { page } = yield* openSignedIn(yield* busyInbox("groups"), "/approvals")
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "Tool", exact: true }).click()
        await page.locator(".pending-heading").first().waitFor()
        assert.deepStrictEqual(await page.locator(".pending-heading").allTextContents(), [
          "payments.refund 2",
          "mail.send 1"
        ])
        await page.locator("h1").click()
        for (const heading of ["Refund 12.90 EUR", "Refund 45.00 EUR", "mail.send"]) {
          await page.keyboard.press("j")
          await page.getByRole("heading", { name: heading }).waitFor()
        }
      })
      assert.deepStrictEqual(yield* accessibilityViolations(page), [])
    }).pipe(Effect.scoped, Effect.orDie))
})
