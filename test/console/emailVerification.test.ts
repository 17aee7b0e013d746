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
        COUNTERSIGN_PUBLIC_URL: "https://approvals.example.org",
        COUNTERSIGN_MAIL_VERIFIED_ONLY: "true"
      }
    })
  )
)

const environment = Layer.mergeAll(Browser.layer, serviceWithMail).pipe(
  Layer.provideMerge(Layer.effect(Mail, mailServer()))
)

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })(
  "Verification of email addresses",
  (it) => {
    const test = skipWithoutBrowser(it)

    test(
      "an admin sends the link again, and its owner confirms the address by the button of its page",
      () =>
        Effect.gen(function* () {
          const server = yield* Mail
          const { key } = yield* Countersign
          const { pageErrors, page } = yield* openSignedIn(yield* key({ name: "Grace" }, "verify"), "/keys")
          yield* key({ preset: "reviewer", name: "Ada", email: "ada@example.org" }, "verify")
          yield* Effect.promise(() => server.arrived(1))
          yield* Effect.promise(async () => {
            await page.reload()
            const row = page.getByRole("row").filter({ hasText: "ada@example.org" })
            await row.getByText("Not verified").waitFor()
            await row.getByRole("button", { name: "Send link" }).click()
            await page.getByRole("dialog").getByRole("button", { name: "Send", exact: true }).click()
            await page.getByText("Link queued").waitFor()
            await server.arrived(2)
          })
          const [, link] =
            /approvals\.example\.org(\/verify-email\S+)/.exec(server.received[1]?.text ?? "") ?? []
          const hers = yield* openPage()
          yield* Effect.promise(async () => {
            await hers.page.goto(link ?? assert.fail("a link"))
            await hers.page.getByRole("heading", { name: "Confirm your email address" }).waitFor()
            const button = hers.page.getByRole("button", { name: "Confirm this address" })
            // The page's policy allows its style.
            assert.strictEqual(
              await button.evaluate((element) => getComputedStyle(element).borderRadius),
              "6px"
            )
          })
          for (const colorScheme of ["light", "dark"] as const) {
            yield* Effect.promise(() => hers.page.emulateMedia({ colorScheme }))
            assert.deepStrictEqual(yield* accessibilityViolations(hers.page), [])
          }
          yield* Effect.promise(async () => {
            await hers.page.getByRole("button", { name: "Confirm this address" }).click()
            await hers.page.getByRole("heading", { name: "Your email address is confirmed" }).waitFor()
            await page.reload()
            const row = page.getByRole("row").filter({ hasText: "ada@example.org" })
            await row.getByText("(verified)").waitFor()
            assert.strictEqual(await row.getByText("Not verified").count(), 0)
            assert.strictEqual(await row.getByRole("button", { name: "Send link" }).count(), 0)
          })
          assert.deepStrictEqual([...pageErrors, ...hers.pageErrors], [])
        }).pipe(Effect.scoped, Effect.orDie),
      120_000
    )
  }
)
