import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import { Browser, openSignedIn, skipWithoutBrowser } from "../support/browser.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

const Manifest = Schema.fromJsonString(
  Schema.Struct({
    name: Schema.String,
    start_url: Schema.String,
    display: Schema.String,
    icons: Schema.Array(Schema.Struct({ src: Schema.String, sizes: Schema.String, type: Schema.String }))
  })
)

declare const badges: ReadonlyArray<number>

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("Installing the console", (it) => {
  const test = skipWithoutBrowser(it)

  test("browsers can install it as an app, whose badge has the number of approvals", () =>
    Effect.gen(function* () {
      const { client } = yield* Countersign
      const { page, pageErrors } = yield* openSignedIn({ preset: "reviewer", name: "Ada" }, "/approvals")
      const { data, errors, installability } = yield* Effect.promise(async () => {
        const session = await page.context().newCDPSession(page)
        const { data, errors } = await session.send("Page.getAppManifest")
        const { installabilityErrors } = await session.send("Page.getInstallabilityErrors")
        return { data, errors, installability: installabilityErrors.map(({ errorId }) => errorId) }
      })
      assert.deepStrictEqual(errors, [])
      // Contexts of tests are private windows.
      assert.deepStrictEqual(
        installability.filter((error) => error !== "in-incognito"),
        []
      )
      const manifest = Schema.decodeSync(Manifest)(data ?? assert.fail("there is a manifest"))
      assert.deepStrictEqual(
        [manifest.name, manifest.start_url, manifest.display],
        ["Countersign", "/console", "standalone"]
      )
      yield* Effect.promise(async () => {
        for (const { sizes, src, type } of manifest.icons) {
          const answer = await page.request.get(src)
          assert.strictEqual(answer.headers()["content-type"], type)
          // The width is at byte 16 of a PNG.
          assert.strictEqual((await answer.body()).readUInt32BE(16), Number(sizes.split("x")[0]))
        }
        await page.addInitScript(() => {
          const recorded: Array<number> = []
          const record = (count: number) => Promise.resolve(void recorded.push(count))
          Object.assign(globalThis, { badges: recorded })
          Object.assign(navigator, { setAppBadge: record, clearAppBadge: () => record(0) })
        })
        await page.reload()
        await page.getByText("Live · sorted by deadline").waitFor()
      })
      const agent = yield* client({ preset: "runtime" })
      const { session_id } = yield* agent.sessions.create({})
      yield* agent.sessions.step({
        params: { id: session_id },
        payload: { step_id: StepId.make("one"), tool: "mail.send", action_class: "write" }
      })
      yield* Effect.promise(() => page.waitForFunction(() => badges.at(-1) === 1))
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))
})
