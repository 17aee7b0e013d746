import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { accessibilityViolations, Browser, openPage, skipWithoutBrowser } from "../support/browser.ts"
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
})
