import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { createServer, type ServerResponse } from "node:http"
import type { NewComparison } from "../../src/api/Comparisons.ts"
import type { ClientCalls } from "../../src/client/Client.ts"
import { type DatasetId, TaskId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import {
  accessibilityViolations,
  Browser,
  goTo,
  skipWithoutBrowser,
  openSignedIn
} from "../support/browser.ts"
import { eventually } from "../support/eventually.ts"
import { service } from "../support/service.ts"
import { sortingExamples, createSortingTask, createTeamClients } from "../support/tasks.ts"
import { listenOnFreePort } from "../support/listenOnFreePort.ts"

const environment = Layer.provideMerge(
  Browser.layer,
  service({ environment: { COUNTERSIGN_PROVIDER_ALLOW: "127.0.0.0/8" } })
)

/**
 * A model server on loopback that answers "billing" to everything, and after `learn` "shipping" where that is right. From the second
 * request on, it blocks until `release`.
 */
const model = Effect.acquireRelease(
  Effect.promise(async () => {
    const blocked: Array<ServerResponse> = []
    let requests = 0
    let isReleased = false
    let hasLearned = false
    /** The question is the last message; earlier ones are examples. */
    const categoryOf = (body: string): string =>
      hasLearned && /parcel|late/.test(body.slice(body.lastIndexOf('"content"'))) ? "shipping" : "billing"
    const answer = (response: ServerResponse, category = "billing") =>
      response.writeHead(200, { "content-type": "application/json" }).end(
        JSON.stringify({
          choices: [
            { finish_reason: "stop", message: { role: "assistant", content: JSON.stringify({ category }) } }
          ],
          usage: { prompt_tokens: 11, completion_tokens: 3, total_tokens: 14 }
        })
      )
    const server = createServer((request, response) => {
      const chunks: Array<Buffer> = []
      request.on("data", (chunk: Buffer) => chunks.push(chunk))
      request.on("end", () => {
        requests++
        if (isReleased || requests === 1) answer(response, categoryOf(Buffer.concat(chunks).toString()))
        else blocked.push(response)
      })
    })
    const port = await listenOnFreePort(server)
    const release = () => {
      isReleased = true
      for (const response of blocked.splice(0)) answer(response)
    }
    const learn = () => {
      hasLearned = true
    }
    return { server, learn, release, url: `http://127.0.0.1:${port}/v1` }
  }),
  ({ server }) =>
    Effect.sync(() => {
      server.closeAllConnections()
      server.close()
    })
)

/** Compares a candidate with these instructions over the whole newest dataset version. */
const compare = Effect.fnUntraced(function* (
  admin: ClientCalls,
  params: { readonly id: TaskId },
  instructions: string,
  dataset_id?: DatasetId
) {
  const { comparison } = yield* admin.comparisons.create({
    params,
    payload: {
      candidate: { instructions, ...(dataset_id === undefined ? {} : { dataset_id }) },
      hold_out: { kind: "none" }
    }
  })
  yield* eventually(
    admin.comparisons.get({ params: { id: comparison.id }, query: {} }),
    (found) => found.comparison.status === "completed"
  )
  return comparison.id
})

/**
 * A task whose one example is corrected from "other" to "billing", and the comparison of a candidate. The candidate answers `category`, the
 * live release the other one.
 */
const comparedTask = Effect.fnUntraced(function* (organization: string, category: "billing" | "other") {
  const { admin, runtime } = yield* createTeamClients(organization)
  const { dataset, params, task } = yield* createSortingTask(admin, ["a message", "other"])
  const [corrected] = sortingExamples(["a message", "billing"])
  yield* admin.datasets.create({
    params,
    payload: { base_dataset_id: dataset.id, examples: [corrected!] }
  })
  const better = yield* compare(admin, params, "Sort it.")
  if (category === "billing") return { admin, runtime, params, task, comparison_id: better }
  const { id } = yield* admin.releases.create({ params, payload: { comparison_id: better } })
  const worse = yield* compare(admin, params, "Sort it as before.", dataset.id)
  return { admin, runtime, params, task: { ...task, live_release_id: id }, comparison_id: worse }
})

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("Tasks pages", (it) => {
  const test = skipWithoutBrowser(it)

  test(
    "the task form reports schema errors at their place, and pasted examples create dataset version 1",
    () =>
      Effect.gen(function* () {
        const { client, key } = yield* Countersign
        const { pageErrors, page } = yield* openSignedIn(yield* key({}, "form"), "/tasks")
        const id = yield* Effect.promise(async () => {
          await page.getByRole("link", { name: "New task" }).click()
          await page.getByLabel("Name").fill("Sort messages")
          const answers = page.getByLabel("Answer schema")
          await answers.fill('{ "type": "object", }')
          await page.getByLabel("Instructions").fill("Sort the message.")
          await page.getByText(/Invalid JSON/).waitFor()
          await answers.fill('{ "type": "object", "properties": { "category": { "type": "word" } } }')
          await page.getByRole("button", { name: "Create task" }).click()
          await page.locator(".field-error").getByText("/properties/category/type").waitFor()
          await answers.and(page.locator("[aria-invalid]")).waitFor()
          await answers.fill(
            '{ "type": "object", "properties": { "category": { "type": "string", "format": "word" } } }'
          )
          const warning = page
            .getByRole("listitem")
            .filter({ hasText: "/properties/category/format is not checked" })
          await warning.waitFor()
          await page.getByRole("button", { name: "Create task" }).click()
          await page.getByRole("heading", { level: 1, name: "Sort messages" }).waitFor()
          await warning.waitFor()
          await page.getByRole("heading", { level: 1, name: "Sort messages" }).waitFor()
          await page.getByRole("button", { name: "Datasets" }).click()
          await page.getByRole("button", { name: "Add examples" }).click()
          const examples = page.getByLabel("Examples", { exact: true })
          await examples.fill('{"input":{"text":"a"},"answer":{"category":"x"}}\n{"input":{"text":"b"}}')
          await page.getByRole("button", { name: "Create version" }).click()
          await page.getByText(/Line 2: expected an object with the objects "input" and "answer"/).waitFor()
          await examples.fill(
            '{"input":{"text":"a"},"answer":{"category":"x"}}\n{"input":{"text":"b"},"answer":{"category":2}}'
          )
          await page.getByRole("button", { name: "Create version" }).click()
          await page.getByText(/Example 2, \/answer\/category/).waitFor()
          await examples.fill('[{"input":{"text":"a"},"answer":{"category":"x"}}]')
          await page.getByRole("button", { name: "Create version" }).click()
          await page.getByRole("link", { name: "Version 1" }).click()
          await page.getByRole("heading", { name: "Version 1" }).waitFor()
          await page.getByRole("link", { name: "← Task datasets" }).click()
          await page.getByText("Newest").waitFor()
          return TaskId.make(page.url().split("/").at(-2) ?? "")
        })
        const admin = yield* client({}, "form")
        const task = yield* admin.tasks.get({ params: { id: id } })
        assert.deepInclude(task, { name: "Sort messages", instructions: "Sort the message." })
        assert.deepInclude(task.provider, { kind: "examples" })
        assert.deepStrictEqual(pageErrors, [])
      }).pipe(Effect.scoped, Effect.orDie),
    120_000
  )

  test(
    "a model is configured in the working copy, compared with visible progress, promoted, and rolled back",
    () =>
      Effect.gen(function* () {
        const { key } = yield* Countersign
        const modelServer = yield* model
        const { admin } = yield* createTeamClients("compare")
        const { params, task } = yield* createSortingTask(
          admin,
          ["the invoice is wrong", "billing"],
          ["where is my parcel", "shipping"],
          ["it came too late", "shipping"],
          ["you charged me twice", "billing"]
        )
        const { pageErrors, page } = yield* openSignedIn(yield* key({}, "compare"), `/tasks/${task.id}`)
        yield* Effect.promise(async () => {
          await page.getByRole("link", { name: "Edit working copy" }).click()
          await page.getByText("Input and answer schemas are locked").waitFor()
          await page.getByLabel(/^OpenAI-compatible model/).check()
          await page.getByLabel("Base URL").fill(modelServer.url)
          await page.getByLabel("Model", { exact: true }).fill("small")
          await page.getByLabel("Provider API key").fill("sk-of-the-provider")
          await page.getByLabel("Price per million input tokens").fill("3")
          await page.getByRole("button", { name: "Save working copy" }).click()
          await page.getByText("Stored, encrypted").waitFor()
          assert.notInclude(await page.content(), "sk-of-the-provider")
          await page.getByRole("button", { name: "Comparisons" }).click()
          await page.getByText(/^Options/).click()
          await page.getByLabel(/^None/).check()
          await page.getByRole("button", { name: "Run comparison" }).click()
          // Examples run concurrently in groups; progress of a group is reported when the whole group is answered.
          const progress = page.getByRole("progressbar")
          await progress.waitFor()
          assert.strictEqual(await progress.getAttribute("max"), "4")
          assert.strictEqual(await page.getByRole("button", { name: "Promote candidate" }).count(), 0)
          modelServer.release()
          const agreement = page.getByRole("region", { name: "Agreement" })
          await page.getByText("Completed").waitFor()
          await agreement.getByText("50 %", { exact: true }).first().waitFor()
          await agreement.getByText("100 %", { exact: true }).first().waitFor()
          await agreement.getByText(/Difference: −?-?50 points/).waitFor()
          await page.getByText("Differs in 1 field").first().waitFor()
          await page.getByRole("button", { name: "Promote candidate" }).click()
          await page.getByRole("button", { name: "Promote", exact: true }).click()
          await page.getByText(/the live release with 4/).waitFor()
          await page.getByRole("button", { name: "Cancel" }).click()
          modelServer.learn()
          await page.goBack()
          await page.getByRole("button", { name: "Comparisons" }).click()
          await page.getByText(/^Options/).click()
          await page.getByLabel(/^None/).check()
          await page.getByRole("button", { name: "Run comparison" }).click()
          await agreement.getByText(/Difference: 0 points/).waitFor()
          await page.getByRole("button", { name: "Promote candidate" }).click()
          await page.getByRole("button", { name: "Promote", exact: true }).click()
          await page.getByRole("listitem").filter({ hasText: "small" }).getByText("✓ Live").waitFor()
          const first = page.getByRole("listitem").filter({ hasText: "first release" })
          await first.waitFor()
          assert.strictEqual(await page.getByRole("button", { name: "Roll back to this release" }).count(), 1)
        })
        const question = { input: { text: "where is my invoice for the parcel" } }
        const run = yield* admin.tasks.run({ params, payload: question })
        // The model has counted them.
        assert.strictEqual(run.usage?.input_tokens, 11)
        yield* Effect.promise(async () => {
          await page.getByRole("button", { name: "Roll back to this release" }).click()
          await page.getByRole("button", { name: "Roll back", exact: true }).click()
          await page
            .getByRole("listitem")
            .filter({ hasText: "none (rollback to release 1)" })
            .getByText("✓ Live")
            .waitFor()
        })
        const back = yield* admin.tasks.run({ params, payload: { input: { text: "where is my parcel" } } })
        assert.deepStrictEqual(back.answer, { category: "shipping" })
        assert.notStrictEqual(back.usage?.input_tokens, 11)
        assert.deepStrictEqual(pageErrors, [])
      }).pipe(Effect.scoped, Effect.orDie),
    120_000
  )

  test("a release shows what it changed since the one before: lines of the instructions, settings and the dataset version", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const { admin } = yield* createTeamClients("changes")
      const { dataset, params, task } = yield* createSortingTask(admin, ["a", "billing"])
      const release = Effect.fnUntraced(function* (candidate: NonNullable<NewComparison["candidate"]>) {
        const { comparison } = yield* admin.comparisons.create({
          params,
          payload: { hold_out: { kind: "none" }, candidate }
        })
        yield* Effect.repeat(admin.comparisons.get({ params: { id: comparison.id } }), {
          until: (found) => found.comparison.status === "completed"
        })
        return yield* admin.releases.create({
          params,
          payload: { comparison_id: comparison.id, force: true, reason: "To see its changes." }
        })
      })
      const unchanged = Array.from({ length: 12 }, (_, line) => `Rule ${line + 1}.`).join("\n")
      yield* release({ instructions: `Sort the message.\n${unchanged}\nThe end.` })
      const [added] = sortingExamples(["b", "shipping"])
      yield* admin.datasets.create({ params, payload: { base_dataset_id: dataset.id, examples: [added!] } })
      yield* release({
        instructions: `Sort the <b id=injected>message</b>.\n${unchanged}\n\nThe end.`,
        provider: { kind: "examples", min_score: 0.25 }
      })
      const { pageErrors, page } = yield* openSignedIn(
        yield* key({ preset: "reviewer" }, "changes"),
        `/tasks/${task.id}/releases`
      )
      const cards = page.locator(".cards > li")
      const linesOf = (index: number) =>
        cards
          .nth(index)
          .getByRole("region", { name: "Changes of the instructions" })
          .getByRole("listitem")
          .allTextContents()
      const open = (index: number) =>
        Effect.promise(async () => {
          await cards.nth(index).getByText("Changes", { exact: true }).click()
          await cards.nth(index).getByRole("heading", { name: "Settings" }).waitFor()
        })
      yield* Effect.promise(() => cards.nth(2).waitFor())

      yield* open(0)
      // The mark is for the eye, the word for a screen reader.
      assert.deepStrictEqual(yield* Effect.promise(() => linesOf(0)), [
        "−Removed: Sort the message.",
        "+Added: Sort the <b id=injected>message</b>.",
        "Rule 1.",
        "Rule 2.",
        "Rule 3.",
        "6 unchanged lines",
        "Rule 10.",
        "Rule 11.",
        "Rule 12.",
        "+Added: empty line",
        "The end."
      ])
      const first = cards.nth(0)
      assert.deepStrictEqual(
        yield* Effect.promise(() =>
          first.getByRole("region", { name: "Changes of the settings" }).getByRole("cell").allTextContents()
        ),
        ["0", "0.25"]
      )
      yield* Effect.promise(async () => {
        await first.getByRole("rowheader").filter({ hasText: "/min_scorediffers" }).waitFor()
        await first
          .getByRole("region", { name: "Changes of the dataset" })
          .getByText("Before: version 1. This release: version 2.")
          .waitFor()
      })

      yield* open(1)
      const second = cards.nth(1)
      for (const name of ["Changes of the settings", "Changes of the dataset"]) {
        yield* Effect.promise(() => second.getByRole("region", { name }).getByText("No changes.").waitFor())
      }
      yield* open(2)
      yield* Effect.promise(() =>
        cards
          .nth(2)
          .getByText(/first release: everything in it is new/)
          .waitFor()
      )
      assert.deepStrictEqual(yield* Effect.promise(() => linesOf(2)), ["+Added: Sort the message."])
      assert.strictEqual(yield* Effect.promise(() => page.locator("#injected").count()), 0)
      assert.deepStrictEqual(yield* accessibilityViolations(page), [])
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("a dataset version shows its differences from any earlier version", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const { admin } = yield* createTeamClients("versions")
      const { dataset, params } = yield* createSortingTask(admin, ["a", "billing"], ["b", "billing"])
      const [replaced] = sortingExamples(["a", "shipping"])
      const second = yield* admin.datasets.create({
        params,
        payload: { base_dataset_id: dataset.id, examples: [replaced!] }
      })
      const [added] = sortingExamples(["<b id=injected>c</b>", "other"])
      const third = yield* admin.datasets.create({
        params,
        payload: { base_dataset_id: second.id, examples: [added!] }
      })
      const { pageErrors, page } = yield* openSignedIn(
        yield* key({ preset: "reviewer" }, "versions"),
        `/datasets/${third.id}`
      )
      yield* Effect.promise(async () => {
        await page.getByText("1 added").waitFor()
        await page.getByText("0 replaced").waitFor()
        await page.getByText("<b id=injected>c</b>").waitFor()
        await page.getByLabel("Compare with").selectOption({ label: "Version 1" })
        await page.getByText("1 replaced").waitFor()
        await page.getByText("1 added").waitFor()
        const row = page.getByRole("row").filter({ hasText: "differs" })
        await row.getByText("billing").waitFor()
        await row.getByText("shipping").waitFor()
        await page.getByRole("button", { name: "Examples" }).click()
        await page.getByRole("heading", { name: "Expected answer" }).first().waitFor()
        assert.strictEqual(await page.getByRole("heading", { name: "Expected answer" }).count(), 3)
        assert.strictEqual(await page.locator("#injected").count(), 0)
      })
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test(
    "a candidate is promoted as a canary, whose feedback is shown beside the live release's until it is promoted or stopped",
    () =>
      Effect.gen(function* () {
        const { key } = yield* Countersign
        const { admin, comparison_id, params, runtime, task } = yield* comparedTask("canary", "billing")
        const { pageErrors, page } = yield* openSignedIn(
          yield* key({}, "canary"),
          `/comparisons/${comparison_id}`
        )
        const panel = page.getByRole("region", { name: "Canary" })
        yield* Effect.promise(async () => {
          await page.getByRole("button", { name: "Promote candidate" }).click()
          await page.getByRole("radio", { name: "a share of them, as a canary" }).check()
          // An empty share is no release for all.
          assert.isTrue(await page.getByRole("button", { name: "Promote", exact: true }).isDisabled())
          await page.getByLabel("Percentage of the runs, as a canary").fill("50")
          await page.getByRole("button", { name: "Promote", exact: true }).click()
          await page.getByText("Canary started").waitFor()
          await panel.getByText("answers 50 % of the runs").waitFor()
          await panel.getByText("No feedback on both yet").waitFor()
        })
        const canary = yield* admin.canaries.get({ params })
        assert.deepInclude(yield* admin.tasks.get({ params }), {
          live_release_id: task.live_release_id,
          canary_release_id: canary.release.id
        })
        const runs = yield* Effect.forEach(
          Array.from({ length: 40 }, (_, n) => `customer ${n}`),
          (canary_key) =>
            runtime.tasks.run({ params, payload: { input: { text: "a message" }, canary_key } }),
          { concurrency: 8 }
        )
        yield* Effect.forEach(
          runs,
          (run) =>
            admin.feedback.create({
              payload: {
                inference_log_id: run.trace_id,
                score: run.answer["category"] === "billing" ? 1 : -1
              }
            }),
          { concurrency: 8 }
        )
        const count = runs.filter(({ release_id }) => release_id === canary.release.id).length
        const cellsOf = (row: number) => panel.getByRole("row").nth(row).getByRole("cell").allTextContents()
        const readers = yield* openSignedIn(
          yield* key({ preset: "reviewer" }, "canary"),
          `/tasks/${task.id}/releases`
        )
        yield* Effect.promise(async () => {
          const seen = readers.page.getByRole("region", { name: "Canary" })
          await seen.getByText("Canary is better").waitFor()
          assert.strictEqual(await seen.getByRole("button").count(), 0, "without the scope tasks.write")
          await page.reload()
          await panel.getByText("Canary is better").waitFor()
          assert.deepStrictEqual((await cellsOf(1)).slice(0, 4), ["Canary", String(count), "0", "0"])
          assert.deepStrictEqual((await cellsOf(2)).slice(0, 4), ["Live", "0", "0", String(40 - count)])
          await panel.getByRole("button", { name: "Promote canary" }).click()
          await page.getByRole("button", { name: "Promote", exact: true }).click()
          await page.getByText("Canary promoted").waitFor()
          await panel.waitFor({ state: "detached" })
        })
        assert.deepInclude(yield* admin.tasks.get({ params }), {
          live_release_id: canary.release.id,
          canary_release_id: null
        })

        const next = yield* compare(admin, params, "Sort it again.")
        yield* admin.canaries.start({ params, payload: { comparison_id: next, share: 0.1 } })
        yield* Effect.promise(async () => {
          await page.reload()
          await panel.getByText("answers 10 % of the runs").waitFor()
          await panel.getByRole("button", { name: "Stop canary" }).click()
          await page.getByRole("dialog").getByRole("button", { name: "Stop canary" }).click()
          await page.getByText("Canary stopped").waitFor()
          await panel.waitFor({ state: "detached" })
        })
        assert.deepInclude(yield* admin.tasks.get({ params }), {
          live_release_id: canary.release.id,
          canary_release_id: null
        })
        assert.deepStrictEqual([...pageErrors, ...readers.pageErrors], [])
      }).pipe(Effect.scoped, Effect.orDie),
    120_000
  )

  test("a candidate that lost is released only with a reason, which the audit log keeps", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const { admin, comparison_id, params, task } = yield* comparedTask("forced", "other")
      const { pageErrors, page } = yield* openSignedIn(
        yield* key({}, "forced"),
        `/comparisons/${comparison_id}`
      )
      const dialog = page.getByRole("dialog")
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "Promote candidate" }).click()
        await dialog.getByRole("button", { name: "Promote", exact: true }).click()
        await dialog.getByText("The candidate agreed with 0 examples, the live release with 1.").waitFor()
        const force = dialog.getByRole("button", { name: "Promote nevertheless" })
        assert.isTrue(await force.isDisabled())
        await dialog.getByLabel("Reason to promote it nevertheless").fill("   ")
        assert.isTrue(await force.isDisabled())
      })
      assert.strictEqual((yield* admin.tasks.get({ params })).live_release_id, task.live_release_id)
      yield* Effect.promise(async () => {
        await dialog.getByLabel("Reason to promote it nevertheless").fill("The examples are <b>wrong</b>.")
        await dialog.getByRole("button", { name: "Promote nevertheless" }).click()
        await page.getByText("Candidate promoted").waitFor()
        await page.getByRole("listitem").filter({ hasText: "Nearest example" }).getByText("✓ Live").waitFor()
      })
      const { live_release_id } = yield* admin.tasks.get({ params })
      assert.notStrictEqual(live_release_id, task.live_release_id)
      const { entries } = yield* admin.auditLog.list({ query: { target_id: live_release_id } })
      assert.deepStrictEqual(
        entries.map(({ detail }) => detail),
        [{ task_id: task.id, comparison_id, force: true, reason: "The examples are <b>wrong</b>." }]
      )
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("a comparison says what was compared, and whether that is still what is live", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const { admin, comparison_id, params, task } = yield* comparedTask("baseline", "billing")
      const { pageErrors, page } = yield* openSignedIn(
        yield* key({}, "baseline"),
        `/comparisons/${comparison_id}`
      )
      const compared = page.getByRole("region", { name: "Compared" })
      yield* Effect.promise(async () => {
        await compared.getByText("live now").waitFor()
        await compared
          .getByRole("region", { name: "Changes of the instructions" })
          .getByText("Sort it.")
          .waitFor()
        await compared
          .getByRole("link", { name: /^version 2$/ })
          .first()
          .waitFor()
      })
      assert.deepStrictEqual(yield* accessibilityViolations(page), [])
      // Meanwhile another candidate becomes live.
      const other = yield* compare(admin, params, "Sort it well.")
      yield* admin.releases.create({ params, payload: { comparison_id: other } })
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "Promote candidate" }).click()
        await page.getByRole("dialog").getByText("That release is no longer live").waitFor()
        await page.getByRole("button", { name: "Cancel" }).click()
        await compared.getByText("no longer live").waitFor()
        await goTo(page, `/comparisons/${other}`)
        await page.getByText("This candidate is live since").waitFor()
        assert.strictEqual(await page.getByRole("button", { name: "Promote candidate" }).count(), 0)
        await goTo(page, `/tasks/${task.id}/comparisons`)
        const live = page.getByRole("row").filter({ hasText: other })
        await live.getByText("Live", { exact: false }).first().waitFor()
        await live.getByText("nearest").waitFor()
      })
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))
})
