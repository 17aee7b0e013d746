import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { Countersign } from "../../src/testing/index.ts"
import { Browser, openPage, skipWithoutBrowser } from "../support/browser.ts"
import { service } from "../support/service.ts"

/** Most script of the sign-in page, in bytes as sent. */
const MAX_SCRIPT = 120_000

const environment = Layer.provideMerge(Browser.layer, service())

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("Sign-in page", (it) => {
  const test = skipWithoutBrowser(it)

  test(
    "loads at most 120 KB of script, in brotli, and the app only for a session",
    () =>
      Effect.gen(function* () {
        const { key } = yield* Countersign
        const { page, pageErrors } = yield* openPage()
        const scripts: Array<{ readonly url: string; readonly bytes: number; readonly coding: string }> = []
        page.on("requestfinished", (request) => {
          if (!new URL(request.url()).pathname.endsWith(".js")) return
          void Promise.all([request.sizes(), request.response()]).then(([{ responseBodySize }, response]) =>
            scripts.push({
              url: request.url(),
              bytes: responseBodySize,
              coding: response?.headers()["content-encoding"] ?? "none"
            })
          )
        })
        const secret = yield* key({ preset: "reviewer" })
        yield* Effect.promise(async () => {
          await page.goto("/console")
          await page.getByLabel("API key").waitFor()
          await page.waitForLoadState("networkidle")
        })
        const total = scripts.reduce((sum, { bytes }) => sum + bytes, 0)
        assert.isAbove(total, 20_000, "the sizes are known")
        assert.isAtMost(total, MAX_SCRIPT, JSON.stringify(scripts))
        assert.deepStrictEqual([...new Set(scripts.map(({ coding }) => coding))], ["br"])
        yield* Effect.promise(async () => {
          await page.getByLabel("API key").fill("csk_wrong")
          await page.getByRole("button", { name: "Sign in" }).click()
          await page.getByRole("alert").waitFor()
          await page.getByLabel("API key").fill(Redacted.value(secret))
          await page.getByRole("button", { name: "Sign in" }).click()
          await page.waitForURL(/\/console\/overview$/)
          assert.isAbove(await page.locator("link[rel=modulepreload]").count(), 0)
          await page.reload()
          await page.getByRole("heading", { name: "Overview" }).waitFor()
        })
        assert.deepStrictEqual(pageErrors, [])
      }),
    120_000
  )
})
