import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { Countersign } from "../../src/testing/index.ts"
import { accessibilityViolations, Browser, openSignedIn, skipWithoutBrowser } from "../support/browser.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("Data page", (it) => {
  const test = skipWithoutBrowser(it)

  test("retention and redaction are saved, and a change by somebody else is not overwritten unasked", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const admin = yield* client({}, "settings")
      const { page, pageErrors } = yield* openSignedIn(yield* key({}, "settings"), "/data")
      const retention = page.getByRole("region", { name: "Retention" })
      const redaction = page.getByRole("region", { name: "Redaction" })
      yield* Effect.promise(async () => {
        await retention.getByLabel("Runs, days").fill("90")
        await retention.getByRole("button", { name: "Save" }).click()
        await page.getByText("Retention saved").waitFor()
        await redaction.getByLabel("IBANs").check()
        await redaction.getByLabel("Patterns").fill("Employee number: EMP-\\d{6}")
        await page.getByLabel("Try the rules above on a text").fill("Ask EMP-123456 about it.")
        await page.getByRole("button", { name: "Try" }).click()
        await page.getByRole("status").filter({ hasText: "[REDACTED" }).waitFor()
        await redaction.getByRole("button", { name: "Save" }).click()
        await page.getByText("Redaction saved").waitFor()
        assert.deepStrictEqual(await Effect.runPromise(accessibilityViolations(page)), [])
      })
      assert.deepInclude(yield* admin.retentionSettings.get(), {
        run_days: 90,
        feedback_days: null,
        session_days: null
      })
      assert.deepInclude(yield* admin.redactionSettings.get(), {
        personal_data: ["iban"],
        patterns: [{ name: "Employee number", pattern: "EMP-\\d{6}" }]
      })
      yield* admin.retentionSettings.replace({ payload: { run_days: 30 } })
      yield* Effect.promise(async () => {
        await retention.getByLabel("Feedback, days").fill("10")
        await retention.getByRole("button", { name: "Save" }).click()
        await retention.getByText("The retention settings changed while you were editing").waitFor()
      })
      assert.deepInclude(yield* admin.retentionSettings.get(), { run_days: 30, feedback_days: null })
      yield* Effect.promise(async () => {
        await retention.getByLabel("Feedback, days").fill("0")
        await page.reload()
        await retention.getByLabel("Runs, days").waitFor()
        assert.strictEqual(await retention.getByLabel("Runs, days").inputValue(), "30")
      })
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("the data of a person is erased after a question, and the list follows the erasure", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const admin = yield* client({}, "erased")
      const agent = yield* client({ preset: "runtime" }, "erased")
      yield* agent.sessions.create({ payload: { metadata: { customer: "Maria" } } })
      const { page, pageErrors } = yield* openSignedIn(yield* key({}, "erased"), "/data")
      const erasure = page.getByRole("region", { name: "Erasure" })
      yield* Effect.promise(async () => {
        await erasure.getByText("Name whose data to erase.").waitFor()
        await erasure.getByLabel("Member", { exact: true }).fill("customer")
        await erasure.getByLabel("Value", { exact: true }).fill("Maria")
        await erasure.getByRole("button", { name: "Erase…" }).click()
        await page.getByRole("dialog").getByRole("button", { name: "Erase" }).click()
        await page.getByText("Erasure requested").waitFor()
        await erasure.getByRole("row", { name: /data by customer/ }).waitFor()
      })
      const { deletions } = yield* admin.deletions.list({ query: {} })
      assert.deepStrictEqual(
        deletions.map(({ kind, metadata_key }) => [kind, metadata_key]),
        [["erasure", "customer"]]
      )
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("a key that may only read sees the settings without a way to change them", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const reader = yield* key({ scopes: ["org_config.read"] }, "reader")
      const { page } = yield* openSignedIn(reader, "/data")
      yield* Effect.promise(async () => {
        await page.getByLabel("Runs, days").waitFor()
        await page.getByLabel("IBANs").waitFor()
        assert.strictEqual(await page.getByRole("button", { name: "Save" }).count(), 0)
        assert.strictEqual(await page.getByRole("region", { name: "Erasure" }).count(), 0)
      })
    }).pipe(Effect.scoped, Effect.orDie))
})
