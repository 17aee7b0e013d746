import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import type { BrowserContextOptions, Page } from "playwright-core"
import { StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import {
  accessibilityViolations,
  Browser,
  horizontalOverflow,
  openSignedIn,
  skipWithoutBrowser
} from "../support/browser.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

/** An inbox with three mails, whose deadlines are later than those of the payments that `ask` requests. */
const openInbox = (organization: string, options: BrowserContextOptions = {}) =>
  Effect.gen(function* () {
    const { client, key } = yield* Countersign
    const admin = yield* client({}, organization)
    yield* admin.approvalRules.replace({
      payload: {
        rules: [
          { tool: "pay.*", effect: "require_approval", review_seconds: 600 },
          { effect: "require_approval", review_seconds: 3_600 }
        ]
      }
    })
    const agent = yield* client({ preset: "runtime" }, organization)
    const { session_id } = yield* agent.sessions.create({})
    const ask = (tool: string) =>
      agent.sessions.step({
        params: { id: session_id },
        payload: { step_id: StepId.make(tool), tool, action_class: "write" }
      })
    yield* Effect.forEach(["mail.1", "mail.2", "mail.3"], ask, { discard: true })
    const opened = yield* openSignedIn(
      yield* key({ preset: "reviewer", name: "Ada" }, organization),
      "/approvals",
      options
    )
    yield* Effect.promise(() => opened.page.getByRole("option", { name: /mail\.3/ }).waitFor())
    return { ...opened, ask }
  })

/** The tools of the rows, from above. */
const rowsOf = (page: Page) =>
  page.evaluate(() =>
    [...document.querySelectorAll("[role=option]")]
      .toSorted((one, other) => one.getBoundingClientRect().top - other.getBoundingClientRect().top)
      .map((row) => row.querySelector(".row-tool")?.textContent ?? "")
  )

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("New approvals", (it) => {
  const test = skipWithoutBrowser(it)

  test("do not move the row under the pointer, and are listed on request or once the pointer has left", () =>
    Effect.gen(function* () {
      const { ask, page, pageErrors } = yield* openInbox("pointer")
      const second = page.getByRole("option", { name: /mail\.2/ })
      const before = yield* Effect.promise(async () => {
        await second.click()
        await page.getByRole("heading", { name: "mail.2" }).waitFor()
        return second.boundingBox()
      })
      yield* ask("pay.1")
      // Later ones move nothing.
      yield* ask("mail.4")
      const show = page.getByRole("button", { name: "Show 1 new approval" })
      yield* Effect.promise(async () => {
        await show.waitFor()
        await page.getByRole("option", { name: /mail\.4/ }).waitFor()
        assert.deepStrictEqual(await second.boundingBox(), before)
        assert.deepStrictEqual(await rowsOf(page), ["mail.1", "mail.2", "mail.3", "mail.4"])
      })
      assert.deepStrictEqual(yield* accessibilityViolations(page), [])
      yield* Effect.promise(async () => {
        await show.click()
        await page.getByRole("option", { name: /pay\.1/ }).waitFor()
        await show.waitFor({ state: "detached" })
        assert.deepStrictEqual(await rowsOf(page), ["pay.1", "mail.1", "mail.2", "mail.3", "mail.4"])
        assert.strictEqual(await second.getAttribute("aria-current"), "true")
      })
      yield* ask("pay.2")
      yield* Effect.promise(async () => {
        await show.waitFor()
        await page.getByRole("heading", { name: "mail.2" }).hover()
        await page.getByRole("option", { name: /pay\.2/ }).waitFor()
        // By keyboard, the selection stays with its approval.
        await page.keyboard.press("k")
        await page.getByRole("heading", { name: "mail.1" }).waitFor()
      })
      yield* ask("pay.3")
      yield* Effect.promise(async () => {
        await page.getByRole("option", { name: /pay\.3/ }).waitFor()
        await page.keyboard.press("j")
        await page.getByRole("heading", { name: "mail.2" }).waitFor()
      })
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("on a phone, wait for a touch", () =>
    Effect.gen(function* () {
      const { ask, page, pageErrors } = yield* openInbox("phone", {
        viewport: { width: 390, height: 844 },
        hasTouch: true,
        isMobile: true
      })
      yield* ask("pay.1")
      yield* ask("pay.2")
      yield* Effect.promise(async () => {
        const show = page.getByRole("button", { name: "Show 2 new approvals" })
        await show.waitFor()
        assert.deepStrictEqual(await rowsOf(page), ["mail.1", "mail.2", "mail.3"])
        assert.strictEqual(await horizontalOverflow(page), 0)
        await show.tap()
        await page.getByRole("option", { name: /pay\.2/ }).waitFor()
        assert.deepStrictEqual(await rowsOf(page), ["pay.1", "pay.2", "mail.1", "mail.2", "mail.3"])
      })
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))
})
