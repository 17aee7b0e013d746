import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import { Browser, horizontalOverflow, openSignedIn, skipWithoutBrowser } from "../support/browser.ts"
import { awaitRestOfHour } from "../support/awaitRestOfHour.ts"
import { seedConsoleOrg } from "../support/seedConsoleOrg.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(
  Browser.layer,
  service({ environment: { COUNTERSIGN_NOTIFY_RETRY_SECONDS: "0" } })
)

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("Overview page", (it) => {
  const test = skipWithoutBrowser(it)

  test(
    "the start page shows the figures of the organization, and each leads to its list",
    () =>
      Effect.gen(function* () {
        const { key } = yield* Countersign
        yield* seedConsoleOrg("start")
        const { page, pageErrors } = yield* openSignedIn(yield* key({}, "start"), "")
        yield* Effect.promise(async () => {
          await page.waitForURL(/\/console\/overview$/)
          const approvals = page.getByRole("region", { name: "Approvals" })
          const figure = (name: string) => approvals.getByRole("link", { name })
          await figure("Pending now 1").waitFor()
          await figure("Decided by people 1").waitFor()
          await approvals.getByRole("row", { name: /^payments\.refund 1 0 0$/ }).waitFor()
          await approvals.getByRole("row", { name: /^Ada Lovelace 1 0$/ }).waitFor()
          const answers = page.getByRole("region", { name: "Answers" })
          await answers.getByRole("link", { name: /^Feedback [1-9]/ }).waitFor()
          const deliveries = page.getByRole("region", { name: "Webhook deliveries" })
          await deliveries.getByRole("row", { name: /127\.0\.0\.1:9/ }).waitFor()
          await page.getByText("Days are in UTC").waitFor()

          await page.getByRole("button", { name: "30 days" }).click()
          await page.waitForURL(/\?period=30d$/)
          await page.reload()
          await approvals.getByRole("figure", { name: "Decisions per day" }).locator("summary").click()
          assert.strictEqual(
            await approvals.getByRole("figure", { name: "Decisions per day" }).locator("tbody tr").count(),
            30
          )
          await figure("Decided by people 1").click()
          await page.waitForURL(/\/approvals\?tab=closed&.*outcome=decided$/)
          await page.goBack()
          await page.waitForURL(/\?period=30d$/)
        })
        assert.deepStrictEqual(pageErrors, [])
      }),
    120_000
  )

  test(
    "a number leads to the list with exactly its records, and a day to those of the day",
    () =>
      Effect.gen(function* () {
        const { client, key } = yield* Countersign
        // Days end with hours.
        yield* awaitRestOfHour("1 minute")
        const at = yield* seedConsoleOrg("exact")
        const agent = yield* client({ preset: "runtime" }, "exact")
        const ben = yield* client({ preset: "reviewer", name: "Ben" }, "exact")
        const { session_id } = yield* agent.sessions.create({})
        for (const [tool, decision] of [
          ["mail.send", "approve"],
          ["mail.send", "reject"],
          ["disk.wipe", "reject"]
        ] as const) {
          const { approval_id } = yield* agent.sessions.step({
            params: { id: session_id },
            payload: { step_id: StepId.make(`${tool} ${decision}`), tool, action_class: "write" }
          })
          yield* ben.approvals.decide({
            params: { id: approval_id ?? assert.fail("the step waits for a person") },
            payload: { decision }
          })
        }
        const admin = yield* client({}, "exact")
        for (const score of [1, -1, -1] as const) {
          const run = yield* admin.tasks.run({
            params: { id: at.task_id },
            payload: { input: { text: "one more" }, answer: { category: "other" } }
          })
          yield* admin.feedback.create({ payload: { inference_log_id: run.trace_id, score } })
        }
        const { page, pageErrors } = yield* openSignedIn(yield* key({}, "exact"), "/overview")
        const closed = page.locator(".decided-row")
        const back = async () => {
          await page.goBack()
          await page.getByRole("row", { name: /^mail\.send/ }).waitFor()
        }
        const lists = async (rows: string, count: number) => {
          await page.waitForFunction(
            ([selector, wanted]) => document.querySelectorAll(selector).length === wanted,
            [rows, count] as const
          )
        }
        yield* Effect.promise(async () => {
          const tool = page.getByRole("row", { name: /^mail\.send 1 1 0$/ })
          await tool.getByRole("link", { name: "mail.send" }).click()
          await lists(".decided-row", 2)
          await back()
          await tool.getByRole("link", { name: "1" }).nth(1).click()
          await closed.filter({ hasText: "Rejected" }).waitFor()
          await lists(".decided-row", 1)
          assert.strictEqual(await page.getByLabel("Tool", { exact: true }).inputValue(), "mail.send")
          await back()
          await page
            .getByRole("row", { name: /^Ben 1 2$/ })
            .getByRole("link", { name: "Ben" })
            .click()
          await lists(".decided-row", 3)
          await page.getByRole("button", { name: /^Only by Ben/ }).click()
          await lists(".decided-row", 4)
          await page.goBack()
          await lists(".decided-row", 3)
          await back()

          // The newest day, with the keyboard: End selects it, Enter opens its list.
          const days = page.getByRole("slider", { name: "Decisions per day" })
          await days.focus()
          await page.keyboard.press("End")
          await page.keyboard.press("Enter")
          await lists(".decided-row", 4)
          await back()
          await days.focus()
          await page.keyboard.press("Home")
          await page.keyboard.press("Enter")
          await page.getByText("No closed approvals match").waitFor()
          await back()

          const feedback = page.getByRole("link", { name: /^Feedback \d/ })
          const count = Number(/\d+/.exec(await feedback.innerText())?.[0])
          await feedback.click()
          await lists("section[aria-label=Feedback] li", count)
          await page.getByLabel("Score", { exact: true }).selectOption({ label: "Positive" })
          await page.waitForURL(/score=1/)
          await page.goBack()
          await back()

          const failed = page.getByRole("link", { name: /^Failed \d/ })
          const deliveries = Number(/\d+/.exec(await failed.innerText())?.[0])
          await failed.click()
          await page.getByRole("button", { name: "Failed", pressed: true }).waitFor()
          await lists("li.delivery", deliveries)
        })
        assert.deepStrictEqual(pageErrors, [])
      }).pipe(Effect.scoped, Effect.orDie),
    120_000
  )

  test(
    "a section is shown only to keys that can read its lists",
    () =>
      Effect.gen(function* () {
        const { key } = yield* Countersign
        const requested: Array<string> = []
        const { page } = yield* openSignedIn(yield* key({ preset: "integration" }, "sections"), "")
        page.on("request", (request) => requested.push(request.url()))
        yield* Effect.promise(async () => {
          await page.waitForURL(/\/console\/overview$/)
          await page.reload()
          await page.getByRole("link", { name: /^Agreement/ }).waitFor()
          assert.strictEqual(await page.getByRole("region", { name: "Approvals" }).count(), 0)
          assert.strictEqual(await page.getByRole("region", { name: "Webhook deliveries" }).count(), 0)
        })
        assert.isTrue(requested.some((url) => url.includes("/overview/feedback")))
        assert.isFalse(requested.some((url) => /\/overview\/(approvals|deliveries)/.test(url)))
      }),
    120_000
  )

  test(
    "the page fits a phone, and prints without its navigation",
    () =>
      Effect.gen(function* () {
        const { key } = yield* Countersign
        yield* seedConsoleOrg("narrow")
        const { page } = yield* openSignedIn(yield* key({}, "narrow"), "/overview", {
          viewport: { width: 390, height: 844 }
        })
        yield* Effect.promise(async () => {
          await page.getByRole("figure", { name: "Deliveries per day" }).waitFor()
          assert.strictEqual(await horizontalOverflow(page), 0)
          await page.emulateMedia({ media: "print" })
          assert.isFalse(await page.getByRole("navigation", { name: "Main" }).isVisible())
          assert.isTrue(await page.getByRole("figure", { name: "Deliveries per day" }).isVisible())
        })
      }),
    120_000
  )
})
