import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import type { Page } from "playwright-core"
import { Browser, openSignedIn, skipWithoutBrowser } from "../support/browser.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

/** The colour behind the page. */
const background = (page: Page) =>
  page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor)

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("Theme", (it) => {
  const test = skipWithoutBrowser(it)

  test("follows the operating system until one is chosen, which a reload keeps", () =>
    Effect.gen(function* () {
      const { pageErrors, page } = yield* openSignedIn({}, "/browsers", { colorScheme: "light" })
      yield* Effect.promise(async () => {
        const light = await background(page)
        await page.getByRole("radio", { name: "Dark" }).check()
        const dark = await background(page)
        assert.notStrictEqual(dark, light)
        await page.reload()
        await page.locator("#content h1").waitFor()
        assert.strictEqual(await background(page), dark)
        await page.getByRole("radio", { name: "System" }).check()
        assert.strictEqual(await background(page), light)
        await page.emulateMedia({ colorScheme: "dark" })
        assert.strictEqual(await background(page), dark)
      })
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))
})
