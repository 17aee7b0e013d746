import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { Countersign } from "../../src/testing/index.ts"
import { Browser, openSignedIn, skipWithoutBrowser } from "../support/browser.ts"
import { eventually } from "../support/eventually.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("End-user feedback page", (it) => {
  const test = skipWithoutBrowser(it)

  test("allowed origins are saved, a wrong one is named, and a concurrent change is overwritten only after confirmation", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const admin = yield* client({}, "origins")
      const origins = Effect.map(admin.feedbackSettings.get(), ({ allowed_origins }) => allowed_origins)
      const { page, pageErrors } = yield* openSignedIn(yield* key({}, "origins"), "/end-user-feedback")
      const field = page.getByLabel("Allowed origins")
      const save = page.getByRole("button", { name: "Save" })
      yield* Effect.promise(async () => {
        await field.fill("https://app.example.com\nhttp://other.example.com")
        await save.click()
        await page.getByRole("alert").getByText("#/allowed_origins/1").waitFor()
      })
      assert.deepStrictEqual(yield* origins, [])
      yield* Effect.promise(async () => {
        await field.fill("https://app.example.com\n\n  https://other.example.com ")
        await save.click()
        await page.getByText("Allowed origins saved").waitFor()
      })
      assert.deepStrictEqual(yield* origins, ["https://app.example.com", "https://other.example.com"])

      // The form starts again with what was stored.
      yield* eventually(
        Effect.promise(() => field.inputValue()),
        (text) => text === "https://app.example.com\nhttps://other.example.com"
      )
      yield* Effect.promise(() => field.fill("https://mine.example.com"))
      yield* admin.feedbackSettings.replace({ payload: { allowed_origins: ["https://theirs.example.com"] } })
      yield* Effect.promise(async () => {
        await save.click()
        await page.getByText("The origins changed while you were editing").waitFor()
      })
      assert.deepStrictEqual(yield* origins, ["https://theirs.example.com"])
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "Overwrite with mine" }).click()
        await page.getByText("The origins changed while you were editing").waitFor({ state: "hidden" })
      })
      // The notice is hidden as soon as the request is sent.
      yield* eventually(origins, ([origin]) => origin === "https://mine.example.com")
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("a key that may only read the settings cannot change them", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const admin = yield* client({}, "read origins")
      yield* admin.feedbackSettings.replace({ payload: { allowed_origins: ["https://app.example.com"] } })
      const { page } = yield* openSignedIn(
        yield* key({ scopes: ["org_config.read"] }, "read origins"),
        "/end-user-feedback"
      )
      const field = page.getByLabel("Allowed origins")
      yield* Effect.promise(() => field.waitFor())
      assert.strictEqual(yield* Effect.promise(() => field.inputValue()), "https://app.example.com")
      assert.isFalse(yield* Effect.promise(() => field.isEditable()))
      assert.strictEqual(yield* Effect.promise(() => page.getByRole("button", { name: "Save" }).count()), 0)
    }).pipe(Effect.scoped, Effect.orDie))
})
