import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { Countersign } from "../../src/testing/index.ts"
import {
  accessibilityViolations,
  Browser,
  openPage,
  openSignedIn,
  skipWithoutBrowser
} from "../support/browser.ts"
import { mailServer } from "../support/mail.ts"
import { service } from "../support/service.ts"

/** The mail server of the service. */
class Mail extends Context.Service<Mail, Effect.Success<ReturnType<typeof mailServer>>>()("test/Mail") {}

const serviceWithMail = Layer.unwrap(
  Effect.map(Mail, ({ port }) =>
    service({
      environment: {
        COUNTERSIGN_SMTP_URL: `smtp://127.0.0.1:${port}`,
        COUNTERSIGN_MAIL_FROM: "c@example.org",
        COUNTERSIGN_PUBLIC_URL: "https://approvals.example.org"
      }
    })
  )
)

layer(
  Layer.mergeAll(Browser.layer, serviceWithMail).pipe(Layer.provideMerge(Layer.effect(Mail, mailServer()))),
  { excludeTestServices: true, timeout: "120 seconds" }
)("Invitations by email", (it) => {
  const test = skipWithoutBrowser(it)

  test("a colleague is invited, accepts by the link of the email, and signs in with the key that it gives", () =>
    Effect.gen(function* () {
      const server = yield* Mail
      const { key } = yield* Countersign
      const { pageErrors, page } = yield* openSignedIn(yield* key({ name: "Grace" }, "invite"), "/keys")
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "Invite", exact: true }).click()
        const dialog = page.getByRole("dialog", { name: "Invite a person" })
        await dialog.getByLabel("Name", { exact: true }).fill("Ada Lovelace")
        await dialog.getByLabel("Email", { exact: true }).fill("ada@example.org")
        await dialog.getByLabel("Groups").fill("finance")
        assert.deepStrictEqual(await Effect.runPromise(accessibilityViolations(page)), [])
        await dialog.getByRole("button", { name: "Send invitation" }).click()
        await page.getByText("Invitation queued").waitFor()
        await page.getByRole("region", { name: "Pending invitations" }).getByText("ada@example.org").waitFor()
        await server.arrived(1)
      })
      const [, link = ""] =
        /approvals\.example\.org(\/console\/invitation#\S+)/.exec(server.received[0]?.text ?? "") ?? []
      const hers = yield* openPage({ viewport: { width: 390, height: 844 } })
      for (const colorScheme of ["light", "dark"] as const) {
        yield* Effect.promise(async () => {
          await hers.page.emulateMedia({ colorScheme })
          await hers.page.goto(link)
          await hers.page.getByRole("heading", { name: "Accept your invitation" }).waitFor()
        })
        assert.deepStrictEqual(yield* accessibilityViolations(hers.page), [])
      }
      const secret = yield* Effect.promise(async () => {
        await hers.page.getByRole("button", { name: "Accept the invitation" }).click()
        await hers.page.getByRole("heading", { name: "Your API key" }).waitFor()
        assert.notInclude(hers.page.url(), "#")
        assert.isAtMost(await hers.page.evaluate("document.documentElement.scrollWidth"), 390)
        return hers.page.locator(".secret code").innerText()
      })
      assert.match(secret, /^csk_/)
      assert.deepStrictEqual(yield* accessibilityViolations(hers.page), [])
      yield* Effect.promise(async () => {
        await hers.page.getByRole("button", { name: "I have stored it, sign in" }).click()
        await hers.page.locator("#content").waitFor()
        assert.notInclude(await hers.page.content(), secret)
        await page.reload()
        const row = page.getByRole("row").filter({ hasText: "Ada Lovelace" })
        await row.getByText("(verified)").waitFor()
        await row.getByText("group finance").waitFor()
        assert.strictEqual(await page.getByRole("region", { name: "Pending invitations" }).count(), 0)
        // The link works once.
        const again = await page.context().newPage()
        await again.goto(link)
        await again.getByRole("button", { name: "Accept the invitation" }).click()
        await again.getByText("This invitation cannot be used").waitFor()
        await again.getByText(/was used before/).waitFor()
      })
      assert.deepStrictEqual([...pageErrors, ...hers.pageErrors], [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("a pending invitation is revoked", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const admin = yield* client({}, "revoke")
      yield* admin.invitations.create({
        payload: { name: "Joan", email: "joan@example.org", preset: "reviewer" }
      })
      const { page } = yield* openSignedIn(yield* key({}, "revoke"), "/keys")
      yield* Effect.promise(async () => {
        const row = page.getByRole("row").filter({ hasText: "joan@example.org" })
        await row.getByRole("button", { name: "Revoke" }).click()
        await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click()
        await page.getByText("Invitation revoked").waitFor()
        await row.waitFor({ state: "detached" })
      })
      const { invitations } = yield* admin.invitations.list({ query: {} })
      assert.strictEqual(invitations[0]?.status, "revoked")
    }).pipe(Effect.scoped, Effect.orDie))
})

layer(Layer.provideMerge(Browser.layer, service()), { excludeTestServices: true, timeout: "120 seconds" })(
  "Invitations without a mail server",
  (it) => {
    const test = skipWithoutBrowser(it)

    test("the dialog says that a mail server is missing, and which settings name it", () =>
      Effect.gen(function* () {
        const { page } = yield* openSignedIn({}, "/keys?new=invitation")
        yield* Effect.promise(async () => {
          const dialog = page.getByRole("dialog", { name: "Invite a person" })
          await dialog.getByText("This installation has no mail server").waitFor()
          await dialog
            .getByText("configures one by COUNTERSIGN_SMTP_URL and COUNTERSIGN_MAIL_FROM. Without")
            .waitFor()
          assert.isTrue(await dialog.getByRole("button", { name: "Send invitation" }).isDisabled())
          await dialog.getByRole("radio", { name: /^Show it to me/ }).check()
          await page.getByRole("dialog", { name: "New API key" }).waitFor()
        })
      }).pipe(Effect.scoped, Effect.orDie))
  }
)
