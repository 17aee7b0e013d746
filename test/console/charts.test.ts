import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { accessibilityViolations, Browser, openSignedIn, skipWithoutBrowser } from "../support/browser.ts"
import { awaitRestOfHour } from "../support/awaitRestOfHour.ts"
import { seedConsoleOrg } from "../support/seedConsoleOrg.ts"
import { service } from "../support/service.ts"
import { Countersign } from "../../src/testing/index.ts"

const environment = Layer.provideMerge(
  Browser.layer,
  service({ environment: { COUNTERSIGN_NOTIFY_RETRY_SECONDS: "0" } })
)

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("Charts of the console", (it) => {
  const test = skipWithoutBrowser(it)

  test(
    "are read by arrow keys, by pointer and as a table, and print with their colours",
    () =>
      Effect.gen(function* () {
        const { key } = yield* Countersign
        yield* awaitRestOfHour("1 minute")
        const seeded = yield* seedConsoleOrg("charts")
        const admin = yield* key({ preset: "admin" }, "charts")
        const { page, pageErrors } = yield* openSignedIn(admin, `/endpoints/${seeded.endpoint_id}`)
        const chart = page.getByRole("figure", { name: "Attempts per hour" })
        const plot = chart.getByRole("slider")
        yield* Effect.promise(async () => {
          await plot.focus()
          await page.keyboard.press("End")
          assert.match(await chart.locator(".chart-readout").innerText(), /0 succeeded, [1-9]\d* failed/)
          assert.match((await plot.getAttribute("aria-valuetext")) ?? "", /: 0 succeeded, [1-9]\d* failed$/)
          await page.keyboard.press("ArrowLeft")
          assert.match(await chart.locator(".chart-readout").innerText(), /0 succeeded, 0 failed/)
          await page.keyboard.press("Escape")
          assert.match(await chart.locator(".chart-readout").innerText(), /^0 % of/)

          const box = await plot.boundingBox()
          assert.isNotNull(box)
          await page.mouse.move((box?.x ?? 0) + 6, (box?.y ?? 0) + 40)
          assert.match(await chart.locator(".chart-readout").innerText(), /0 succeeded, 0 failed/)
          await page.mouse.move(0, 0)

          await chart.locator("summary").click()
          assert.strictEqual(await chart.locator("tbody tr").count(), 48)
          assert.match(await chart.locator("tbody tr").last().innerText(), /0\s+[1-9]/)
        })
        assert.deepStrictEqual(yield* accessibilityViolations(page), [])
        yield* Effect.promise(async () => {
          await page.emulateMedia({ media: "print" })
          const failed = chart.locator(".chart-fill.tone-bad").first()
          assert.isTrue(await failed.isVisible())
          assert.strictEqual(
            await failed.evaluate((segment) => getComputedStyle(segment).printColorAdjust),
            "exact"
          )
        })
        assert.deepStrictEqual(pageErrors, [])
      }),
    120_000
  )
})
