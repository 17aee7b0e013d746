import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import { accessibilityViolations, Browser, openSignedIn, skipWithoutBrowser } from "../support/browser.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

/** A session with metadata and a step that waits for a person. */
const pendingStep = (organization: string) =>
  Effect.gen(function* () {
    const { client } = yield* Countersign
    const agent = yield* client({ preset: "runtime", name: "support-agent" }, organization)
    const { session_id } = yield* agent.sessions.create({
      payload: { metadata: { ticket: "SUP-9001", customer: "Maria <b id=injected>Weber</b>" } }
    })
    const { approval_id } = yield* agent.sessions.step({
      params: { id: session_id },
      payload: {
        step_id: StepId.make("one"),
        tool: "payments.refund",
        action_class: "write",
        arguments: { order: "ord-4711" }
      }
    })
    return { session_id, approval_id: approval_id ?? assert.fail("it waits") }
  })

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("The search", (it) => {
  const test = skipWithoutBrowser(it)

  test("Ctrl-K leads by words, by an id and by the name of a page, with the keyboard alone", () =>
    Effect.gen(function* () {
      const at = yield* pendingStep("palette")
      const { key } = yield* Countersign
      const { page, pageErrors } = yield* openSignedIn(yield* key({}, "palette"), "/rules")
      const palette = page.getByRole("dialog", { name: "Search" })
      const field = palette.getByRole("combobox")
      const option = (name: RegExp) => palette.getByRole("option", { name })
      yield* Effect.promise(async () => {
        await page.keyboard.press("Control+k")
        await field.waitFor()
        await page.keyboard.type("sup-90")
        await option(/^Session.*support-agent.*SUP-9001/).waitFor()
        assert.strictEqual(await page.locator("#injected").count(), 0)
        await page.keyboard.press("Enter")
        await page.waitForURL(`**/sessions/${at.session_id}`)
        await palette.waitFor({ state: "detached" })
        // In a form field, too.
        await page.keyboard.press("Control+k")
        await field.fill(at.approval_id)
        await option(/^Approval.*payments\.refund/).waitFor()
        await page.keyboard.press("Enter")
        await page.waitForURL(`**/approvals/${at.approval_id}`)
        await page.keyboard.press("Control+k")
        await field.fill("audit")
        await option(/^Page.*Audit log/).waitFor()
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("ArrowUp")
        await page.keyboard.press("Enter")
        await page.waitForURL("**/audit")
        await page.keyboard.press("Meta+k")
        await field.waitFor()
        await page.keyboard.press("Escape")
        await palette.waitFor({ state: "detached" })
      })
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("/ focuses the search field of a page, else opens the palette, unless letters are switched off", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const { page } = yield* openSignedIn(yield* key({}, "slash"), "/audit")
      const palette = page.getByRole("dialog", { name: "Search" })
      yield* Effect.promise(async () => {
        await page.getByLabel("ID of a record").waitFor()
        await page.keyboard.press("/")
        await page.waitForFunction(() => document.activeElement?.getAttribute("type") === "search")
        assert.strictEqual(await page.getByLabel("ID of a record").inputValue(), "")
        assert.strictEqual(await palette.count(), 0)
        await page.getByRole("link", { name: "Rules" }).click()
        await page.getByRole("heading", { name: "Rules", level: 1 }).waitFor()
        await page.keyboard.press("/")
        await palette.waitFor()
        await page.keyboard.press("Escape")
        await palette.waitFor({ state: "detached" })
        await page.keyboard.press("?")
        const help = page.getByRole("dialog", { name: "Keyboard shortcuts" })
        await help.getByText("search everything, go to a page").waitFor()
        await help.getByLabel("Use single letters as shortcuts").uncheck()
        await page.keyboard.press("Escape")
        await help.waitFor({ state: "detached" })
        await page.keyboard.press("/")
        await page.keyboard.press("Control+k")
        await palette.waitFor()
        assert.strictEqual(await palette.getByRole("combobox").inputValue(), "")
      })
    }).pipe(Effect.scoped, Effect.orDie))

  test("the search page lists results by kind, is a link, and has no accessibility violation", () =>
    Effect.gen(function* () {
      yield* pendingStep("results")
      const { key } = yield* Countersign
      const { page, pageErrors } = yield* openSignedIn(
        yield* key({ preset: "reviewer" }, "results"),
        "/search?text=payments"
      )
      yield* Effect.promise(async () => {
        const approvals = page.getByRole("region", { name: "Approvals" })
        await approvals.getByRole("link", { name: /payments\.refund.*order: ord-4711.*pending/ }).waitFor()
        await page.waitForFunction(() => document.title.endsWith("payments · Search · Countersign"))
        // A reviewer sees neither keys nor endpoints.
        assert.strictEqual(await page.getByRole("region", { name: "API keys" }).count(), 0)
        await page.getByLabel("Search", { exact: true }).last().fill("weber")
        await page
          .getByRole("region", { name: "Sessions" })
          .getByRole("link", { name: /SUP-9001/ })
          .waitFor()
        await page.reload()
        await page
          .getByRole("region", { name: "Sessions" })
          .getByRole("link", { name: /SUP-9001/ })
          .waitFor()
        await page.goto("/console/search?text=payments&kind=session")
        await page.getByText("No matches").waitFor()
        await page.goto("/console/search?text=payments&kind=approval")
        await page.getByRole("link", { name: /payments\.refund/ }).waitFor()
      })
      assert.deepStrictEqual(yield* accessibilityViolations(page), [])
      assert.deepStrictEqual(yield* accessibilityViolations(page, "headings"), [])
      yield* Effect.promise(async () => {
        await page.keyboard.press("Control+k")
        await page.getByRole("combobox").fill("payments")
        await page.getByRole("option", { name: /^Approval/ }).waitFor()
      })
      assert.deepStrictEqual(yield* accessibilityViolations(page), [])
      assert.deepStrictEqual(yield* accessibilityViolations(page, "contrast"), [])
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))
})
