import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
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

  test("sends a test request with an API key, to this service only", () =>
    Effect.gen(function* () {
      const { key, url } = yield* Countersign
      const secret = yield* key()
      const { page, pageErrors } = yield* openPage()
      const foreign: Array<string> = []
      page.on("request", (request) => {
        const { origin, protocol } = new URL(request.url())
        if (/^https?:$/.test(protocol) && origin !== url) foreign.push(request.url())
      })
      const { authorization, status } = yield* Effect.promise(async () => {
        await page.goto("/docs")
        await page.getByRole("heading", { name: "Countersign" }).first().waitFor()
        await page.getByPlaceholder(/token/i).first().fill(Redacted.value(secret))
        await page.getByRole("button", { name: "Test Request (get /v1/api-keys)" }).click()
        const answered = page.waitForResponse(
          (response) => new URL(response.url()).pathname === "/v1/api-keys"
        )
        await page.getByRole("button", { name: /^Send/ }).first().click()
        const response = await answered
        return {
          authorization: await response.request().headerValue("authorization"),
          status: response.status()
        }
      })
      assert.strictEqual(status, 200)
      assert.strictEqual(authorization, `Bearer ${Redacted.value(secret)}`)
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
