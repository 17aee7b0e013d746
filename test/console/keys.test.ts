import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { Countersign } from "../../src/testing/index.ts"
import { Browser, skipWithoutBrowser, openPage, openSignedIn, signInByForm } from "../support/browser.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("keys in a browser", (it) => {
  const test = skipWithoutBrowser(it)

  test(
    "one is made, shown once, works, is revoked with the session it signed in, and the audit log tells of it",
    () =>
      Effect.gen(function* () {
        const { clientWith } = yield* Countersign
        const { faults, page } = yield* openSignedIn({ preset: "admin", name: "Grace" }, "/keys")
        const secret = yield* Effect.promise(async () => {
          await page.getByRole("button", { name: "New key" }).click()
          await page.getByLabel("Name").fill("zero\u200bwidth")
          await page.getByRole("button", { name: "Make the key" }).click()
          // What the contract does not take is said at its field, before anything is sent.
          await page.getByLabel("Name").and(page.locator("[aria-invalid]")).waitFor()
          await page.getByLabel("Name").fill("Ada")
          await page.getByLabel(/^Email/).fill("ada@example.com")
          await page.getByRole("button", { name: "Make the key" }).click()
          const shown = page.getByRole("dialog", { name: "The new key" })
          const text = await shown.locator("code").innerText()
          await page.keyboard.press("Escape")
          await shown.getByRole("button", { name: "It is kept" }).click()
          await page.getByRole("row").filter({ hasText: "ada@example.com" }).getByText("works").waitFor()
          assert.notInclude(await page.content(), text)
          await page.reload()
          await page.getByRole("row").filter({ hasText: /Ada/ }).waitFor()
          assert.notInclude(await page.content(), text)
          return text
        })
        const ada = yield* clientWith(Redacted.make(secret))
        assert.deepStrictEqual((yield* ada.approvals.list()).approvals, [])
        const hers = yield* openPage()
        yield* Effect.promise(async () => {
          await hers.page.goto("/console/approvals")
          await hers.page.getByLabel("API key").fill("csk_of_nobody")
          await hers.page.keyboard.press("Enter")
          await hers.page.getByRole("alert").waitFor()
          await signInByForm(hers.page, Redacted.make(secret), "/approvals")
          await hers.page.getByText("Nothing waits for you").waitFor()
          await page
            .getByRole("row")
            .filter({ hasText: /Ada/ })
            .getByRole("button", { name: "Revoke" })
            .click()
          await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click()
          await page.getByRole("row").filter({ hasText: /Ada/ }).getByText("revoked").waitFor()
          // Nobody touches her page: the end of its stream tells it.
          await hers.page.getByText("The session is over").waitFor()
          await page.getByRole("link", { name: "Audit log" }).click()
          await page.getByLabel("Show").selectOption("key.revoked")
          await page.getByRole("listitem").filter({ hasText: "Grace" }).waitFor()
          assert.strictEqual(await page.getByRole("listitem").getByText("made a key").count(), 0)
        })
        assert.strictEqual((yield* Effect.flip(ada.approvals.list()))._tag, "INVALID_API_KEY")
        assert.deepStrictEqual([...faults, ...hers.faults], [])
      }).pipe(Effect.scoped, Effect.orDie),
    60_000
  )

  test("the last admin's key is not revoked, and why is said", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const { page } = yield* openSignedIn(yield* key({ name: "The last" }, "last"), "/keys")
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "Revoke" }).click()
        const dialog = page.getByRole("dialog")
        await dialog.getByRole("button", { name: "Revoke" }).click()
        await dialog.getByText("This is the last usable admin key").waitFor()
        await dialog.getByRole("button", { name: "Keep it" }).click()
        await page.getByText("works").waitFor()
      })
    }).pipe(Effect.scoped, Effect.orDie))

  test("one that holds no preset whole gives of its scopes what it is told to", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const maker = yield* key({ name: "Maker", scopes: ["keys.write", "tasks.read"] }, "narrow")
      const { page } = yield* openSignedIn(maker, "/keys")
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "New key" }).click()
        await page.getByLabel("Name").fill("Reader")
        await page.getByLabel("tasks.read").check()
        await page.getByRole("button", { name: "Make the key" }).click()
        await page.getByRole("dialog", { name: "The new key" }).waitFor()
      })
      const { keys } = yield* (yield* client({}, "narrow")).api_keys.list()
      const made = keys.find(({ name }) => name === "Reader")
      assert.deepStrictEqual(made?.scopes, ["tasks.read"])
    }).pipe(Effect.scoped, Effect.orDie))
})
