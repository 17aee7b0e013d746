import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Countersign } from "../../src/testing/index.ts"
import {
  accessibilityViolations,
  Browser,
  openPage,
  openSignedIn,
  skipWithoutBrowser
} from "../support/browser.ts"
import { withProvider } from "../support/singleSignOn.ts"

layer(Browser.layer, { excludeTestServices: true, timeout: "120 seconds" })("Single sign-on", (it) => {
  const test = skipWithoutBrowser(it)

  test("a person signs in by the button, lands on the page of the link, and is refused once no group gives access", () =>
    withProvider(
      (provider) =>
        Effect.gen(function* () {
          const { page, pageErrors } = yield* openPage()
          const button = page.getByRole("link", { name: "Sign in with Example ID" })
          yield* Effect.promise(async () => {
            await page.goto("/console/approvals?tab=closed")
            await button.waitFor()
          })
          assert.deepStrictEqual(yield* accessibilityViolations(page), [])
          yield* Effect.promise(async () => {
            await button.click()
            await page.getByText("Ada Lovelace").first().waitFor()
            assert.match(page.url(), /\/console\/approvals\?tab=closed$/)
            // The session lasts over a reload, although its cookie is sent to no other site.
            await page.reload()
            await page.getByText("Ada Lovelace").first().waitFor()
          })
          const other = yield* openPage()
          provider.accounts.set("ada", { name: "Ada Lovelace", groups: [] })
          yield* Effect.promise(async () => {
            await other.page.goto("/console")
            await other.page.getByRole("link", { name: "Sign in with Example ID" }).click()
            await other.page.getByRole("heading", { name: "You are not signed in" }).waitFor()
          })
          assert.deepStrictEqual(yield* accessibilityViolations(other.page), [])
          yield* Effect.promise(async () => {
            // The first browser notices by itself.
            await page.getByText("Your session has ended").waitFor()
            await other.page.getByRole("link", { name: "Back to the sign-in page" }).click()
            await other.page.getByLabel("API key").waitFor()
          })
          assert.deepStrictEqual([...pageErrors, ...other.pageErrors], [])
        }).pipe(Effect.scoped),
      { COUNTERSIGN_OIDC_NAME: "Example ID" }
    ).pipe(Effect.orDie))

  test("people are listed, found by a link, blocked and unblocked", () =>
    withProvider((provider) =>
      Effect.gen(function* () {
        provider.accounts.set("ada", {
          name: "Ada Lovelace",
          email: "ada@example.com",
          groups: ["approvers"]
        })
        const hers = yield* openPage()
        yield* Effect.promise(async () => {
          await hers.page.goto("/console/approvals")
          await hers.page.getByRole("link", { name: /^Sign in with/ }).click()
          await hers.page.getByText("Ada Lovelace").first().waitFor()
        })
        const { key } = yield* Countersign
        yield* key({ name: "Hers", preset: "reviewer" }, "acme")
        const { page, pageErrors } = yield* openSignedIn(yield* key({ name: "Root" }, "acme"), "/people")
        const row = page.getByRole("row").filter({ hasText: "ada@example.com" })
        yield* Effect.promise(async () => {
          await row.getByText("Active").waitFor()
          await row.getByText("group finance").waitFor()
        })
        // As a key that she created: the console asks whether it stays.
        const sql = yield* SqlClient.SqlClient
        yield* sql`
          UPDATE api_keys SET created_by_id = people.key_id, created_by_name = 'Ada'
          FROM people WHERE api_keys.org_id = people.org_id AND api_keys.name = 'Hers'
        `
        yield* Effect.promise(async () => {
          await page.reload()
          await row.getByRole("button", { name: "Block" }).click()
          const keep = page.getByRole("dialog").getByLabel("Keep the API key that they created")
          assert.isFalse(await keep.isChecked())
          await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click()
        })
        assert.deepStrictEqual(yield* accessibilityViolations(page), [])
        yield* Effect.promise(async () => {
          await row.getByRole("button", { name: "Block" }).click()
          await page.getByRole("dialog").getByRole("button", { name: "Block" }).click()
          await row.getByText("by Root").waitFor()
          await hers.page.getByText("Your session has ended").waitFor()
          await page.getByRole("button", { name: "Active" }).click()
          await row.waitFor({ state: "detached" })
          await page.goto("/console/audit?action=person.blocked")
          await page.getByRole("button", { name: /^Details/ }).click()
          await page.getByRole("link", { name: /^key_/ }).click()
          const selected = page.getByRole("region", { name: "Selected person" })
          await selected.getByText("Ada Lovelace").waitFor()
          await selected.getByRole("button", { name: "Unblock" }).click()
          await page.getByRole("dialog").getByRole("button", { name: "Unblock" }).click()
          await selected.getByText("No access").waitFor()
        })
        assert.deepStrictEqual(pageErrors, [])
      }).pipe(Effect.scoped)
    ).pipe(Effect.orDie))
})
