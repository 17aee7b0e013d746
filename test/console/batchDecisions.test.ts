import { assert, describe, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import type { Page } from "playwright-core"
import { MAX_COMPARED_BYTES } from "../../src/api/Console.ts"
import { type ApprovalId, StepId } from "../../src/domain/Ids.ts"
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

interface RequestedStep {
  readonly id: string
  readonly tool?: string
  readonly arguments?: object
}

/** Requests approvals in one session, in order of their deadlines; returns their ids. */
const requestApprovals = (organization: string, steps: ReadonlyArray<RequestedStep>) =>
  Effect.gen(function* () {
    const { client } = yield* Countersign
    const agent = yield* client({ preset: "runtime", name: "support agent" }, organization)
    const { session_id } = yield* agent.sessions.create({})
    return yield* Effect.forEach(
      steps,
      ({ arguments: given = { order: "4711" }, id, tool = "payments.refund" }) =>
        Effect.map(
          agent.sessions.step({
            params: { id: session_id },
            payload: {
              step_id: StepId.make(id),
              tool,
              action_class: "write",
              arguments: JSON.parse(JSON.stringify(given))
            }
          }),
          ({ approval_id }) => approval_id ?? assert.fail("the step waits for a person")
        )
    )
  })

/** Decides an approval as another reviewer. */
const decideAs = (name: string, organization: string, id: ApprovalId, decision: "approve" | "reject") =>
  Effect.gen(function* () {
    const { client } = yield* Countersign
    const other = yield* client({ preset: "reviewer", name }, organization)
    yield* other.approvals.decide({ params: { id }, payload: { decision } })
  })

const statusesOf = (organization: string, ids: ReadonlyArray<ApprovalId>) =>
  Effect.gen(function* () {
    const { client } = yield* Countersign
    const reader = yield* client({ preset: "reviewer", name: "Reader" }, organization)
    return yield* Effect.forEach(ids, (id) =>
      Effect.map(reader.approvals.get({ params: { id } }), ({ comment, status }) => [status, comment])
    )
  })

const sheetOf = (page: Page) => page.getByRole("dialog")

/** Clicks the checkbox of an approval's row. */
const check = (page: Page, tool: string | RegExp) =>
  page.getByRole("option", { name: tool }).first().locator(".row-check").click()

/** Shows everything in the sheet that was not on the screen. */
const showAll = async (page: Page) => {
  const rest = sheetOf(page).getByRole("button", { name: "Show the rest" })
  const approve = sheetOf(page).getByRole("button", { name: /^Approve/ })
  for (let clicks = 0; clicks < 200; clicks++) {
    await rest.or(approve).first().waitFor()
    if ((await approve.count()) > 0) return
    await rest.click()
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => resolve(null))))
  }
  assert.fail("the sheet does not end")
}

