import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { Countersign } from "../../src/testing/index.ts"
import {
  Browser,
  holdRequest,
  skipWithoutBrowser,
  openPage,
  openSignedIn,
  signInByForm,
  toggleAuditAction
} from "../support/browser.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("API keys page", (it) => {
  const test = skipWithoutBrowser(it)

  test(
    "an API key is created, shown once, usable, and revoked together with its console session, and the audit log records it",
    () =>
      Effect.gen(function* () {
        const { clientWith } = yield* Countersign
        const { pageErrors, page } = yield* openSignedIn({ preset: "admin", name: "Grace" }, "/keys")
        const secret = yield* Effect.promise(async () => {
          await page.getByRole("button", { name: "New key" }).click()
          await page.getByLabel("Name").fill("zero\u200bwidth")
          await page.getByRole("button", { name: "Create key" }).click()
          // Input that violates the API's schema is reported at its field before a request is sent.
          await page.getByLabel("Name").and(page.locator("[aria-invalid]")).waitFor()
          await page.getByLabel("Name").fill("Ada")
          await page.getByLabel(/^Email/).fill("ada@example.com")
          const creating = await holdRequest(page, "**/api-keys")
          await page.getByRole("button", { name: "Create key" }).click()
          await creating.asked
          // The key would be created, and its text shown to nobody.
          await page.keyboard.press("Escape")
          await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).press("Enter")
          creating.answer()
          const shown = page.getByRole("dialog", { name: "New API key" })
          const text = await shown.locator("code").innerText()
          await page.keyboard.press("Escape")
          await shown.getByRole("button", { name: "I have saved it" }).click()
          await page.getByRole("row").filter({ hasText: "ada@example.com" }).getByText("Active").waitFor()
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
          await hers.page.getByLabel("API key").fill("csk_unknown")
          await hers.page.keyboard.press("Enter")
          await hers.page.getByRole("alert").waitFor()
          await signInByForm(hers.page, Redacted.make(secret), "/approvals")
          await hers.page.getByText("No pending approvals").waitFor()
          await page
            .getByRole("row")
            .filter({ hasText: /Ada/ })
            .getByRole("button", { name: "Revoke", exact: true })
            .click()
          await page.getByRole("dialog").getByRole("button", { name: "Revoke", exact: true }).click()
          await page.getByRole("row").filter({ hasText: /Ada/ }).waitFor({ state: "detached" })
          await page.getByRole("button", { name: "Revoked" }).click()
          await page.getByRole("row").filter({ hasText: /Ada/ }).getByText("Revoked").waitFor()
          // Her page notices the revocation by the end of its event stream, without user action.
          await hers.page.getByText("Your session has ended").waitFor()
          await page.getByRole("link", { name: "Audit log" }).click()
          await toggleAuditAction(page, "revoked an API key")
          await page.getByRole("listitem").filter({ hasText: "Grace" }).waitFor()
          assert.strictEqual(await page.getByRole("listitem").getByText("created an API key").count(), 0)
        })
        assert.strictEqual((yield* Effect.flip(ada.approvals.list()))._tag, "INVALID_API_KEY")
        assert.deepStrictEqual([...pageErrors, ...hers.pageErrors], [])
      }).pipe(Effect.scoped, Effect.orDie),
    120_000
  )

  test("the last usable admin key cannot be revoked, and the dialog says why", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const { page } = yield* openSignedIn(yield* key({ name: "The last" }, "last"), "/keys")
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "Revoke", exact: true }).click()
        const dialog = page.getByRole("dialog")
        await dialog.getByRole("button", { name: "Revoke", exact: true }).click()
        await dialog.getByText("Last usable admin key", { exact: true }).waitFor()
        await dialog.getByText("Create another admin key before you revoke it.").waitFor()
        await dialog.getByRole("button", { name: "Cancel" }).click()
        await page.getByRole("row").getByText("Active").waitFor()
      })
    }).pipe(Effect.scoped, Effect.orDie))

  test("revoking a key ends the keys that it created, unless they are kept", () =>
    Effect.gen(function* () {
      const { client, clientWith, key } = yield* Countersign
      const { page } = yield* openSignedIn(yield* key({ name: "Root" }, "made"), "/keys")
      const admin = yield* client({ name: "lister" }, "made")
      const makers = ["left", "moved"] as const
      for (const name of makers) {
        const maker = yield* clientWith(yield* key({ name, scopes: ["keys.write", "tasks.read"] }, "made"))
        yield* maker.apiKeys.create({ payload: { name: `${name}'s key`, scopes: ["tasks.read"] } })
      }
      yield* Effect.promise(async () => {
        await page.reload()
        for (const name of makers) {
          const row = page
            .getByRole("row")
            .filter({ has: page.locator("strong", { hasText: new RegExp(`^${name}$`) }) })
          await row.getByRole("button", { name: "Revoke", exact: true }).click()
          const dialog = page.getByRole("dialog")
          if (name === "moved") await dialog.getByLabel("Keep the API keys that it created").check()
          await dialog.getByRole("button", { name: "Revoke", exact: true }).click()
          await dialog.waitFor({ state: "detached" })
        }
      })
      const { keys } = yield* admin.apiKeys.list({ query: { status: "active" } })
      const names = keys.map(({ name }) => name)
      assert.include(names, "moved's key")
      for (const ended of ["left", "left's key", "moved"]) assert.notInclude(names, ended)
    }).pipe(Effect.scoped, Effect.orDie))

  test("a key that covers no preset can create keys with a selection of its own scopes", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const maker = yield* key({ name: "Maker", scopes: ["keys.write", "tasks.read"] }, "narrow")
      const { page } = yield* openSignedIn(maker, "/keys")
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "New key" }).click()
        await page.getByLabel("Name", { exact: true }).fill("Reader")
        await page.getByLabel("tasks.read").check()
        await page.getByRole("button", { name: "Create key" }).click()
        // The form has the same title as the secret: only the button tells that the key was created.
        await page.getByRole("button", { name: "I have saved it" }).waitFor()
      })
      const { keys } = yield* (yield* client({}, "narrow")).apiKeys.list()
      const made = keys.find(({ name }) => name === "Reader")
      assert.deepStrictEqual(made?.scopes, ["tasks.read"])
    }).pipe(Effect.scoped, Effect.orDie))

  test("a reviewer's key is created with groups, which the list shows, and an invalid group is reported at its field", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const { page } = yield* openSignedIn(yield* key({ name: "Owner" }, "groups"), "/keys")
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "New key" }).click()
        await page.getByLabel("Name").fill("Ben")
        const groups = page.getByLabel("Groups")
        await groups.fill("finance, Le gal")
        await page.getByRole("button", { name: "Create key" }).click()
        await groups.and(page.locator("[aria-invalid]")).waitFor()
        await groups.fill("finance, legal")
        await page.getByRole("button", { name: "Create key" }).click()
        await page.getByRole("button", { name: "I have saved it" }).click()
        await page.getByRole("row").filter({ hasText: "Ben" }).getByText("groups finance, legal").waitFor()
        // Only keys that decide approvals are in groups.
        await page.getByRole("button", { name: "New key" }).click()
        await page.getByLabel(/^runtime/).check()
        await page.getByLabel("Groups").waitFor({ state: "detached" })
      })
      const { keys } = yield* (yield* client({}, "groups")).apiKeys.list()
      assert.deepStrictEqual(keys.find(({ name }) => name === "Ben")?.groups, ["finance", "legal"])
    }).pipe(Effect.scoped, Effect.orDie))

  test("a key is renamed and gets an address that awaits verification, and the audit log says so", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const admin = yield* client({ name: "Owner" }, "edit")
      yield* admin.apiKeys.create({ payload: { name: "Ada", preset: "reviewer", email: "ada@example.com" } })
      yield* admin.apiKeys.create({ payload: { name: "Ben", preset: "reviewer" } })
      const { page, pageErrors } = yield* openSignedIn(yield* key({ name: "Owner" }, "edit"), "/keys")
      yield* Effect.promise(async () => {
        await page.getByRole("row").filter({ hasText: /Ada/ }).getByRole("button", { name: "Edit" }).click()
        const dialog = page.getByRole("dialog", { name: "Edit API key" })
        const save = dialog.getByRole("button", { name: "Save" })
        // Nothing to save yet.
        assert.isTrue(await save.isDisabled())
        await dialog.getByLabel("Name").fill("ben")
        await save.click()
        await dialog.getByLabel("Name").and(page.locator("[aria-invalid]")).waitFor()
        await dialog.getByLabel("Name").fill("Ada Lovelace")
        await dialog.getByLabel(/^Email/).fill("ada@example.org")
        await save.click()
        await page
          .getByRole("row")
          .filter({ hasText: /Ada Lovelace/ })
          .getByText("ada@example.org")
          .waitFor()
        await page.getByRole("link", { name: "Audit log" }).click()
        await page.getByRole("listitem").getByText("changed an API key").waitFor()
      })
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("a key is created with single scopes, which start as those of the preset that was chosen before", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const { page } = yield* openSignedIn(yield* key({ name: "Owner" }, "custom"), "/keys")
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "New key" }).click()
        await page.getByLabel("Name").fill("Log reader")
        await page.getByLabel(/^runtime/).check()
        await page.getByLabel(/^custom/).check()
        await page.getByLabel("tasks.run").uncheck()
        await page.getByLabel("sessions.write").uncheck()
        await page.getByLabel("runs.read").check()
        await page.getByRole("button", { name: "Create key" }).click()
        await page.getByRole("button", { name: "I have saved it" }).click()
        await page.getByRole("row").filter({ hasText: "Log reader" }).getByText("custom").waitFor()
      })
      const { keys } = yield* (yield* client({}, "custom")).apiKeys.list()
      const made = keys.find(({ name }) => name === "Log reader")
      assert.deepStrictEqual(
        [made?.preset, [...(made?.scopes ?? [])].toSorted()],
        [null, ["approvals.read", "runs.read", "sessions.read", "tasks.read"]]
      )
    }).pipe(Effect.scoped, Effect.orDie))

  test("the list of keys is filtered, searched and sorted, and the address keeps that", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const admin = yield* client({ name: "Owner" }, "list")
      for (const name of ["zebra agent", "Alpha agent", "old agent", "Ada"]) {
        const { key: made } = yield* admin.apiKeys.create({ payload: { name, preset: "runtime" } })
        if (name === "old agent") yield* admin.apiKeys.revoke({ params: { id: made.id } })
      }
      const { page, pageErrors } = yield* openSignedIn(yield* key({ name: "Owner" }, "list"), "/keys")
      const names = () => page.locator("tbody tr strong").allInnerTexts()
      const shows = (...expected: ReadonlyArray<string>) =>
        page.waitForFunction(
          (all) =>
            [...document.querySelectorAll<HTMLElement>("tbody tr strong")]
              .map((name) => name.innerText)
              .filter((name) => /agent|Ada/.test(name))
              .join() === all,
          expected.join()
        )
      yield* Effect.promise(async () => {
        await shows("Ada", "Alpha agent", "zebra agent")
        await page.getByLabel("Search keys").fill("AGENT")
        await shows("Alpha agent", "zebra agent")
        await page.getByLabel("Sort by").selectOption("name")
        await page.getByRole("button", { name: "All" }).click()
        await shows("Alpha agent", "old agent", "zebra agent")
        for (const part of ["status=all", "name=AGENT", "order=name"]) assert.include(page.url(), part)
        await page.reload()
        await shows("Alpha agent", "old agent", "zebra agent")
        await page.getByRole("button", { name: "Revoked" }).click()
        await shows("old agent")
        await page.goBack()
        await shows("Alpha agent", "old agent", "zebra agent")
        await page.getByLabel("Search keys").fill("nothing like it")
        await page.getByText("No matching API keys").waitFor()
        assert.deepStrictEqual(await names(), [])
      })
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("a link to a key shows it although its list does not, with the focus", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const admin = yield* client({ name: "Owner" }, "linked")
      const { key: linked } = yield* admin.apiKeys.create({
        payload: { name: "Old agent", preset: "runtime" }
      })
      yield* admin.apiKeys.revoke({ params: { id: linked.id } })
      const { page, pageErrors } = yield* openSignedIn(yield* key({ name: "Owner" }, "linked"), "/rules")
      yield* Effect.promise(async () => {
        await page.keyboard.press("Control+k")
        await page.getByRole("dialog", { name: "Search" }).getByRole("combobox").fill(linked.id)
        await page.getByRole("option", { name: /^API key.*Old agent/ }).waitFor()
        await page.keyboard.press("Enter")
        const selected = page.getByRole("region", { name: "Selected key" })
        await selected.getByRole("row", { name: /Old agent.*Revoked/ }).waitFor()
        await page.waitForFunction(() => document.activeElement?.getAttribute("aria-current") === "true")
        await page.waitForFunction(() => document.title.startsWith("Old agent"))
        await selected.getByRole("button", { name: "Close" }).click()
        await selected.waitFor({ state: "detached" })
        assert.notInclude(page.url(), "key=")
        // A key of another organization, or none.
        await page.goto(`/console/keys?key=key_${"0".repeat(32)}`)
        await selected.getByText("No such key in this organization").waitFor()
      })
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("signed-in browsers are listed, and ending one signs it out", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const { page, pageErrors } = yield* openSignedIn({ preset: "admin", name: "Katherine" }, "/browsers")
      const hers = yield* openPage()
      const secret = yield* key({ preset: "reviewer", name: "Dorothy" })
      yield* Effect.promise(async () => {
        await hers.page.goto("/console/approvals")
        await signInByForm(hers.page, secret, "/approvals")
        await page.getByRole("row").filter({ hasText: "This browser" }).waitFor()
        await page.getByRole("button", { name: "All" }).click()
        const row = page.getByRole("row").filter({ hasText: "Dorothy" })
        await row.getByText("Chrome on Linux").waitFor()
        await row.getByText("from 127.0.0.1").waitFor()
        assert.strictEqual(await row.getByText("This browser").count(), 0)
        await row.getByRole("button", { name: "End session" }).click()
        await page.getByRole("dialog").getByRole("button", { name: "End session" }).click()
        await page.getByText("Session ended").waitFor()
        await row.waitFor({ state: "detached" })
        await hers.page.getByText("Your session has ended").waitFor()
      })
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))
})
