import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { Countersign } from "../../src/testing/index.ts"
import { Browser, openPage, skipWithoutBrowser } from "../support/browser.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("API reference", (it) => {
  const test = skipWithoutBrowser(it)

  test("renders within its Content Security Policy and without a request to another host", () =>
    Effect.gen(function* () {
      const { url } = yield* Countersign
      const { page, pageErrors } = yield* openPage()
      const foreign: Array<string> = []
      page.on("request", (request) => {
        const { origin, protocol } = new URL(request.url())
        if (/^https?:$/.test(protocol) && origin !== url) foreign.push(request.url())
      })
      yield* Effect.promise(async () => {
        await page.goto("/docs")
        await page.getByRole("heading", { name: "Countersign" }).first().waitFor()
        await page.waitForLoadState("networkidle")
      })
      assert.deepStrictEqual(foreign, [])
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped))

  test("cannot be framed", () =>
    Effect.gen(function* () {
      const { url } = yield* Countersign
      const { page } = yield* openPage()
      const framed = yield* Effect.promise(async () => {
        await page.setContent(`<iframe src="${url}/docs"></iframe>`)
        const frame = page.frames()[1]
        await frame?.waitForLoadState()
        return (await frame?.content()) ?? ""
      })
      assert.notInclude(framed, "api-reference-container")
    }).pipe(Effect.scoped))
})
