import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { execFile } from "node:child_process"
import { readFile } from "node:fs/promises"
import { promisify } from "node:util"
import type { Locator, Page } from "playwright-core"
import { Countersign } from "../../src/testing/index.ts"
import { Browser, openSignedIn, skipWithoutBrowser } from "../support/browser.ts"
import { seedConsoleOrg } from "../support/seedConsoleOrg.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

const clipboard = (page: Page): Promise<string> => page.evaluate(() => navigator.clipboard.readText())

/** Clicks a button that copies; returns the copied text. The clipboard gets it only after the click. */
const copy = async (page: Page, button: Locator): Promise<string> => {
  await page.evaluate(() => navigator.clipboard.writeText(""))
  await button.click()
  await page.waitForFunction(async () => (await navigator.clipboard.readText()) !== "")
  return clipboard(page)
}

const withClipboard = { permissions: ["clipboard-read", "clipboard-write"] }

layer(environment, { excludeTestServices: true, timeout: "240 seconds" })("Copying and exporting", (it) => {
  const test = skipWithoutBrowser(it)

  test("an ID, JSON and a curl command are copied by keyboard, announced, and nothing on the page moves", () =>
    Effect.gen(function* () {
      const { key, url } = yield* Countersign
      const { approval_id } = yield* seedConsoleOrg("copying")
      const secret = yield* key({}, "copying")
      const { page, pageErrors } = yield* openSignedIn(secret, `/approvals/${approval_id}`, withClipboard)
      yield* Effect.promise(async () => {
        const id = page.getByRole("button", { name: "Copy the approval ID" })
        await id.focus()
        // Within the list of properties: parts of the page above it may still load.
        const place = () =>
          id.evaluate((button) => {
            const own = button.getBoundingClientRect()
            const list = button.closest("dl")?.getBoundingClientRect()
            const { height = 0, left = 0, top = 0 } = list ?? {}
            return {
              left: own.left - left,
              top: own.top - top,
              width: own.width,
              height: own.height,
              list: height
            }
          })
        const before = await place()
        await page.keyboard.press("Enter")
        await page
          .locator("[data-live-announcer]")
          .filter({ hasText: "Copied" })
          .waitFor({ state: "attached" })
        assert.strictEqual(await clipboard(page), approval_id)
        assert.deepStrictEqual(await place(), before)
        // The focus stays, so that what was read goes on from here.
        assert.isTrue(await id.evaluate((button) => button === document.activeElement))
        assert.isAtLeast(before.width, 24)
        assert.isAtLeast(before.height, 24)
        const json = page.getByRole("button", { name: "Copy as JSON: Arguments", exact: true })
        const copied: unknown = JSON.parse(await copy(page, json))
        assert.deepStrictEqual(Reflect.get(Object(copied), "order"), 4711)
        const command = await copy(page, page.getByRole("button", { name: "Copy as curl" }))
        assert.strictEqual(
          command,
          `curl '${url}/v1/agent-approvals/${approval_id}' \\\n  -H "Authorization: Bearer $COUNTERSIGN_API_KEY"`
        )
        assert.notInclude(command, "csk_")
      })
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("every record's page copies its ID, and the curl command that returns it", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const at = yield* seedConsoleOrg("requested")
      const admin = yield* client({}, "requested")
      const secret = yield* key({}, "requested")
      const { endpoints } = yield* admin.notificationEndpoints.list()
      const endpoint = endpoints[0]?.id ?? ""
      const { id: delivery } = yield* admin.notificationEndpoints.test({ params: { id: endpoints[0]!.id } })
      assert.isNotNull(delivery)
      const { dataset_id } = at
      assert.isNotNull(dataset_id)
      if (delivery === null || dataset_id === null) return
      const { runs } = yield* admin.runs.list({ params: { id: at.task_id } })
      const run = runs[0]?.trace_id ?? ""
      const { page, pageErrors } = yield* openSignedIn(secret, "/overview", withClipboard)
      yield* Effect.promise(async () => {
        for (const [path, of, id] of [
          [`/runs/${run}`, "run", run],
          [`/tasks/${at.task_id}`, "task", at.task_id],
          [`/datasets/${dataset_id}`, "dataset version", dataset_id],
          [`/comparisons/${at.comparison_id}`, "comparison", at.comparison_id],
          [`/feedback/${at.feedback_id}`, "feedback", at.feedback_id],
          [`/endpoints/${endpoint}`, "endpoint", endpoint],
          [`/endpoints/${endpoint}/deliveries/${delivery}`, "delivery", delivery],
          [`/sessions/${at.session_id}`, "session", at.session_id]
        ] as const) {
          await page.goto(`/console${path}`)
          const copyId = page.getByRole("button", { name: `Copy the ${of} ID`, exact: true })
          assert.strictEqual(await copy(page, copyId), id, path)
          const command = await copy(page, page.getByRole("button", { name: "Copy as curl" }).first())
          assert.notInclude(command, "csk_")
          // Not synchronously: the service runs in this process.
          const { stdout: answer } = await promisify(execFile)("sh", ["-c", command], {
            env: { PATH: process.env["PATH"], COUNTERSIGN_API_KEY: Redacted.value(secret) }
          })
          assert.include(answer, of === "endpoint" ? delivery : id, path)
          assert.notInclude(answer, '"status":404', path)
        }
      })
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("a text of an agent is copied with the characters that the page shows as code points", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const agent = yield* client({ preset: "runtime", name: "agent" }, "raw")
      const { session_id } = yield* agent.sessions.create({
        payload: { metadata: { file: "invoice\u202efdp.exe" } }
      })
      const secret = yield* key({}, "raw")
      const { page } = yield* openSignedIn(secret, `/sessions/${session_id}`, withClipboard)
      yield* Effect.promise(async () => {
        await page.getByText("U+202E").first().waitFor()
        const json = page.getByRole("button", { name: "Copy as JSON: Metadata" })
        assert.deepStrictEqual(JSON.parse(await copy(page, json)), { file: "invoice\u202efdp.exe" })
        const id = page.getByRole("button", { name: "Copy the session ID" })
        assert.strictEqual(await copy(page, id), session_id)
      })
    }).pipe(Effect.scoped, Effect.orDie))

  test("sessions, closed approvals and the filtered audit log are downloaded as files", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const { decided_id, session_id } = yield* seedConsoleOrg("exporting")
      const secret = yield* key({}, "exporting")
      const { page, pageErrors } = yield* openSignedIn(secret, "/sessions")
      const download = async (name: RegExp): Promise<{ readonly name: string; readonly text: string }> => {
        await page.getByRole("button", { name: "Export" }).click()
        const [file] = await Promise.all([
          page.waitForEvent("download"),
          page.getByRole("link", { name }).click()
        ])
        return { name: file.suggestedFilename(), text: await readFile(await file.path(), "utf8") }
      }
      yield* Effect.promise(async () => {
        const sessions = await download(/^CSV/)
        assert.match(sessions.name, /^sessions-.*\.csv$/)
        assert.include(sessions.text, session_id)
        // The choice closes, and the focus returns to its button.
        await page.getByRole("link", { name: /^CSV/ }).waitFor({ state: "hidden" })
        assert.isTrue(
          await page.getByRole("button", { name: "Export" }).evaluate((one) => one === document.activeElement)
        )
        await page.goto("/console/approvals?tab=closed")
        const approvals = await download(/^JSON Lines/)
        assert.match(approvals.name, /^closed-approvals-.*\.jsonl$/)
        assert.strictEqual(
          approvals.text.trimEnd().split("\n").length,
          1,
          "the pending approval is not in the file"
        )
        assert.include(approvals.text, decided_id)
        await page.goto("/console/audit?action=key.revoked")
        const audit = await download(/^CSV/)
        assert.strictEqual(audit.text.trimEnd().split("\r\n").length, 2)
        await page.getByRole("button", { name: "Export" }).click()
        await page.keyboard.press("Escape")
        await page.getByRole("link", { name: /^CSV/ }).waitFor({ state: "hidden" })
      })
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))
})
