import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import type { Page } from "playwright-core"
import { Countersign } from "../../src/testing/index.ts"
import {
  accessibilityViolations,
  Browser,
  horizontalOverflow,
  openSignedIn,
  skipWithoutBrowser
} from "../support/browser.ts"
import { createDesk } from "../support/feedback.ts"
import { service } from "../support/service.ts"
import { sortingTask } from "../support/tasks.ts"

const environment = Layer.provideMerge(Browser.layer, service())

/** Two tasks with a run each: the older has a correction, the newer took two seconds. */
const runsOfTwoTasks = Effect.fnUntraced(function* (organization: string) {
  const { key } = yield* Countersign
  const desk = yield* createDesk(organization)
  const corrected = yield* desk.run("where is my parcel")
  yield* desk.correct(corrected, { category: "shipping" })
  const other = yield* desk.admin.tasks.create({ payload: { ...sortingTask, name: "answer letters" } })
  const log = (text: string, duration_ms = 2_000) =>
    desk.admin.tasks.run({
      params: { task_id: other.id },
      payload: {
        input: { text },
        answer: { category: "other" },
        answered_by: { model: "a-model", duration_ms }
      }
    })
  yield* log("how are you")
  return { ...desk, other, log, reviewerKey: yield* key({ preset: "reviewer", name: "Ada" }, organization) }
})

const rowsOf = (page: Page) => page.getByRole("list", { name: "Runs" }).getByRole("listitem")

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("Runs", (it) => {
  const test = skipWithoutBrowser(it)

  test("runs of all tasks are listed in one line each, and new ones appear", () =>
    Effect.gen(function* () {
      const { log, reviewerKey } = yield* runsOfTwoTasks("list")
      const { page, pageErrors } = yield* openSignedIn(reviewerKey, "/overview")
      yield* Effect.promise(async () => {
        await page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Runs" }).click()
        await rowsOf(page).nth(1).waitFor()
        const newest = await rowsOf(page).first().innerText()
        for (const part of [/answer letters/, /text: how are you\s+→\s+category: other/, /a-model/, /2 s/]) {
          assert.match(newest, part)
        }
        const corrected = await rowsOf(page).nth(1).innerText()
        for (const part of [/sort messages/, /✕ Incorrect, corrected/]) assert.match(corrected, part)
      })
      yield* log("a new letter")
      yield* Effect.promise(async () => {
        await rowsOf(page).first().getByText("a new letter").waitFor()
        await rowsOf(page).first().getByRole("link").click()
        await page.getByRole("heading", { name: "Input" }).waitFor()
        await page.goBack()
        await rowsOf(page).nth(2).waitFor()
      })
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("the filters are in the address: a reload and a link keep them", () =>
    Effect.gen(function* () {
      const { log, other, reviewerKey } = yield* runsOfTwoTasks("filters")
      yield* log("a slow letter", 31_000)
      const { page } = yield* openSignedIn(reviewerKey, "/runs")
      const shows = async (...texts: ReadonlyArray<string>) => {
        for (const [index, text] of texts.entries()) await rowsOf(page).nth(index).getByText(text).waitFor()
        assert.strictEqual(await rowsOf(page).count(), texts.length)
      }
      yield* Effect.promise(async () => {
        await rowsOf(page).nth(2).waitFor()
        await page.getByLabel("Feedback", { exact: true }).selectOption("incorrect")
        await rowsOf(page).nth(1).waitFor({ state: "detached" })
        await shows("where is my parcel")
        await page.reload()
        await shows("where is my parcel")
        await page.goBack()
        await rowsOf(page).nth(2).waitFor()
        await page.getByLabel("Duration").selectOption("30000")
        await rowsOf(page).nth(1).waitFor({ state: "detached" })
        await shows("a slow letter")
        await page.getByRole("button", { name: "Clear filters" }).click()
        await rowsOf(page).nth(2).waitFor()
        await page.getByLabel("Text in the input, answer or failure").fill("HOW ARE")
        await rowsOf(page).nth(1).waitFor({ state: "detached" })
        await shows("how are you")
        await page.goto(`/console/runs?task=${other.id}`)
        await shows("a slow letter", "how are you")
        assert.strictEqual(await page.getByLabel("Task").inputValue(), other.id)
        await page.getByLabel("Release").selectOption(other.live_release_id)
        await page.getByText("No runs match these filters").waitFor()
      })
    }).pipe(Effect.scoped, Effect.orDie))

  test("on a phone a row and the filters fit", () =>
    Effect.gen(function* () {
      const { log, reviewerKey } = yield* runsOfTwoTasks("phone")
      yield* log("a letter of many words ".repeat(20))
      const { page } = yield* openSignedIn(reviewerKey, "/runs", {
        viewport: { width: 390, height: 844 },
        hasTouch: true,
        isMobile: true
      })
      yield* Effect.promise(async () => {
        await rowsOf(page).nth(2).waitFor()
        assert.strictEqual(await horizontalOverflow(page), 0)
      })
      assert.deepStrictEqual(yield* accessibilityViolations(page), [])
    }).pipe(Effect.scoped, Effect.orDie))
})
