import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import type { Page } from "playwright-core"
import { StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import {
  accessibilityViolations,
  Browser,
  goTo,
  openSignedIn,
  skipWithoutBrowser
} from "../support/browser.ts"
import { seedConsoleOrg } from "../support/seedConsoleOrg.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

/** An organization with three pending approvals, of which the first has long arguments. */
const pendingApprovals = (organization: string) =>
  Effect.gen(function* () {
    const { client, key } = yield* Countersign
    const agent = yield* client({ preset: "runtime" }, organization)
    const { session_id } = yield* agent.sessions.create({})
    const submit = (step: string, tool: string, recipients: number) =>
      agent.sessions.step({
        params: { id: session_id },
        payload: {
          step_id: StepId.make(step),
          tool,
          action_class: "write",
          arguments: { recipients: Array.from({ length: recipients }, (_, index) => `person ${index}`) }
        }
      })
    yield* submit("one", "mail.send", 45)
    yield* submit("two", "mail.other", 1)
    yield* submit("three", "mail.last", 1)
    return yield* key({ preset: "reviewer", name: "Ada" }, organization)
  })

const activeElement = (page: Page): Promise<string> =>
  page.evaluate<string>("document.activeElement.id || document.activeElement.getAttribute('aria-label')")

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("Keyboard use", (it) => {
  const test = skipWithoutBrowser(it)

  test("long arguments are read with the keyboard, whose arrows then do not open another approval", () =>
    Effect.gen(function* () {
      const ada = yield* pendingApprovals("reading")
      const { page } = yield* openSignedIn(ada, "/approvals")
      const pane = page.getByRole("region", { name: "Selected approval" })
      yield* Effect.promise(async () => {
        await page.getByRole("option", { name: /mail\.send/ }).click()
        await pane.getByText("person 44").waitFor()
        await pane.focus()
        const address = page.url()
        for (const key of ["PageDown", "ArrowDown", "End"]) await page.keyboard.press(key)
        // A function: the console's policy forbids to evaluate a text again and again.
        await page.waitForFunction(() => (document.querySelector(".detail-pane")?.scrollTop ?? 0) > 300)
        assert.strictEqual(page.url(), address)
        // Elsewhere the arrows still move through the list.
        await page.getByRole("listbox").focus()
        await page.keyboard.press("ArrowDown")
        await pane.getByRole("heading", { name: "mail.other" }).waitFor()
      })
      assert.deepStrictEqual(yield* accessibilityViolations(page), [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("a key that is held down moves on through the list, and acts on one approval once", () =>
    Effect.gen(function* () {
      const ada = yield* pendingApprovals("held")
      const { page, pageErrors } = yield* openSignedIn(ada, "/approvals")
      yield* Effect.promise(async () => {
        await page.getByRole("option", { name: /mail\.send/ }).click()
        await page.getByRole("button", { name: "Reject" }).waitFor()
        // Every press but the first is a repetition, until the key is up.
        for (const key of ["x", "x", "j", "j"]) await page.keyboard.down(key)
        await page.getByRole("heading", { name: "mail.last" }).waitFor()
        await page.getByText("1 selected", { exact: true }).waitFor()
        assert.strictEqual(await page.getByRole("listbox").getByRole("option", { selected: true }).count(), 1)
        for (const key of ["x", "j"]) await page.keyboard.up(key)
        // Another press is not.
        await page.keyboard.press("x")
        await page.getByText("2 selected", { exact: true }).waitFor()
      })
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("single letters are listed, and can be switched off for this browser", () =>
    Effect.gen(function* () {
      const ada = yield* pendingApprovals("letters")
      const { page, pageErrors } = yield* openSignedIn(ada, "/approvals")
      yield* Effect.promise(async () => {
        await page.getByRole("option", { name: /mail\.send/ }).click()
        await page.getByRole("button", { name: "Reject" }).waitFor()
        await page.keyboard.press("?")
        await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor()
      })
      assert.deepStrictEqual(yield* accessibilityViolations(page), [])
      yield* Effect.promise(async () => {
        await page.getByLabel("Use single letters as shortcuts").uncheck()
        await page.getByRole("button", { name: "Close", exact: true }).click()
        for (const key of ["a", "j", "?"]) await page.keyboard.press(key)
        await page.reload()
        await page.getByRole("button", { name: "Reject" }).waitFor()
        for (const key of ["a", "?"]) await page.keyboard.press(key)
        // Keys that are not letters still work, so everything before them was ignored.
        await page.keyboard.press("ArrowDown")
        await page.getByRole("heading", { name: "mail.other" }).waitFor()
        assert.strictEqual(await page.getByLabel("Comment").count(), 0)
        assert.strictEqual(await page.getByRole("dialog").count(), 0)
        await page.getByRole("button", { name: "Keyboard shortcuts" }).click()
        await page.getByLabel("Use single letters as shortcuts").check()
        await page.getByRole("button", { name: "Close", exact: true }).click()
        await page.locator("[aria-keyshortcuts=a]").waitFor()
        await page.keyboard.press("a")
        await page.getByLabel("Comment").waitFor()
      })
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("after a change of the page, it is announced and has the focus", () =>
    Effect.gen(function* () {
      const ada = yield* pendingApprovals("focus")
      const { page } = yield* openSignedIn(ada, "/approvals")
      yield* Effect.promise(async () => {
        await page.getByRole("option", { name: /mail\.send/ }).waitFor()
        await page.getByRole("link", { name: "Sessions" }).click()
        await page.getByRole("heading", { name: "Sessions", level: 1 }).waitFor()
        await page
          .getByRole("status")
          .filter({ hasText: /^Sessions$/ })
          .waitFor({ state: "attached" })
        assert.strictEqual(await activeElement(page), "content")
      })
    }).pipe(Effect.scoped, Effect.orDie))

  test("the reading view of a phone has a main heading", () =>
    Effect.gen(function* () {
      const ada = yield* pendingApprovals("phone")
      const { page } = yield* openSignedIn(ada, "/approvals", { viewport: { width: 390, height: 844 } })
      yield* Effect.promise(async () => {
        await page.getByRole("option", { name: /mail\.send/ }).click()
        await page.getByRole("button", { name: "Reject" }).waitFor()
        assert.strictEqual(await page.getByRole("heading", { level: 1 }).count(), 1)
      })
      assert.deepStrictEqual(yield* accessibilityViolations(page), [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("the headings of pages of cards are in order", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const at = yield* seedConsoleOrg("headings")
      const { page } = yield* openSignedIn(yield* key({}, "headings"), "/approvals")
      for (const [path, shows] of [
        [`/sessions/${at.session_id}`, "1-look-up"],
        [`/promotion/${at.task_id}`, "examples added"],
        [`/datasets/${at.dataset_id}`, "1 added"]
      ] as const) {
        yield* Effect.promise(async () => {
          await goTo(page, path)
          await page.locator("main").getByText(shows).first().waitFor()
        })
        assert.deepStrictEqual(yield* accessibilityViolations(page, "headings"), [], path)
      }
    }).pipe(Effect.scoped, Effect.orDie))
})
