import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { Countersign } from "../../src/testing/index.ts"
import { Browser, horizontalOverflow, openSignedIn, skipWithoutBrowser } from "../support/browser.ts"
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
          await page.waitForURL(/\/approvals\?tab=closed$/)
          await page.goBack()
          await page.waitForURL(/\?period=30d$/)
        })
        assert.deepStrictEqual(pageErrors, [])
      }),
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
