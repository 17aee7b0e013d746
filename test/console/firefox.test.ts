import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Layer, Redacted } from "effect"
import { routes } from "../../src/console/app/routes.ts"
import { StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import { Firefox, type FirefoxPage, openInFirefox, skipWithoutFirefox } from "../support/firefox.ts"
import { seedConsoleOrg } from "../support/seedConsoleOrg.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(
  Firefox.layer,
  service({ environment: { COUNTERSIGN_NOTIFY_RETRY_SECONDS: "0" } })
)

/** Signs in with the form, as a person does. */
const signIn = async ({ find }: FirefoxPage, secret: Redacted.Redacted): Promise<void> => {
  await (await find("aria/API key")).type(Redacted.value(secret))
  await (await find("aria/Sign in[role='button']")).click()
  await find("#content")
}

layer(environment, { excludeTestServices: true, timeout: "180 seconds" })("Console in Firefox", (it) => {
  const test = skipWithoutFirefox(it)

  test("a reviewer signs in, an approval arrives, and the agent continues with the comment", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const opened = yield* openInFirefox("/approvals")
      const secret = yield* key({ preset: "reviewer", name: "Ada" }, "approving")
      yield* Effect.promise(() => signIn(opened, secret))
      const agent = yield* client({ preset: "runtime", name: "agent" }, "approving")
      const { session_id } = yield* agent.sessions.create({})
      const waiting = yield* Effect.forkChild(
        agent.govern(session_id, {
          step_id: StepId.make("refund-1"),
          tool: "payments.refund",
          action_class: "write",
          arguments: { order: "4711" }
        })
      )
      const { page } = opened
      yield* Effect.promise(async () => {
        // Approve is offered once all arguments are on the screen.
        await page.setViewport({ width: 1440, height: 900 })
        await opened.find("[role=option] ::-p-text(payments.refund)")
        await page.keyboard.press("j")
        await opened.find("aria/Approve[role='button']")
        await opened.find("[aria-keyshortcuts=a]")
        await page.keyboard.press("a")
        await opened.find("textarea:focus")
        await page.keyboard.type("The order was checked")
        await page.keyboard.press("Enter")
      })
      const { approval, decision } = yield* Fiber.join(waiting)
      assert.strictEqual(decision, "allow")
      assert.strictEqual(approval?.comment, "The order was checked")
      yield* Effect.promise(async () => {
        await opened.find("::-p-text(Approved by Ada)")
        await (await opened.find("aria/Sign out[role='button']")).click()
        await opened.find("aria/API key")
      })
      assert.deepStrictEqual(opened.pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("every page opens without an error or a blocked script, and fits a phone", () =>
    Effect.gen(function* () {
      const { key, url } = yield* Countersign
      yield* seedConsoleOrg("pages")
      const opened = yield* openInFirefox("/approvals")
      yield* Effect.flatMap(key({ name: "Root" }, "pages"), (secret) =>
        Effect.promise(() => signIn(opened, secret))
      )
      const { page } = opened
      const listed = routes.filter(({ nav, path }) => nav !== undefined || path === "/browsers")
      assert.isAbove(listed.length, 10)
      for (const { path, title } of listed) {
        yield* Effect.promise(async () => {
          await page.setViewport({ width: 1440, height: 900 })
          await page.goto(`${url}/console${path.replace(/\/:\w+\?$/, "")}`)
          await opened.find("body:not(:has(.skeleton)) #content h1")
          assert.include(await page.title(), title)
          await page.setViewport({ width: 390, height: 844 })
          const overflow = await page.evaluate(
            () => document.documentElement.scrollWidth - document.documentElement.clientWidth
          )
          assert.isAtMost(overflow, 0, `${path} is wider than a phone`)
        })
      }
      assert.deepStrictEqual(opened.pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))
})
