import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import type { Locator, Page } from "playwright-core"
import { StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import { Browser, openPage, signInByForm, skipWithoutBrowser } from "../support/browser.ts"
import { service } from "../support/service.ts"
import { startSilentProxy } from "../support/silentProxy.ts"

/** The longest time until a page of which every connection is lost has a new one, by its own clock. */
const RECOVERY_MS = 150_000

/** How long a page waits for the response of a new stream. */
const STEP_MS = 10_000

/** Moves a page's time ahead until it shows an element. Each time the page gets longer to use a connection that works. */
const passTimeUntil = async (page: Page, shown: Locator): Promise<void> => {
  for (let passed = 0; passed < RECOVERY_MS; passed += STEP_MS) {
    await page.clock.fastForward(STEP_MS)
    const isShown = await shown.waitFor({ timeout: 300 + passed / 10 }).then(
      () => true,
      () => false
    )
    if (isShown) return
  }
  await shown.waitFor({ timeout: 1 })
}

const environment = Layer.provideMerge(Browser.layer, service())

layer(environment, { excludeTestServices: true, timeout: "400 seconds" })(
  "The console's connection",
  (it) => {
    const test = skipWithoutBrowser(it)

    test("a connection that was lost without a word is not shown as live, and the approvals of that time arrive", () =>
      Effect.gen(function* () {
        const { client, key, url } = yield* Countersign
        const proxy = yield* startSilentProxy(Redacted.make(url))
        // The proxy's port is in the query of its URL.
        const port = new URL(Redacted.value(proxy.url)).searchParams.get("port")
        const { page } = yield* openPage({ baseURL: `http://127.0.0.1:${port}` })
        const ada = yield* key({ preset: "reviewer", name: "Ada" }, "frozen")
        yield* Effect.promise(async () => {
          await page.clock.install()
          await signInByForm(page, ada, "/approvals")
          await page.getByText("Live · sorted by deadline").waitFor()
        })
        proxy.forgetConnections()
        const agent = yield* client({ preset: "runtime" }, "frozen")
        const { session_id } = yield* agent.sessions.create({})
        yield* agent.sessions.step({
          params: { id: session_id },
          payload: { step_id: StepId.make("one"), tool: "mail.send", action_class: "write" }
        })
        yield* Effect.promise(async () => {
          const reconnecting = page.getByText("Reconnecting")
          await passTimeUntil(page, reconnecting)
          assert.strictEqual(await page.getByText("Live · sorted by deadline").count(), 0)
          // The browser sends its next requests on idle connections, which are lost as well, one after another.
          await passTimeUntil(page, page.getByRole("option", { name: /mail\.send/ }))
          await passTimeUntil(page, page.getByText("Live · sorted by deadline"))
        })
      }).pipe(Effect.scoped, Effect.orDie))
  }
)
