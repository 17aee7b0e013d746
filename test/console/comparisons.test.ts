import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import type { ClientCalls } from "../../src/client/Client.ts"
import type { ComparisonId, DatasetId, TaskId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import { accessibilityViolations, Browser, openSignedIn, skipWithoutBrowser } from "../support/browser.ts"
import { service } from "../support/service.ts"
import { createSortingTask, createTeamClients, sortingExamples } from "../support/tasks.ts"

const environment = Layer.provideMerge(Browser.layer, service())

const completed = (admin: ClientCalls, id: ComparisonId) =>
  Effect.repeat(admin.comparisons.get({ params: { id } }), {
    until: ({ comparison }) => comparison.status === "completed"
  })

const compare = Effect.fnUntraced(function* (
  admin: ClientCalls,
  params: { readonly id: TaskId },
  dataset_id?: DatasetId
) {
  const { comparison } = yield* admin.comparisons.create({
    params,
    payload: {
      hold_out: { kind: "none" },
      candidate: { instructions: "Sort it.", ...(dataset_id === undefined ? {} : { dataset_id }) }
    }
  })
  yield* completed(admin, comparison.id)
  return comparison.id
})

/**
 * A task whose live release answers from the second version of its dataset, and a comparison of a candidate that answers from the first,
 * over the third: of its examples two are fixed, one is broken, one is right and one is wrong on both sides.
 */
const fourVerdicts = Effect.fnUntraced(function* (organization: string) {
  const { admin } = yield* createTeamClients(organization)
  const { dataset, params, task } = yield* createSortingTask(
    admin,
    ["where is my parcel", "shipping"],
    ["the invoice is wrong", "other"],
    ["my card was charged twice", "other"]
  )
  const change = (base_dataset_id: DatasetId, ...pairs: ReadonlyArray<readonly [string, string]>) => {
    const [first, ...others] = sortingExamples(...pairs)
    return admin.datasets.create({ params, payload: { base_dataset_id, examples: [first!, ...others] } })
  }
  const second = yield* change(
    dataset.id,
    ["the invoice is wrong", "billing"],
    ["my card was charged twice", "billing"],
    ["thank you very much", "billing"]
  )
  const better = yield* compare(admin, params)
  yield* admin.releases.create({ params, payload: { comparison_id: better, force: true, reason: "A test." } })
  const third = yield* change(
    second.id,
    ["the invoice is wrong", "other"],
    ["my card was charged twice", "other"],
    ["where is my parcel now", "billing"]
  )
  const comparison_id = yield* compare(admin, params, dataset.id)
  return { admin, params, task, dataset, second, third, comparison_id }
})

layer(environment, { excludeTestServices: true, timeout: "180 seconds" })(
  "Comparisons on the console",
  (it) => {
    const test = skipWithoutBrowser(it)

    test("tabs count what became of the examples and are in the address, and j and k go through one tab", () =>
      Effect.gen(function* () {
        const { key } = yield* Countersign
        const { admin, comparison_id } = yield* fourVerdicts("verdicts")
        const { comparison } = yield* admin.comparisons.get({ params: { id: comparison_id } })
        assert.deepStrictEqual(comparison.summary.verdicts, {
          win: 2,
          regression: 1,
          both_agree: 1,
          neither_agrees: 1
        })
        const { pageErrors, page } = yield* openSignedIn(
          yield* key({ preset: "reviewer" }, "verdicts"),
          `/comparisons/${comparison_id}`
        )
        const open = page.getByRole("button", { name: "Hide details" })
        yield* Effect.promise(async () => {
          const tabs = page.getByRole("group", { name: "Result" })
          await tabs.getByText("All 5").waitFor()
          assert.deepStrictEqual(await tabs.getByRole("button").allInnerTexts(), [
            "All 5",
            "Fixed 2",
            "Broken 1",
            "Both wrong 1",
            "Both right 1"
          ])
          await tabs.getByText("Broken 1").click()
          await page.getByText("thank you very much").waitFor()
          assert.strictEqual(await page.locator("[data-example]").count(), 1)
          assert.include(page.url(), "verdict=regression")
          await tabs.getByText("Fixed 2").click()
          await page.getByText("my card was charged twice").waitFor()
          await page.getByText("thank you very much").waitFor({ state: "detached" })
          await page.keyboard.press("j")
          await open.waitFor()
          const first = new URL(page.url()).searchParams.get("example")
          await page.keyboard.press("j")
          await page.waitForFunction((before) => !location.search.includes(String(before)), first)
          assert.strictEqual(await open.count(), 1)
          assert.isTrue(await open.evaluate((button) => button === document.activeElement))
          const second = new URL(page.url()).searchParams.get("example")
          assert.notStrictEqual(second, first)
          await page.keyboard.press("k")
          await page.waitForFunction((back) => location.search.includes(String(back)), first)
          await page.keyboard.press("Escape")
          await open.waitFor({ state: "detached" })
          // A link to an example of a tab.
          await page.goto(`/console/comparisons/${comparison_id}?verdict=win&example=${second}`)
          await page.locator(`[data-example="${second}"]`).getByText("Expected answer").first().waitFor()
          assert.strictEqual(await open.count(), 1)
          // Back leaves the tab, not each example.
          await page.getByRole("group", { name: "Result" }).getByText("Both right 1").click()
          await page.locator(`[data-example="${second}"]`).waitFor({ state: "detached" })
          await page.locator("[data-example]").waitFor()
          await page.keyboard.press("j")
          await open.waitFor()
          await page.goBack()
          await page.waitForFunction(() => location.search.includes("verdict=win"))
        })
        assert.deepStrictEqual(yield* accessibilityViolations(page), [])
        assert.deepStrictEqual(pageErrors, [])
      }).pipe(Effect.scoped, Effect.orDie))

    test("a key without datasets.read sees which examples agree, and none of their contents", () =>
      Effect.gen(function* () {
        const { key } = yield* Countersign
        const { comparison_id } = yield* fourVerdicts("no contents")
        const { pageErrors, page } = yield* openSignedIn(
          yield* key({ scopes: ["tasks.read"] }, "no contents"),
          `/comparisons/${comparison_id}`
        )
        yield* Effect.promise(async () => {
          await page.getByText("Inputs and answers are not shown").waitFor()
          await page.locator("[data-example]").nth(4).waitFor()
          assert.strictEqual(await page.locator("[data-example]").getByText("Failed").count(), 1)
          assert.strictEqual(await page.getByText("Differs in 1 field").count(), 4)
          await page.keyboard.press("j")
          await page.waitForFunction(() => location.search.includes("example="))
          assert.strictEqual(await page.getByText("Expected answer").count(), 0)
        })
        assert.deepStrictEqual(yield* accessibilityViolations(page), [])
        assert.deepStrictEqual(pageErrors, [])
      }).pipe(Effect.scoped, Effect.orDie))

    test("the compared data differ by examples, and the agreement of the releases is a chart with its table", () =>
      Effect.gen(function* () {
        const { key } = yield* Countersign
        const { admin, params, second, task } = yield* fourVerdicts("data")
        const newest = yield* compare(admin, params)
        const secret = yield* key({ preset: "reviewer" }, "data")
        const { pageErrors, page } = yield* openSignedIn(secret, `/comparisons/${newest}`)
        yield* Effect.promise(async () => {
          const data = page.getByRole("region", { name: "Changes of the dataset" })
          await data.getByText("Examples that changed").click()
          await data.getByText("1 added").waitFor()
          await data.getByText("2 replaced").waitFor()
          await data.getByText("where is my parcel now").waitFor()
          await page.goto(`/console/tasks/${task.id}/releases`)
          const history = page.getByRole("region", { name: "Agreement over releases" })
          await history.getByText("newest 100 %").waitFor()
          await history.getByText("Table").click()
          const rows = history.getByRole("row")
          // The first release was made without a comparison.
          assert.strictEqual(await rows.count(), 3)
          await rows.last().getByText("100 %").waitFor()
          await rows.last().getByRole("link").click()
          await page.waitForURL(/\/comparisons\//)
        })
        assert.strictEqual(second.version, 2)
        assert.deepStrictEqual(yield* accessibilityViolations(page), [])
        assert.deepStrictEqual(pageErrors, [])
      }).pipe(Effect.scoped, Effect.orDie))

    test("a comparison on the new version is offered right after a promotion", () =>
      Effect.gen(function* () {
        const { key } = yield* Countersign
        const { admin, reviewer, runtime } = yield* createTeamClients("promoted")
        const { params, task } = yield* createSortingTask(
          admin,
          ["where is my parcel", "shipping"],
          ["a question", "other"]
        )
        const run = yield* runtime.tasks.run({ params, payload: { input: { text: "the invoice is wrong" } } })
        const { id } = yield* admin.feedback.create({
          payload: { inference_log_id: run.trace_id, score: -1, correction: { category: "billing" } }
        })
        yield* reviewer.feedback.stage({ params: { id } })
        const { pageErrors, page } = yield* openSignedIn(yield* key({}, "promoted"), `/promotion/${task.id}`)
        yield* Effect.promise(async () => {
          await page.getByRole("button", { name: "Promote 1 correction" }).click()
          await page.getByRole("button", { name: "Compare now" }).waitFor()
        })
        assert.deepStrictEqual(yield* accessibilityViolations(page), [])
        yield* Effect.promise(async () => {
          await page.getByRole("button", { name: "Compare now" }).click()
          await page.waitForURL(/\/comparisons\/cmp_/)
          await page.getByText("version 2").first().waitFor()
        })
        assert.deepStrictEqual(pageErrors, [])
      }).pipe(Effect.scoped, Effect.orDie))
  }
)
