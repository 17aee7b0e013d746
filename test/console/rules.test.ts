import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import type { Locator } from "playwright-core"
import { StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import { Browser, skipWithoutBrowser, openSignedIn } from "../support/browser.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

/** Opens the rules page with two rules: the first rejects everything, the second allows searching. */ const openTwoRules =
  (organization: string) =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const admin = yield* client({}, organization)
      yield* admin.approval_rules.replace({
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
      const tools = Effect.map(admin.approval_rules.list(), ({ rules }) => rules.map(({ tool }) => tool))
      return { admin, pageErrors, page, tools }
    })

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("Rules page", (it) => {
  const test = skipWithoutBrowser(it)

  test("a rule is moved by keyboard and tested, and a concurrent change is overwritten only after confirmation", () =>
    Effect.gen(function* () {
      const { admin, pageErrors, page, tools } = yield* openTwoRules("keyboard")
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "Move rule 2 up" }).press("Enter")
        await page.getByRole("status").getByText("Reading").waitFor()
        await page.getByText("Uses the unsaved rules on this page").waitFor()
      })
      yield* admin.approval_rules.replace({ payload: { rules: [] } })
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "Save rules" }).click()
        await page.getByText("The rules changed while you were editing").waitFor()
        await page.getByRole("button", { name: "Overwrite with mine" }).click()
        await page.getByText("Rules saved").waitFor()
      })
      assert.deepStrictEqual(yield* tools, ["search.*", "*"])
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("a rule's quorum is edited, and a group that nobody has is named", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const admin = yield* client({}, "quorum")
      yield* client({ preset: "reviewer", groups: ["finance"] }, "quorum")
      yield* admin.approval_rules.replace({ payload: { rules: [{ effect: "require_approval" }] } })
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
      assert.deepStrictEqual((yield* admin.approval_rules.list()).rules[0]?.quorum, [
        { count: 2, group: "finance" }
      ])
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("a rule is reordered by dragging its handle", () =>
    Effect.gen(function* () {
      const { pageErrors, page, tools } = yield* openTwoRules("drag")
      yield* Effect.promise(async () => {
        const second = page.getByRole("row").nth(1)
        const first = page.getByRole("row").nth(0)
        await second.dragTo(first, { sourcePosition: { x: 20, y: 20 }, targetPosition: { x: 200, y: 2 } })
        await page.getByRole("status").getByText("Reading").waitFor()
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
        const press = async (key: string, then: Locator) => {
          await page.keyboard.press(key)
          await page.locator(":focus").and(then).waitFor()
        }
        await page.getByRole("row").first().focus()
        await press("ArrowDown", page.getByRole("row").nth(1))
        await press("Tab", page.getByRole("button", { name: "Move rule 2", exact: true }))
        await press("Enter", page.getByRole("button", { name: /^Insert after 2/ }))
        await press("ArrowUp", page.getByRole("button", { name: /^Insert between 1/ }))
        await press("ArrowUp", page.getByRole("button", { name: /^Insert before 1/ }))
        await page.keyboard.press("Enter")
        await page.getByRole("status").getByText("Reading").waitFor()
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
        await page.getByRole("button", { name: "Remove rule 1" }).click()
        await page.getByLabel("Tool").fill("payments.refund")
        await page.getByText("Matches rule 2").waitFor()
        await page.getByRole("status").getByText("Review window 2 h · on timeout: reject").waitFor()
        await page.getByRole("button", { name: "Edit rule 2" }).click()
        await dialog.getByLabel("Effect").selectOption({ label: "Allow" })
        await dialog.getByRole("button", { name: "Update rule" }).click()
        await page.getByRole("status").getByText("allowed").waitFor()
        await page.getByRole("button", { name: "Save rules" }).click()
        await page.getByText("Rules saved").waitFor()
      })
      assert.deepStrictEqual(yield* tools, ["search.*", "payments.*"])
      const { rules } = yield* admin.approval_rules.list()
      assert.deepInclude(rules[1], { effect: "allow", reason: "Payments require a second person" })
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
      yield* admin.approval_rules.replace({
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
      const { rules } = yield* admin.approval_rules.list()
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
})
