import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import { accessibilityViolations, Browser, openSignedIn, skipWithoutBrowser } from "../support/browser.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("Audit log page", (it) => {
  const test = skipWithoutBrowser(it)

  test("an entry says who did what to which record and why, and is filtered by people and actions", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const admin = yield* client({ name: "Grace Hopper" }, "audit")
      yield* admin.approvalRules.replace({
        payload: {
          rules: [{ effect: "require_approval", summary_template: "Refund {/amount} € of order {/order}" }]
        }
      })
      const agent = yield* client({ preset: "runtime" }, "audit")
      const { session_id } = yield* agent.sessions.create({})
      for (const [name, decision, order] of [
        ["Ada", "approve", 1],
        ["Ben", "reject", 2]
      ] as const) {
        const { approval_id } = yield* agent.sessions.step({
          params: { id: session_id },
          payload: {
            step_id: StepId.make(`refund-${order}`),
            tool: "payments.refund",
            action_class: "write",
            arguments: { amount: 120, order }
          }
        })
        const person = yield* client({ preset: "reviewer", name }, "audit")
        yield* person.approvals.decide({
          params: { id: approval_id ?? assert.fail("the step waits") },
          payload: { decision, comment: `Because of order ${order}.` }
        })
      }
      const { page, pageErrors } = yield* openSignedIn(yield* key({ name: "Auditor" }, "audit"), "/audit")
      yield* Effect.promise(async () => {
        const entries = page.locator(".entry")
        const entry = (name: string) =>
          entries.filter({ has: page.getByRole("button", { name, exact: true }) })
        await entry("Ben").getByText("rejected a step: payments.refund · Refund 120 € of order 2").waitFor()
        await entry("Ben").getByText("Because of order 2.").waitFor()
        const signIns = entries.filter({ hasText: "signed in to the console" })
        await signIns.first().waitFor()

        await page.getByText("All actions", { exact: true }).first().click()
        await page.getByRole("button", { name: "All but sign-ins" }).click()
        await signIns.first().waitFor({ state: "detached" })
        await page.getByRole("button", { name: "Decisions" }).click()
        await page.waitForFunction(() => document.querySelectorAll(".entry").length === 2)
        const checked = page.getByRole("checkbox", { name: "rejected a step", exact: true })
        assert.isTrue(await checked.isChecked())
        assert.deepStrictEqual(await Effect.runPromise(accessibilityViolations(page)), [])
        await checked.uncheck()
        await page.waitForFunction(() => document.querySelectorAll(".entry").length === 1)
        assert.include(page.url(), "action=approval.approved")
        await page.reload()
        await entry("Ada").waitFor()
        assert.strictEqual(await entries.count(), 1)

        await page.goto("/console/audit")
        await page.getByRole("combobox", { name: "Person" }).selectOption("Ben")
        await page.waitForFunction(() => document.querySelectorAll(".entry").length === 1)
        await page.reload()
        await entry("Ben").waitFor()
        // The name stays in the filter, not the key's ID.
        assert.strictEqual(
          await page
            .getByRole("combobox", { name: "Person" })
            .evaluate((select) =>
              select instanceof HTMLSelectElement ? select.selectedOptions[0]?.textContent : undefined
            ),
          "Ben"
        )
        await page.getByRole("button", { name: /^Details/ }).click()
        await page.getByRole("link", { name: /^apr_/ }).waitFor()
        await page.getByRole("link", { name: "payments.refund" }).click()
        await page.waitForURL(/\/approvals\/apr_/)
      })
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))
})
