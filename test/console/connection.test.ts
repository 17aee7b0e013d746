import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import { Browser, openPage, signInByForm, skipWithoutBrowser } from "../support/browser.ts"
import { service } from "../support/service.ts"
import { startSilentProxy } from "../support/silentProxy.ts"

/** The longest time until a page of which every connection is lost has a new one. */
const RECOVERY_MS = 150_000

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
          await page.getByText("Reconnecting").waitFor()
          assert.strictEqual(await page.getByText("Live · sorted by deadline").count(), 0)
          // The browser sends its next requests on idle connections, which are lost as well, one after another.
          await page.getByRole("option", { name: /mail\.send/ }).waitFor({ timeout: RECOVERY_MS })
          await page.getByText("Live · sorted by deadline").waitFor({ timeout: RECOVERY_MS })
        })
      }).pipe(Effect.scoped, Effect.orDie))
  }
)
