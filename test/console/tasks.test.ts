import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { createServer, type ServerResponse } from "node:http"
import { TaskId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import { Browser, skipWithoutBrowser, openSignedIn } from "../support/browser.ts"
import { service } from "../support/service.ts"
import { sortingExamples, createSortingTask, createTeamClients } from "../support/tasks.ts"
import { listenOnFreePort } from "../support/listenOnFreePort.ts"

const environment = Layer.provideMerge(
  Browser.layer,
  service({ environment: { COUNTERSIGN_PROVIDER_ALLOW: "127.0.0.0/8" } })
)

/** A model on loopback that answers "billing" to everything, but nothing from the second request on until it is let. */
const model = Effect.acquireRelease(
  Effect.promise(async () => {
    const held: Array<ServerResponse> = []
    let asked = 0
    let open = false
    const answer = (response: ServerResponse) =>
      response.writeHead(200, { "content-type": "application/json" }).end(
        JSON.stringify({
          choices: [
            { finish_reason: "stop", message: { role: "assistant", content: '{"category":"billing"}' } }
          ],
          usage: { prompt_tokens: 11, completion_tokens: 3, total_tokens: 14 }
        })
      )
    const server = createServer((request, response) => {
      request.resume().on("end", () => {
        asked++
        if (open || asked === 1) answer(response)
        else held.push(response)
      })
    })
    const port = await listenOnFreePort(server)
    const letGo = () => {
      open = true
      for (const response of held.splice(0)) answer(response)
    }
    return { server, letGo, url: `http://127.0.0.1:${port}/v1` }
  }),
  ({ server }) =>
    Effect.sync(() => {
      server.closeAllConnections()
      server.close()
    })
)

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("tasks in a browser", (it) => {
  const test = skipWithoutBrowser(it)

  test(
    "a task is made in a form that says what is wrong with a shape, and where; examples make its first version",
    () =>
      Effect.gen(function* () {
        const { client, key } = yield* Countersign
        const { faults, page } = yield* openSignedIn(yield* key({}, "form"), "/tasks")
        const id = yield* Effect.promise(async () => {
          await page.getByRole("link", { name: "New task" }).click()
          await page.getByLabel("Name").fill("Sort messages")
          const answers = page.getByLabel("The shape of answers")
          await answers.fill('{ "type": "object", }')
          await page.getByLabel("Instructions").fill("Sort the message.")
          await page.getByText(/This is not JSON/).waitFor()
          await answers.fill('{ "type": "object", "properties": { "category": { "type": "word" } } }')
          await page.getByRole("button", { name: "Make the task" }).click()
          await page.locator(".fault").getByText("/properties/category/type").waitFor()
          await answers.and(page.locator("[aria-invalid]")).waitFor()
          await answers.fill('{ "type": "object", "properties": { "category": { "type": "string" } } }')
          await page.getByRole("button", { name: "Make the task" }).click()
          await page.getByRole("heading", { level: 1, name: "Sort messages" }).waitFor()
          await page.getByRole("button", { name: "Datasets" }).click()
          await page.getByRole("button", { name: "Add examples" }).click()
          const examples = page.getByLabel("Examples", { exact: true })
          await examples.fill('{"input":{"text":"a"},"answer":{"category":"x"}}\n{"input":{"text":"b"}}')
          await page.getByRole("button", { name: "Make the version" }).click()
          await page.getByText(/Line 2 is not an object with "input" and "answer"/).waitFor()
          await examples.fill(
            '{"input":{"text":"a"},"answer":{"category":"x"}}\n{"input":{"text":"b"},"answer":{"category":2}}'
          )
          await page.getByRole("button", { name: "Make the version" }).click()
          await page.getByText(/Example 2, \/answer\/category/).waitFor()
          await examples.fill('[{"input":{"text":"a"},"answer":{"category":"x"}}]')
          await page.getByRole("button", { name: "Make the version" }).click()
          await page.getByRole("link", { name: "Version 1" }).click()
          await page.getByRole("heading", { name: "Version 1" }).waitFor()
          await page.getByRole("link", { name: "← Datasets of the task" }).click()
          await page.getByText("newest").waitFor()
          return TaskId.make(page.url().split("/").at(-2) ?? "")
        })
        const admin = yield* client({}, "form")
        const task = yield* admin.tasks.get({ params: { task_id: id } })
        assert.deepInclude(task, { name: "Sort messages", instructions: "Sort the message." })
        assert.deepInclude(task.provider, { kind: "examples" })
        assert.deepStrictEqual(faults, [])
      }).pipe(Effect.scoped, Effect.orDie),
    60_000
  )

  test(
    "a model is set in the working copy, compared while its progress shows, and made live; the history keeps the way back",
    () =>
      Effect.gen(function* () {
        const { key } = yield* Countersign
        const peer = yield* model
        const { admin } = yield* createTeamClients("compare")
        const { params, task } = yield* createSortingTask(
          admin,
          ["the invoice is wrong", "billing"],
          ["where is my parcel", "shipping"],
          ["it came too late", "shipping"],
          ["you charged me twice", "billing"]
        )
        const { faults, page } = yield* openSignedIn(yield* key({}, "compare"), `/tasks/${task.id}`)
        yield* Effect.promise(async () => {
          await page.getByRole("link", { name: "Change the working copy" }).click()
          await page.getByText("The shapes of inputs and answers stay").waitFor()
          await page.getByLabel(/^a model/).check()
          await page.getByLabel("Base URL").fill(peer.url)
          await page.getByLabel("Model", { exact: true }).fill("small")
          await page.getByLabel("API key of the provider").fill("sk-of-the-provider")
          await page.getByLabel("Price of a million tokens in").fill("3")
          await page.getByRole("button", { name: "Save the working copy" }).click()
          await page.getByText("is kept, sealed").waitFor()
          assert.notInclude(await page.content(), "sk-of-the-provider")
          await page.getByRole("button", { name: "Comparisons" }).click()
          await page.getByRole("button", { name: "Compare now" }).click()
          // Examples are answered side by side; none of the first group is told before all are there.
          const progress = page.getByRole("progressbar")
          await progress.waitFor()
          assert.strictEqual(await progress.getAttribute("max"), "4")
          assert.strictEqual(await page.getByRole("button", { name: "Make the candidate live" }).count(), 0)
          peer.letGo()
          const agreement = page.getByRole("region", { name: "Agreement" })
          await page.getByText("completed").waitFor()
          await agreement.getByText("50 %", { exact: true }).first().waitFor()
          await agreement.getByText("100 %", { exact: true }).first().waitFor()
          await agreement.getByText(/The difference is −?-?50 points/).waitFor()
          await page.getByText("differs in 1").first().waitFor()
          await page.getByRole("button", { name: "Make the candidate live" }).click()
          await page.getByRole("button", { name: "Release it" }).click()
          await page.getByRole("listitem").filter({ hasText: "small" }).getByText("✓ live").waitFor()
          const first = page.getByRole("listitem").filter({ hasText: "it is the first" })
          await first.waitFor()
          assert.strictEqual(await page.getByRole("button", { name: "Make live again" }).count(), 1)
        })
        const run = yield* admin.tasks.run({ params, payload: { input: { text: "where is my parcel" } } })
        assert.deepStrictEqual(run.answer, { category: "billing" })
        yield* Effect.promise(async () => {
          await page.getByRole("button", { name: "Make live again" }).click()
          await page.getByRole("button", { name: "Release it" }).click()
          await page
            .getByRole("listitem")
            .filter({ hasText: "it is an earlier one again" })
            .getByText("✓ live")
            .waitFor()
        })
        const back = yield* admin.tasks.run({ params, payload: { input: { text: "where is my parcel" } } })
        assert.deepStrictEqual(back.answer, { category: "shipping" })
        assert.deepStrictEqual(faults, [])
      }).pipe(Effect.scoped, Effect.orDie),
    60_000
  )

  test("two versions of a dataset are told apart, whichever two", () =>
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
      const { faults, page } = yield* openSignedIn(
        yield* key({ preset: "reviewer" }, "versions"),
        `/datasets/${third.id}`
      )
      yield* Effect.promise(async () => {
        await page.getByText("1 added").waitFor()
        await page.getByText("0 replaced").waitFor()
        await page.getByText("<b id=injected>c</b>").waitFor()
        await page.getByLabel("Since").selectOption({ label: "version 1" })
        await page.getByText("1 replaced").waitFor()
        await page.getByText("1 added").waitFor()
        const row = page.getByRole("row").filter({ hasText: "differs" })
        await row.getByText("billing").waitFor()
        await row.getByText("shipping").waitFor()
        await page.getByRole("button", { name: "Examples" }).click()
        await page.getByRole("heading", { name: "Right answer" }).first().waitFor()
        assert.strictEqual(await page.getByRole("heading", { name: "Right answer" }).count(), 3)
        assert.strictEqual(await page.locator("#injected").count(), 0)
      })
      assert.deepStrictEqual(faults, [])
    }).pipe(Effect.scoped, Effect.orDie))
})
