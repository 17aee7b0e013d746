import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import type { Page } from "playwright-core"
import { StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import {
  accessibilityViolations,
  Browser,
  openPage,
  openSignedIn,
  skipWithoutBrowser
} from "../support/browser.ts"
import { mailServer } from "../support/mail.ts"
import { withProvider } from "../support/singleSignOn.ts"

/** Runs a test against a service with single sign-on that has mailed an approval: its id, and the address in the mail. */
const withMailedApproval = <A, E, R>(
  use: (mailed: {
    readonly id: string
    readonly link: string
    readonly ada: Redacted.Redacted
  }) => Effect.Effect<A, E, R>
) =>
  Effect.gen(function* () {
    const mail = yield* mailServer()
    return yield* withProvider(
      () =>
        Effect.gen(function* () {
          const { client, key } = yield* Countersign
          const ada = yield* key({ preset: "reviewer", name: "Ada", email: "ada@example.org" }, "acme")
          const agent = yield* client({ preset: "runtime", name: "agent" }, "acme")
          const { session_id } = yield* agent.sessions.create({})
          const { approval_id } = yield* agent.sessions.step({
            params: { id: session_id },
            payload: { step_id: StepId.make("one"), tool: "payments.refund", action_class: "write" }
          })
          yield* Effect.promise(() => mail.arrived(1))
          const [link] = /http\S+\/console\/approvals\/\S+/.exec(mail.received[0]?.text ?? "") ?? []
          return yield* use({
            id: approval_id ?? assert.fail("the step waits"),
            link: link ?? assert.fail("the mail has a link"),
            ada
          })
        }).pipe(Effect.scoped),
      {
        COUNTERSIGN_OIDC_NAME: "Example ID",
        COUNTERSIGN_SMTP_URL: `smtp://127.0.0.1:${mail.port}`,
        COUNTERSIGN_MAIL_FROM: "Countersign <no-reply@countersign.example>"
      }
    )
  }).pipe(Effect.scoped, Effect.orDie)

const isOpen = (page: Page) =>
  page.getByRole("article").getByRole("heading", { name: "payments.refund" }).waitFor()

layer(Browser.layer, { excludeTestServices: true, timeout: "120 seconds" })(
  "The link of an approval's mail",
  (it) => {
    const test = skipWithoutBrowser(it)

    test("leads to the approval after signing in by key or by single sign-on, and tells that it was decided", () =>
      withMailedApproval(({ ada, id, link }) =>
        Effect.gen(function* () {
          const { clientWith } = yield* Countersign
          const byKey = yield* openPage()
          const bySingleSignOn = yield* openPage()
          yield* Effect.promise(async () => {
            await byKey.page.goto(link)
            await byKey.page.getByLabel("API key").fill(Redacted.value(ada))
            await byKey.page.getByRole("button", { name: "Sign in", exact: true }).click()
            await isOpen(byKey.page)
            assert.strictEqual(byKey.page.url(), link)
            await bySingleSignOn.page.goto(link)
            await bySingleSignOn.page.getByRole("link", { name: "Sign in with Example ID" }).click()
            await isOpen(bySingleSignOn.page)
            assert.strictEqual(bySingleSignOn.page.url(), link)
          })
          yield* (yield* clientWith(ada)).approvals
            .list({ query: { status: "pending" } })
            .pipe(
              Effect.flatMap(({ approvals }) =>
                Effect.forEach(approvals, ({ approval_id }) =>
                  Effect.flatMap(clientWith(ada), (client) =>
                    client.approvals.decide({ params: { id: approval_id }, payload: { decision: "approve" } })
                  )
                )
              )
            )
          const later = yield* openSignedIn(ada, `/approvals/${id}`)
          yield* Effect.promise(() => later.page.getByRole("status").getByText("Approved by Ada").waitFor())
          assert.deepStrictEqual([...byKey.pageErrors, ...bySingleSignOn.pageErrors, ...later.pageErrors], [])
        })
      ))

    test("says whose organization is signed in if the approval is not of it, and leads to another sign-in", () =>
      withMailedApproval(({ ada, link }) =>
        Effect.gen(function* () {
          const { key } = yield* Countersign
          const bob = yield* key({ preset: "reviewer", name: "Bob" }, "globex")
          const { page, pageErrors } = yield* openSignedIn(
            bob,
            new URL(link).pathname.slice("/console".length)
          )
          yield* Effect.promise(async () => {
            await page.getByRole("heading", { name: "No such approval in globex" }).waitFor()
            assert.strictEqual(await page.getByText("payments.refund").count(), 0)
          })
          assert.deepStrictEqual(yield* accessibilityViolations(page), [])
          yield* Effect.promise(async () => {
            await page.getByRole("button", { name: "Sign in with another key" }).click()
            await page.getByLabel("API key").fill(Redacted.value(ada))
            await page.getByRole("button", { name: "Sign in", exact: true }).click()
            await isOpen(page)
          })
          assert.deepStrictEqual(pageErrors, [])
        })
      ))
  }
)
