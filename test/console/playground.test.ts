import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { Countersign } from "../../src/testing/index.ts"
import {
  accessibilityViolations,
  Browser,
  horizontalOverflow,
  openSignedIn,
  skipWithoutBrowser
} from "../support/browser.ts"
import { service } from "../support/service.ts"
import { createSortingTask, createTeamClients } from "../support/tasks.ts"

const environment = Layer.provideMerge(Browser.layer, service())

/** A task whose live release has the first version of its dataset, and its working copy a second with another answer. */
const createTwoVersions = Effect.fnUntraced(function* (organization: string) {
  const { key } = yield* Countersign
  const clients = yield* createTeamClients(organization)
  const made = yield* createSortingTask(clients.admin, ["where is my parcel", "shipping"])
  yield* clients.admin.datasets.create({
    params: made.params,
    payload: {
      base_dataset_id: made.dataset.id,
      examples: [{ input: { text: "where is my parcel" }, answer: { category: "billing" } }]
    }
  })
  const { trace_id } = yield* clients.runtime.tasks.run({
    params: made.params,
    payload: { input: { text: "where is my parcel" } }
  })
  return { ...clients, ...made, trace_id, secret: yield* key({ name: "Ada" }, organization) }
})

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("Playground page", (it) => {
  const test = skipWithoutBrowser(it)

  test("a run's input is answered by the live release and the working copy, whose difference is shown", () =>
    Effect.gen(function* () {
      const { admin, params, secret, trace_id } = yield* createTwoVersions("differ")
      const { page, pageErrors } = yield* openSignedIn(secret, `/runs/${trace_id}`)
      yield* Effect.promise(async () => {
        await page.getByRole("link", { name: "Open in playground" }).click()
        await page.getByLabel("text", { exact: true }).waitFor()
        assert.strictEqual(await page.getByLabel("text", { exact: true }).inputValue(), "where is my parcel")
        await page.getByRole("button", { name: "Try both" }).click()
        const left = page.getByRole("region", { name: "Answer of the left side" })
        const right = page.getByRole("region", { name: "Answer of the right side" })
        await left.getByText("dataset version 1").waitFor()
        await right.getByText("dataset version 2").waitFor()
        await left.getByRole("group", { name: "Answer" }).getByText("shipping").waitFor()
        await right.getByRole("group", { name: "Answer" }).getByText("billing").waitFor()
        const difference = page.getByRole("region", { name: "Difference" })
        await difference.getByRole("row").filter({ hasText: "category" }).getByText("differs").waitFor()
        await left.getByText("1 recalled example").click()
        await left.getByText(/Similarity 1/).waitFor()
      })
      assert.deepStrictEqual(yield* accessibilityViolations(page), [])
      // Trying logs no run.
      assert.lengthOf((yield* admin.runs.list({ params, query: {} })).runs, 1)
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("both sides are chosen in the address, and a typed input is kept", () =>
    Effect.gen(function* () {
      const { dataset, secret, task } = yield* createTwoVersions("choose")
      const { page } = yield* openSignedIn(secret, `/tasks/${task.id}/playground`, {
        viewport: { width: 390, height: 844 },
        hasTouch: true,
        isMobile: true
      })
      yield* Effect.promise(async () => {
        await page.getByLabel("text", { exact: true }).fill("where is my parcel")
        await page.getByRole("group", { name: "Right side" }).getByLabel("Dataset").selectOption(dataset.id)
        await page.reload()
        assert.strictEqual(await page.getByLabel("text", { exact: true }).inputValue(), "where is my parcel")
        await page.getByRole("button", { name: "Try both" }).click()
        await page.getByText("Both answers are the same.").waitFor()
        assert.strictEqual(await horizontalOverflow(page), 0)
      })
      assert.deepStrictEqual(yield* accessibilityViolations(page), [])
    }).pipe(Effect.scoped, Effect.orDie))
})
