import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import type { Locator } from "playwright-core"
import { Countersign } from "../../src/testing/index.ts"
import { Browser, skipWithoutBrowser, openSignedIn } from "../support/browser.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

/** The rules page of an organization that has these two: nothing may be done, and reading may. */
const twoRules = (organization: string) =>
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
    const { faults, page } = yield* openSignedIn(yield* key({}, organization), "/rules")
    yield* Effect.promise(async () => {
      await page.getByLabel("Tool").fill("search.products")
      await page.getByText("by rule 1").waitFor()
    })
    const tools = Effect.map(admin.approval_rules.list(), ({ rules }) => rules.map(({ tool }) => tool))
    return { admin, faults, page, tools }
  })

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("rules in a browser", (it) => {
  const test = skipWithoutBrowser(it)

  test("one is moved by the keyboard, tried, and saved over nobody's without asking", () =>
    Effect.gen(function* () {
      const { admin, faults, page, tools } = yield* twoRules("keyboard")
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "Move rule 2 up" }).press("Enter")
        await page.getByRole("status").getByText("Reading").waitFor()
        await page.getByText("By the rules as you have them here, not yet saved").waitFor()
      })
      yield* admin.approval_rules.replace({ payload: { rules: [] } })
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "Save the rules" }).click()
        await page.getByText("Somebody else saved rules while you edited").waitFor()
        await page.getByRole("button", { name: "Save mine over theirs" }).click()
        await page.getByText("The rules are saved").waitFor()
      })
      assert.deepStrictEqual(yield* tools, ["search.*", "*"])
      assert.deepStrictEqual(faults, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("one is dragged to another place, by its handle", () =>
    Effect.gen(function* () {
      const { faults, page, tools } = yield* twoRules("drag")
      yield* Effect.promise(async () => {
        const second = page.getByRole("row").nth(1)
        const first = page.getByRole("row").nth(0)
        await second.dragTo(first, { sourcePosition: { x: 20, y: 20 }, targetPosition: { x: 200, y: 2 } })
        await page.getByRole("status").getByText("Reading").waitFor()
        await page.getByRole("button", { name: "Save the rules" }).click()
        await page.getByText("The rules are saved").waitFor()
      })
      assert.deepStrictEqual(yield* tools, ["search.*", "*"])
      assert.deepStrictEqual(faults, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("one is moved by the keyboard on its handle, as a drag for who sees or points at nothing", () =>
    Effect.gen(function* () {
      const { page } = yield* twoRules("handle")
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

  test("one is written, tried on a step, edited, and removed", () =>
    Effect.gen(function* () {
      const { faults, page, tools, admin } = yield* twoRules("written")
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "New rule" }).click()
        const dialog = page.getByRole("dialog")
        await dialog.getByLabel("Tool").fill("payments.*")
        await dialog.getByLabel("Time to decide", { exact: true }).fill("2")
        await dialog.getByLabel("Time to decide, unit").selectOption("hours")
        await dialog.getByLabel("Reason").fill("Money leaves the house")
        await dialog.getByRole("button", { name: "Add it at the end" }).click()
        await page.getByRole("button", { name: "Remove rule 1" }).click()
        await page.getByLabel("Tool").fill("payments.refund")
        await page.getByText("by rule 2").waitFor()
        await page.getByRole("status").getByText("2 h to decide; in silence the step is rejected").waitFor()
        await page.getByRole("button", { name: "Edit rule 2" }).click()
        await dialog.getByLabel("What it does").selectOption("allow it")
        await dialog.getByRole("button", { name: "Change it" }).click()
        await page.getByRole("status").getByText("allowed").waitFor()
        await page.getByRole("button", { name: "Save the rules" }).click()
        await page.getByText("The rules are saved").waitFor()
      })
      assert.deepStrictEqual(yield* tools, ["search.*", "payments.*"])
      const { rules } = yield* admin.approval_rules.list()
      assert.deepInclude(rules[1], { effect: "allow", reason: "Money leaves the house" })
      assert.deepStrictEqual(faults, [])
    }).pipe(Effect.scoped, Effect.orDie))
})
