import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import type { Page } from "playwright-core"
import { StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import {
  accessibilityViolations,
  Browser,
  holdTimers,
  openSignedIn,
  skipWithoutBrowser
} from "../support/browser.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

/** Records the notifications of a page instead of showing them: a headless browser shows none. */
const recordNotifications = () => {
  const asked: Array<string> = []
  const shown: Array<{ title: string; body: string; closed: boolean; click: () => void }> = []
  class Recorded extends EventTarget {
    static permission = localStorage.getItem("permission") ?? "default"
    static requestPermission() {
      asked.push("permission")
      Recorded.permission = "granted"
      localStorage.setItem("permission", "granted")
      return Promise.resolve("granted")
    }
    constructor(title: string, { body = "" }: NotificationOptions = {}) {
      super()
      this.record = { title, body, closed: false, click: () => this.dispatchEvent(new Event("click")) }
      shown.push(this.record)
    }
    readonly record: (typeof shown)[number]
    close() {
      this.record.closed = true
    }
  }
  // The messages to other tabs.
  const posted: Array<unknown> = []
  // oxlint-disable-next-line typescript/unbound-method -- it is called with its channel below
  const post = BroadcastChannel.prototype.postMessage
  BroadcastChannel.prototype.postMessage = function (message: unknown) {
    posted.push(Reflect.get(Object(message), "_tag"))
    Reflect.apply(post, this, [message])
  }
  Object.assign(globalThis, { Notification: Recorded, asked, shown, posted })
}

/** How long a page waits for the answers of visible tabs. */
const VISIBLE_MS = 2_000

declare const posted: ReadonlyArray<unknown>

declare const asked: ReadonlyArray<string>
declare const shown: ReadonlyArray<{
  readonly title: string
  readonly body: string
  readonly closed: boolean
  readonly click: () => void
}>

/** Makes a page visible or hidden, as switching tabs does. */
const setHidden = (page: Page, isHidden: boolean) =>
  page.evaluate((hidden) => {
    Object.defineProperty(document, "hidden", { value: hidden, configurable: true })
    document.dispatchEvent(new Event("visibilitychange"))
  }, isHidden)

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("Desktop notifications", (it) => {
  const test = skipWithoutBrowser(it)

  test("after a person turned them on, the leader notifies while all tabs are hidden, and a click opens the approval", () =>
    Effect.gen(function* () {
      const { client, clientWith, key } = yield* Countersign
      const admin = yield* client({}, "desktop")
      yield* admin.approvalRules.replace({
        payload: { rules: [{ effect: "require_approval", summary_template: "Refund {amount|number} EUR" }] }
      })
      const agent = yield* client({ preset: "runtime", name: "agent" }, "desktop")
      const { session_id } = yield* agent.sessions.create({})
      const ask = (step: string) =>
        agent.sessions.step({
          params: { id: session_id },
          payload: {
            step_id: StepId.make(step),
            tool: "payments.refund",
            action_class: "write",
            arguments: { amount: 1_290, iban: "DE00-SECRET" },
            summary: "A claim"
          }
        })
      const secret = yield* key({ preset: "reviewer", name: "Ada" }, "desktop")
      const { page, pageErrors } = yield* openSignedIn(secret, "/overview")
      const second = yield* Effect.promise(async () => {
        await page.context().addInitScript(recordNotifications)
        await page.reload()
        await page.getByRole("button", { name: "Desktop notifications" }).click()
        await page.getByText("They are off in this browser.").waitFor()
        assert.deepStrictEqual(await page.evaluate(() => asked), [])
        return page.context().newPage()
      })
      for (const colorScheme of ["dark", "light"] as const) {
        yield* Effect.promise(() => page.emulateMedia({ colorScheme }))
        assert.deepStrictEqual(yield* accessibilityViolations(page), [], colorScheme)
      }
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "Turn on" }).click()
        await page.getByText("They are on in this browser.").waitFor()
        assert.deepStrictEqual(await page.evaluate(() => asked), ["permission"])
        await page.getByRole("dialog").getByRole("button", { name: "Close" }).click()
        await second.goto("/console/approvals")
        await second.getByText("Live · sorted by deadline").waitFor()
        await setHidden(page, true)
        await setHidden(second, false)
      })
      // A tab is visible, which may take any time to say so.
      const release = yield* Effect.promise(() => holdTimers(page, VISIBLE_MS))
      yield* ask("seen")
      yield* Effect.promise(async () => {
        await second.getByRole("listbox").getByRole("option").waitFor()
        await second.waitForFunction(() => posted.includes("Visible"))
        assert.deepStrictEqual(await page.evaluate(() => shown), [])
        await release()
        await setHidden(second, true)
      })
      const { approval_id } = yield* ask("unseen")
      yield* Effect.promise(async () => {
        await page.waitForFunction(() => shown.length === 1)
        assert.deepStrictEqual(
          await page.evaluate(() => shown.map(({ body, title }) => `${title}: ${body}`)),
          ["Approval: payments.refund: Refund 1,290 EUR"]
        )
        assert.deepStrictEqual(await second.evaluate(() => shown), [])
        await page.evaluate(() => shown[0]?.click())
        await page.waitForURL(`**/console/approvals/${approval_id}`)
        assert.isTrue(await page.evaluate(() => shown[0]?.closed))
      })
      const { approval_id: last } = yield* ask("decided elsewhere")
      yield* Effect.promise(() => page.waitForFunction(() => shown.length === 2))
      yield* (yield* clientWith(secret)).approvals.decide({
        params: { id: last ?? assert.fail("it waits") },
        payload: { decision: "approve" }
      })
      yield* Effect.promise(async () => {
        await page.waitForFunction(() => shown[1]?.closed)
        await setHidden(page, false)
        await page.getByRole("button", { name: "Desktop notifications" }).click()
        await page.getByRole("button", { name: "Turn off" }).click()
        await page.getByText("They are off in this browser.").waitFor()
      })
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))
})