/** Pixels by which the open sheet is wider than itself. */
const sheetOverflow = (page: Page): Promise<unknown> =>
  page.evaluate(
    `{ const sheet = document.querySelector(".dialog.sheet"); sheet.scrollWidth - sheet.clientWidth }`
  )

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })(
  "Deciding several approvals",
  (it) => {
    const test = skipWithoutBrowser(it)

    describe("by keyboard", () => {
      test("a reviewer selects three, sees what differs, and approves them with one comment", () =>
        Effect.gen(function* () {
          const ids = yield* requestApprovals("keyboard", [
            { id: "refund-1", arguments: { currency: "EUR", amount: 1290, order: { id: "4711" } } },
            { id: "refund-2", arguments: { currency: "EUR", amount: 1150, order: { id: "4712" } } },
            { id: "refund-3", arguments: { currency: "EUR", amount: 12900, order: { id: "4713" } } },
            { id: "mail-1", tool: "mail.send" }
          ])
          const { key } = yield* Countersign
          const opened = yield* openSignedIn(
            yield* key({ preset: "reviewer", name: "Ada" }, "keyboard"),
            "/approvals"
          )
          const { page: inbox } = opened
          yield* Effect.promise(async () => {
            await inbox.getByRole("option", { name: /mail\.send/ }).waitFor()
            await inbox.keyboard.press("j")
            await inbox.getByRole("heading", { name: "payments.refund" }).waitFor()
            await inbox.keyboard.press("x")
            await inbox.getByText("1 selected").waitFor()
            await inbox.getByRole("button", { name: "Select all listed" }).click()
            await inbox.getByText("4 selected").waitFor()
            await inbox.keyboard.press("Escape")
            await inbox.getByText("4 selected").waitFor({ state: "detached" })
            // The range grows with the arrows, and X extends it as well.
            await inbox.keyboard.press("Shift+ArrowDown")
            await inbox.getByText("2 selected").waitFor()
            await inbox.keyboard.press("j")
            await inbox.keyboard.press("Shift+X")
            await inbox.getByText("3 selected").waitFor()
            assert.strictEqual(
              await inbox.getByRole("listbox").getByRole("option", { selected: true }).count(),
              3
            )
            await inbox.keyboard.press("a")
            const sheet = sheetOf(inbox)
            await sheet.getByRole("heading", { name: "Decide 3 approvals" }).waitFor()
            // Equal values once, different ones in a row per approval with the tenfold amount on top.
            await sheet.getByRole("definition").getByText(`"EUR"`).waitFor()
            assert.strictEqual(await sheet.getByText(`"EUR"`).count(), 1)
            const refunds = sheet.getByRole("table", { name: "payments.refund" })
            await refunds.getByRole("row").nth(1).getByText("12900").waitFor()
            await refunds.getByRole("row").nth(1).getByText("10 times the others").waitFor()
            await refunds.getByRole("row").nth(1).getByText("refund-3").waitFor()
            assert.strictEqual(await refunds.getByText("10 times the others").count(), 1)
            await refunds.getByRole("columnheader", { name: "/order/id" }).waitFor()
            await sheet.getByText("support agent").waitFor()
            await sheet.getByText("1 value stands out").waitFor()
          })
          assert.deepStrictEqual(yield* accessibilityViolations(inbox), [])
          yield* Effect.promise(async () => {
            const sheet = sheetOf(inbox)
            await showAll(inbox)
            for (let presses = 0; presses < 30; presses++) {
              if (await inbox.evaluate("document.activeElement.tagName === 'TEXTAREA'")) break
              await inbox.keyboard.press("Tab")
            }
            // A key that has a meaning on the page has none in the sheet.
            await inbox.keyboard.type("Checked with the depot")
            await inbox.keyboard.press("Tab")
            await inbox.keyboard.press("Enter")
            await sheet.getByText("3 decided").waitFor()
            assert.strictEqual(await sheet.getByText("Approved by Ada").count(), 3)
          })
          assert.deepStrictEqual(yield* accessibilityViolations(inbox), [])
          yield* Effect.promise(async () => {
            await inbox.keyboard.press("Escape")
            await sheetOf(inbox).waitFor({ state: "detached" })
            await inbox.getByText("Pending 1").waitFor()
            assert.strictEqual(await inbox.getByText(/\d selected/).count(), 0)
            // The focus is on the list, so that the keys go on working there.
            await inbox.waitForFunction(() => document.activeElement?.getAttribute("role") === "listbox")
          })
          assert.deepStrictEqual(yield* statusesOf("keyboard", ids), [
            ...Array.from({ length: 3 }, () => ["approved", "Checked with the depot"]),
            ["pending", null]
          ])
          assert.deepStrictEqual(opened.pageErrors, [])
        }).pipe(Effect.scoped, Effect.orDie))
    })

    describe("with others at work", () => {
      test("an approval that another reviewer decides leaves the selection visibly, also while the sheet is open", () =>
        Effect.gen(function* () {
          const { key } = yield* Countersign
          const [first, second, third] = yield* requestApprovals("meanwhile", [
            { id: "1", tool: "payments.refund" },
            { id: "2", tool: "mail.send" },
            { id: "3", tool: "crm.update" }
          ])
          const { page } = yield* openSignedIn(
            yield* key({ preset: "reviewer", name: "Ada" }, "meanwhile"),
            "/approvals"
          )
          yield* Effect.promise(async () => {
            for (const tool of [/payments/, /mail/, /crm/]) await check(page, tool)
            await page.getByText("3 selected").waitFor()
          })
          yield* decideAs("Grace", "meanwhile", second!, "reject")
          yield* Effect.promise(async () => {
            await page.getByText("2 selected").waitFor()
            await page.getByText("mail.send is no longer selected: Rejected by Grace").waitFor()
            await page.getByRole("button", { name: /Review and decide/ }).click()
            await sheetOf(page).getByRole("heading", { name: "Decide 2 approvals" }).waitFor()
            await sheetOf(page).getByRole("button", { name: "Reject 2" }).waitFor()
          })
          yield* decideAs("Heidi", "meanwhile", third!, "approve")
          yield* Effect.promise(async () => {
            const sheet = sheetOf(page)
            await sheet.getByText("crm.update is no longer selected: Approved by Heidi").waitFor()
            await sheet.getByRole("button", { name: "Reject 1" }).click()
            await sheet.getByText("1 decided").waitFor()
            await sheet.getByText("Rejected by Ada").waitFor()
            await sheet.getByRole("button", { name: "Close" }).click()
            await page.getByRole("button", { name: "Dismiss" }).click()
            await page.getByText("is no longer selected").first().waitFor({ state: "detached" })
          })
          assert.deepStrictEqual(
            (yield* statusesOf("meanwhile", [first!, second!, third!])).map(([status]) => status),
            ["rejected", "rejected", "approved"]
          )
        }).pipe(Effect.scoped, Effect.orDie))

      test("without the event stream, the results say which approval another reviewer decided first, and how", () =>
        Effect.gen(function* () {
          const { key } = yield* Countersign
          const [, second] = yield* requestApprovals("stale", [
            { id: "1", tool: "payments.refund" },
            { id: "2", tool: "mail.send" },
            { id: "3", tool: "crm.update" }
          ])
          const { page } = yield* openSignedIn(
            yield* key({ preset: "reviewer", name: "Ada" }, "stale"),
            "/feedback"
          )
          yield* Effect.promise(async () => {
            await page.route("**/console/inbox/stream?*", (route) => route.abort())
            await page.goto("/console/approvals")
            for (const tool of [/payments/, /mail/, /crm/]) await check(page, tool)
            await page.getByRole("button", { name: /Review and decide/ }).click()
            await showAll(page)
          })
          yield* decideAs("Grace", "stale", second!, "reject")
          yield* Effect.promise(async () => {
            const sheet = sheetOf(page)
            await sheet.getByRole("button", { name: "Approve 3" }).click()
            await sheet.getByText("2 decided, 1 ended before").waitFor()
            await sheet
              .getByRole("listitem")
              .filter({ hasText: "mail.send" })
              .getByText("Ended before: Rejected by Grace")
              .waitFor()
          })
        }).pipe(Effect.scoped, Effect.orDie))

      test("what this key may not decide stays selected, and an approval of a quorum waits for others", () =>
        Effect.gen(function* () {
          const { client, clientWith, key } = yield* Countersign
          const admin = yield* client({ name: "owner" }, "refused")
          yield* admin.approvalRules.replace({
            payload: {
              rules: [
                { tool: "payments.*", effect: "require_approval", quorum: [{ count: 2 }] },
                { effect: "require_approval" }
              ]
            }
          })
          const both = yield* key({ preset: "admin", name: "Both" }, "refused")
          const own = yield* clientWith(both)
          const { session_id } = yield* own.sessions.create({})
          yield* own.sessions.step({
            params: { id: session_id },
            payload: { step_id: StepId.make("own"), tool: "crm.update", action_class: "write" }
          })
          yield* requestApprovals("refused", [{ id: "pay" }, { id: "mail", tool: "mail.send" }])
          const { page } = yield* openSignedIn(both, "/approvals?show=all")
          yield* Effect.promise(async () => {
            for (const tool of [/payments/, /mail/, /crm/]) await check(page, tool)
            await page.getByRole("button", { name: /Review and decide/ }).click()
            const sheet = sheetOf(page)
            await sheet.getByText("requested by this API key").waitFor()
            await showAll(page)
            await sheet.getByRole("button", { name: "Approve 3" }).click()
            const results = sheet.getByRole("list", { name: "Results" }).getByRole("listitem")
            await results
              .filter({ hasText: "payments.refund" })
              .getByText("Your approval counts: 1 of 2")
              .waitFor()
            await results.filter({ hasText: "mail.send" }).getByText("Approved by Both").waitFor()
            await results
              .filter({ hasText: "crm.update" })
              .getByText(/cannot decide/)
              .waitFor()
            await sheet.getByText("It stays selected.").waitFor()
            await page.keyboard.press("Escape")
            await page.getByText("1 selected").waitFor()
            const selected = page.getByRole("listbox").getByRole("option", { selected: true })
            assert.deepStrictEqual(await selected.count(), 1)
            await selected.getByText("crm.update").waitFor()
            await page
              .getByRole("option", { name: /payments/ })
              .getByText("1 of 2")
              .waitFor()
          })
        }).pipe(Effect.scoped, Effect.orDie))
    })

    describe("approvals of many sessions", () => {
      test("each is named by its ticket, the odd one is marked in its row, and is left out by its checkbox", () =>
        Effect.gen(function* () {
          const { client, key } = yield* Countersign
          const agent = yield* client({ preset: "runtime", name: "support agent" }, "tickets")
          const ids = yield* Effect.forEach([1, 2, 3, 4, 5, 6, 7, 8], (number) =>
            Effect.gen(function* () {
              const { session_id } = yield* agent.sessions.create({
                payload: { metadata: { ticket: `SUP-${number}` } }
              })
              const { approval_id } = yield* agent.sessions.step({
                params: { id: session_id },
                payload: {
                  step_id: StepId.make("refund-1"),
                  tool: "payments.refund",
                  action_class: "write",
                  arguments: { amount_cents: number === 5 ? 990_000 : 1_000 + number, currency: "EUR" }
                }
              })
              return approval_id ?? assert.fail("the step waits for a person")
            })
          )
          const { page, pageErrors } = yield* openSignedIn(
            yield* key({ preset: "reviewer", name: "Ada" }, "tickets"),
            "/approvals"
          )
          const sheet = sheetOf(page)
          const row = (name: RegExp) => sheet.getByRole("row", { name })
          yield* Effect.promise(async () => {
            await page.getByRole("listbox").getByRole("option").nth(7).waitFor()
            await page.keyboard.press("j")
            await page.keyboard.press("x")
            await page.getByRole("button", { name: "Select all listed" }).click()
            await page.keyboard.press("a")
            await sheet.getByText("1 value stands out").waitFor()
            await row(/SUP-5/).getByText("10 times the others").waitFor()
            await row(/SUP-5/).getByText("990000").waitFor()
            assert.strictEqual(await row(/SUP-4/).getByText("10 times").count(), 0)
            assert.strictEqual(await row(/SUP-4/).getByText("1004").count(), 1)
            await row(/SUP-5/).getByRole("checkbox").uncheck()
            await sheet.getByRole("heading", { name: "Decide 7 approvals" }).waitFor()
            await showAll(page)
          })
          assert.deepStrictEqual(yield* accessibilityViolations(page), [])
          yield* Effect.promise(async () => {
            await sheet.getByRole("button", { name: "Approve 7" }).click()
            await sheet.getByText("7 decided").waitFor()
            await sheet.getByRole("listitem").filter({ hasText: "SUP-4" }).waitFor()
            assert.strictEqual(await sheet.getByRole("listitem").filter({ hasText: "SUP-5" }).count(), 0)
          })
          assert.deepStrictEqual(
            (yield* statusesOf("tickets", ids)).map(([status]) => status),
            [1, 2, 3, 4, 5, 6, 7, 8].map((number) => (number === 5 ? "pending" : "approved"))
          )
          assert.deepStrictEqual(pageErrors, [])
        }).pipe(Effect.scoped, Effect.orDie))

      test("an approval is opened from the sheet, and the selection is still there", () =>
        Effect.gen(function* () {
          const { key } = yield* Countersign
          yield* requestApprovals("open", [{ id: "1" }, { id: "2", tool: "mail.send" }])
          const { page } = yield* openSignedIn(
            yield* key({ preset: "reviewer", name: "Ada" }, "open"),
            "/approvals"
          )
          yield* Effect.promise(async () => {
            for (const tool of [/payments/, /mail/]) await check(page, tool)
            await page.getByRole("button", { name: /Review and decide/ }).click()
            await sheetOf(page)
              .getByRole("link", { name: /^Open mail\.send/ })
              .click()
            await sheetOf(page).waitFor({ state: "detached" })
            await page.getByRole("heading", { name: "mail.send" }).waitFor()
            await page.getByText("2 selected").waitFor()
          })
        }).pipe(Effect.scoped, Effect.orDie))
    })

    describe("unseen arguments", () => {
      test("are approved only after each part was opened and on the screen, and rejected without", () =>
        Effect.gen(function* () {
          const { key } = yield* Countersign
          const long = "W".repeat(MAX_COMPARED_BYTES)
          yield* requestApprovals("large", [
            { id: "small" },
            { id: "big", arguments: { order: "4711", note: `${long} the end` } }
          ])
          const { page } = yield* openSignedIn(
            yield* key({ preset: "reviewer", name: "Ada" }, "large"),
            "/approvals"
          )
          yield* Effect.promise(async () => {
            await page.getByRole("listbox").getByRole("option").nth(1).waitFor()
            await page.keyboard.press("j")
            await page.keyboard.press("Shift+ArrowDown")
            await page.keyboard.press("a")
            const sheet = sheetOf(page)
            await sheet.getByRole("button", { name: "Reject 2" }).waitFor()
            assert.strictEqual(await sheet.getByRole("button", { name: /^Approve/ }).count(), 0)
            await sheet.getByRole("button", { name: /^Show arguments.* of .*big/ }).click()
            await sheet.getByRole("button", { name: /show all 16,392 characters/ }).waitFor()
            // The page never says that a person knows something.
            assert.isFalse(await sheet.getByRole("checkbox", { name: "I know these arguments" }).isChecked())
            assert.strictEqual(await sheet.getByRole("button", { name: /^Approve/ }).count(), 0)
            await sheet.getByText("1 part is not shown").waitFor()
            // What is scrolled to the end stays under the pointer.
            const height = async () => (await sheet.locator("form").last().boundingBox())?.height
            const unread = await height()
            await showAll(page)
            assert.strictEqual(await height(), unread)
            await sheet.getByText("the end").waitFor()
            assert.isFalse(await sheet.getByRole("checkbox", { name: "I know these arguments" }).isChecked())
          })
          assert.deepStrictEqual(yield* accessibilityViolations(page), [])
          yield* Effect.promise(async () => {
            const sheet = sheetOf(page)
            await sheet.getByRole("button", { name: "Approve 2" }).click()
            await sheet.getByText("2 decided").waitFor()
          })
        }).pipe(Effect.scoped, Effect.orDie))

      test("are approved without if a person says to know them, or leaves their approval out", () =>
        Effect.gen(function* () {
          const { key } = yield* Countersign
          const long = "W".repeat(MAX_COMPARED_BYTES)
          yield* requestApprovals("known", [
            { id: "small" },
            { id: "big", arguments: { order: "4711", note: long } },
            { id: "other", arguments: { order: "4712", note: long } }
          ])
          const { page } = yield* openSignedIn(
            yield* key({ preset: "reviewer", name: "Ada" }, "known"),
            "/approvals"
          )
          yield* Effect.promise(async () => {
            await page.getByRole("listbox").getByRole("option").nth(2).waitFor()
            await page.keyboard.press("j")
            await page.keyboard.press("Shift+ArrowDown")
            await page.keyboard.press("Shift+ArrowDown")
            await page.keyboard.press("a")
            const sheet = sheetOf(page)
            await sheet.getByText("2 parts are not shown").waitFor()
            await sheet.getByRole("checkbox", { name: /^I know the arguments of all 2/ }).check()
            await showAll(page)
            await sheet.getByRole("button", { name: "Approve 3" }).waitFor()
            await sheet.getByRole("checkbox", { name: "I know these arguments" }).first().uncheck()
            await sheet.getByText("1 part is not shown").waitFor()
            await sheet.getByRole("checkbox", { name: "Selected: payments.refund big" }).uncheck()
            await sheet.getByRole("button", { name: "Approve 2" }).click()
            await sheet.getByText("2 decided").waitFor()
          })
        }).pipe(Effect.scoped, Effect.orDie))

      test("rows of the comparison that were never on the screen keep Approve away", () =>
        Effect.gen(function* () {
          const { key } = yield* Countersign
          yield* requestApprovals(
            "rows",
            Array.from({ length: 60 }, (_, index) => ({ id: `step-${index}`, arguments: { amount: index } }))
          )
          const { page } = yield* openSignedIn(
            yield* key({ preset: "reviewer", name: "Ada" }, "rows"),
            "/approvals"
          )
          yield* Effect.promise(async () => {
            await page.getByRole("listbox").getByRole("option").first().waitFor()
            await page.keyboard.press("j")
            await page.keyboard.press("x")
            await page.getByRole("button", { name: "Select all listed" }).click()
            await page.keyboard.press("a")
            const sheet = sheetOf(page)
            await sheet.getByText("There is more below").waitFor()
            assert.strictEqual(await sheet.getByRole("button", { name: /^Approve/ }).count(), 0)
            // The end alone is not all.
            await page.locator(".dialog.sheet").evaluate((dialog) => dialog.scrollTo(0, dialog.scrollHeight))
            await sheet.getByText("There is more below").waitFor()
            await showAll(page)
            await sheet.getByRole("button", { name: "Approve 60" }).click()
            await sheet.getByText("60 decided").waitFor()
          })
        }).pipe(Effect.scoped, Effect.orDie))
    })

    describe("on a phone", () => {
      test("approvals are selected by touch or in their own view, and the sheet fits", () =>
        Effect.gen(function* () {
          const { key } = yield* Countersign
          yield* requestApprovals("phone", [
            {
              id: "a-rather-long-name-of-a-step-without-any-space-1",
              arguments: { amount: 1, note: "x".repeat(300) }
            },
            {
              id: "a-rather-long-name-of-a-step-without-any-space-2",
              arguments: { amount: 2, note: "y".repeat(300) }
            },
            { id: "3", tool: "a.tool.with.a.very.long.name.that.does.not.fit.on.a.phone" }
          ])
          const { page } = yield* openSignedIn(
            yield* key({ preset: "reviewer", name: "Ada" }, "phone"),
            "/approvals",
            { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true }
          )
          yield* Effect.promise(async () => {
            await page
              .getByRole("option", { name: /payments/ })
              .first()
              .locator(".row-check")
              .tap()
            await page
              .getByRole("option", { name: /payments/ })
              .last()
              .locator(".row-check")
              .tap()
            await page.getByRole("option", { name: /very\.long/ }).tap()
            await page.getByRole("button", { name: "Select", exact: true }).tap()
            await page.getByText("3 selected").waitFor()
            assert.strictEqual(await horizontalOverflow(page), 0)
            await page.getByRole("button", { name: /Review and decide/ }).tap()
            await showAll(page)
            await sheetOf(page).getByRole("button", { name: "Approve 3" }).waitFor()
            assert.strictEqual(await sheetOverflow(page), 0)
          })
          assert.deepStrictEqual(yield* accessibilityViolations(page), [])
          yield* Effect.promise(async () => {
            await sheetOf(page).getByRole("button", { name: "Reject 3" }).tap()
            await sheetOf(page).getByText("3 decided").waitFor()
            assert.strictEqual(await sheetOverflow(page), 0)
            await sheetOf(page).getByRole("button", { name: "Close" }).tap()
            await page.getByText("Rejected by Ada").first().waitFor()
          })
        }).pipe(Effect.scoped, Effect.orDie))
    })
  }
)
