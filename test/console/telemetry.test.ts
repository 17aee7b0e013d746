import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { OrgId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import { SqlClient } from "effect/sql"
import { Browser, skipWithoutBrowser, openSignedIn } from "../support/browser.ts"
import { accepted, startCollector } from "../support/otlp/collector.ts"
import { recordSpans, sendSpans, TOKEN } from "../support/otlp/telemetry.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(
  Browser.layer,
  service({
    environment: { COUNTERSIGN_TELEMETRY_FLUSH_SECONDS: "60", COUNTERSIGN_TELEMETRY_QUEUE_LIMIT: "512" }
  })
)

const orgId = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly org_id: string }>`SELECT org_id FROM organizations WHERE name = 'test'`
  return OrgId.make(row?.org_id ?? assert.fail("an organization"))
})

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("Telemetry page", (it) => {
  const test = skipWithoutBrowser(it)

  test(
    "a collector is added, tested and removed; queued, dropped and failed spans are shown, and a failed batch is replayed",
    () =>
      Effect.gen(function* () {
        const { client } = yield* Countersign
        const peer = yield* startCollector([accepted, { status: 400 }])
        const { page, pageErrors } = yield* openSignedIn({ preset: "admin" }, "/telemetry")
        yield* Effect.promise(async () => {
          await page.getByText("No collector").waitFor()
          await page.getByRole("button", { name: "Add collector" }).click()
          await page.getByLabel("URL").fill(`${peer.url}/private-path`)
          await page.getByLabel("Header 1 name").fill("cookie")
          await page.getByLabel("Header 1 value").fill(`Bearer ${TOKEN}`)
          await page.getByRole("button", { name: "Save" }).click()
          await page.getByRole("alert").getByText("#/headers/cookie").waitFor()
          await page.getByLabel("Header 1 name").fill("Authorization")
          await page.getByRole("button", { name: "Save" }).click()
          await page.getByText("No spans exported yet").waitFor()
          assert.notMatch(await page.content(), new RegExp(`${TOKEN}|private-path`))
          await page.getByRole("button", { name: "Send test span" }).click()
          await page.getByText("Test span accepted").waitFor()
          // A second test within ten seconds is refused with an error message.
          await page.getByRole("button", { name: "Send test span" }).click()
          await page.getByRole("alert").waitFor()
        })
        const org_id = yield* orgId
        yield* sendSpans(org_id, 3)
        const batch = page.getByRole("listitem").filter({ hasText: "3 spans" })
        yield* Effect.promise(async () => {
          await batch.getByText("failed").waitFor()
          await batch.getByText("400").first().waitFor()
          // The filter is in the address.
          await page.getByRole("button", { name: "Pending", exact: true }).click()
          await page.getByText("No pending batches").waitFor()
          await page.getByRole("button", { name: "Failed", exact: true }).click()
          await page.waitForFunction(() => location.search === "?status=failed")
          await batch.getByText("failed").waitFor()
          await page.getByRole("button", { name: "All", exact: true }).click()
          peer.answer(accepted)
          await batch.getByRole("button", { name: "Replay" }).click()
          await batch.getByText("delivered").waitFor()
          assert.strictEqual(await batch.getByRole("button", { name: "Replay" }).count(), 0)
        })
        // The collector never answers the first 500, so they stay queued; spans over the queue limit are dropped.
        peer.answer("never")
        yield* sendSpans(org_id, 500)
        yield* recordSpans(org_id, 600)
        const figure = (text: string) => page.locator(".figure").filter({ hasText: text }).locator("strong")
        yield* Effect.promise(async () => {
          await figure("spans queued").filter({ hasNotText: /^0$/ }).waitFor()
          await figure("spans dropped").filter({ hasNotText: /^0$/ }).waitFor()
          await page.getByRole("button", { name: "Remove" }).click()
          await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click()
          await page.getByText("No collector").waitFor()
        })
        const admin = yield* client()
        assert.deepStrictEqual((yield* admin.telemetryDestinations.list()).destinations, [])
        assert.strictEqual(peer.exports[0]?.headers.authorization, `Bearer ${TOKEN}`)
        assert.deepStrictEqual([...pageErrors, ...peer.faults], [])
      }).pipe(Effect.scoped, Effect.orDie),
    120_000
  )
})
