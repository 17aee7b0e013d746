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
      params: { id: other.id },
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

  test("on a phone a row fits, and the filters are behind a button that counts those that are set", () =>
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
        const duration = page.getByLabel("Duration")
        assert.isFalse(await duration.isVisible())
        await page.getByRole("button", { name: "Filters", exact: true }).click()
        await duration.selectOption("1000")
        await rowsOf(page).nth(2).waitFor({ state: "detached" })
        assert.strictEqual(await horizontalOverflow(page), 0)
      })
      assert.deepStrictEqual(yield* accessibilityViolations(page), [])
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "Filters (1)", expanded: true }).click()
        await page.getByRole("button", { name: "Filters (1)", expanded: false }).waitFor()
        assert.isFalse(await page.getByLabel("Duration").isVisible())
        // The filter stays set.
        assert.strictEqual(await rowsOf(page).count(), 2)
      })
    }).pipe(Effect.scoped, Effect.orDie))

  test("an answer is judged by one key, once it has been on the screen", () =>
    Effect.gen(function* () {
      const { reviewer, reviewerKey, run } = yield* runsOfTwoTasks("judge")
      const trace_id = yield* run("one more")
      const { page } = yield* openSignedIn(reviewerKey, `/runs/${trace_id}`)
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: /^Incorrect/ }).waitFor()
        await page.locator("[aria-keyshortcuts=i]").waitFor()
        await page.keyboard.press("i")
        await page.getByText("Marked as incorrect").waitFor()
        await page.getByRole("link", { name: "✕ Incorrect" }).waitFor()
      })
      const { feedback } = yield* reviewer.feedback.list({ query: { inference_log_id: trace_id } })
      assert.deepStrictEqual(
        feedback.map(({ correction, score }) => [score, correction]),
        [[-1, null]]
      )
    }).pipe(Effect.scoped, Effect.orDie))

  test("a message with a button goes after five seconds, but not while the pointer or the focus is on it", () =>
    Effect.gen(function* () {
      const { reviewerKey, run } = yield* runsOfTwoTasks("toast")
      const trace_id = yield* run("one more")
      const { page } = yield* openSignedIn(reviewerKey, `/runs/${trace_id}`)
      yield* Effect.promise(async () => {
        await page.clock.install()
        await page.getByRole("button", { name: /^Incorrect/ }).click()
        const undo = page.getByRole("button", { name: "Undo" })
        await undo.hover()
        await page.clock.runFor(12_000)
        assert.isTrue(await undo.isVisible())
        await undo.focus()
        await page.mouse.move(0, 0)
        await page.clock.runFor(12_000)
        assert.isTrue(await undo.isVisible())
        await undo.blur()
        await page.clock.runFor(6_000)
        await undo.waitFor({ state: "detached" })
      })
    }).pipe(Effect.scoped, Effect.orDie))

  test("an answer is corrected in fields made from its schema, staged at once, and taken back", () =>
    Effect.gen(function* () {
      const { reviewer, reviewerKey, run } = yield* runsOfTwoTasks("correct")
      const trace_id = yield* run("one more")
      const { page, pageErrors } = yield* openSignedIn(reviewerKey, `/runs/${trace_id}`)
      const last = Effect.map(
        reviewer.feedback.list({ query: { inference_log_id: trace_id } }),
        ({ feedback }) => feedback[0] ?? assert.fail("no feedback")
      )
      yield* Effect.promise(async () => {
        await page.locator("[aria-keyshortcuts=e]").waitFor()
        await page.keyboard.press("e")
        assert.isTrue(await page.getByRole("button", { name: "Fix and stage" }).isDisabled())
        await page.getByLabel("category").selectOption("billing")
        await page.getByRole("button", { name: "Add confidence" }).click()
        await page.getByLabel("confidence", { exact: true }).fill("high")
        await page.getByRole("button", { name: "Fix and stage" }).click()
        await page.getByText("Must be a number").waitFor()
        await page.getByLabel("confidence", { exact: true }).fill("0.9")
        await page.getByRole("row").filter({ hasText: "category" }).getByText("differs").waitFor()
        await page.getByLabel("Comment").fill("It is about money")
        await page.getByRole("button", { name: "Fix and stage" }).click()
        await page.getByText("Correction saved and staged").waitFor()
      })
      const staged = yield* last
      assert.deepInclude(staged, {
        status: "staged",
        correction: { category: "billing", confidence: 0.9 },
        comment: "It is about money"
      })
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "Undo" }).click()
        await page.getByText("Correction taken back").waitFor()
      })
      assert.strictEqual((yield* last).status, "rejected")
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("the service's validation errors are shown at the fields that they point to", () =>
    Effect.gen(function* () {
      const { reviewerKey, run } = yield* runsOfTwoTasks("invalid")
      const trace_id = yield* run("one more")
      const { page } = yield* openSignedIn(reviewerKey, `/runs/${trace_id}`)
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: /^Correct the answer/ }).click()
        await page.getByRole("button", { name: "Edit as JSON" }).click()
        await page.getByLabel(/^Right answer/).fill('{"confidence": 2, "category": "billing", "more": 1}')
        await page.getByRole("button", { name: "Edit in a form" }).click()
        await page.getByRole("button", { name: "Save correction" }).click()
        const field = page.locator(".field.invalid").filter({ hasText: "more" })
        await field.locator(".field-error").waitFor()
        assert.strictEqual(await page.locator(".field.invalid").count(), 1)
        await page.getByRole("button", { name: "Remove more" }).click()
        await page.getByRole("button", { name: "Save correction" }).click()
        await page.getByText("Correction saved").waitFor()
      })
    }).pipe(Effect.scoped, Effect.orDie))

  test("if the correction is saved and not staged, the page says so and offers to stage it", () =>
    Effect.gen(function* () {
      const { admin, params, reviewer, reviewerKey, run } = yield* runsOfTwoTasks("half")
      yield* admin.tasks.update({ params, payload: { self_review: false } })
      const trace_id = yield* run("one more")
      const { page } = yield* openSignedIn(reviewerKey, `/runs/${trace_id}`)
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: /^Correct the answer/ }).click()
        await page.getByLabel("category").selectOption("billing")
        await page.getByRole("button", { name: "Fix and stage" }).click()
        await page.getByText("The correction is saved").waitFor()
        await page.getByText("It is not staged").waitFor()
        await page.getByRole("button", { name: "Stage again" }).waitFor()
      })
      assert.deepStrictEqual(yield* accessibilityViolations(page), [])
      const { feedback } = yield* reviewer.feedback.list({ query: { inference_log_id: trace_id } })
      assert.deepStrictEqual(
        feedback.map(({ status }) => status),
        ["pending"]
      )
    }).pipe(Effect.scoped, Effect.orDie))

  test("a correction that is not saved is back after a reload, and can be discarded", () =>
    Effect.gen(function* () {
      const { reviewerKey, run } = yield* runsOfTwoTasks("kept")
      const trace_id = yield* run("one more")
      const { page } = yield* openSignedIn(reviewerKey, `/runs/${trace_id}`)
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: /^Correct the answer/ }).click()
        await page.getByLabel("category").selectOption("billing")
        await page.reload()
        await page.getByText("Your unsaved changes are back").waitFor()
        assert.strictEqual(await page.getByLabel("category").locator("option:checked").innerText(), "billing")
        await page.getByRole("button", { name: "Discard changes" }).click()
        assert.strictEqual(await page.getByLabel("category").locator("option:checked").innerText(), "other")
        await page.reload()
        await page.getByRole("button", { name: /^Correct the answer/ }).waitFor()
      })
    }).pipe(Effect.scoped, Effect.orDie))

  test("a submitter's correction is fixed: the new one is staged, and the other rejected", () =>
    Effect.gen(function* () {
      const { correct, reviewer, reviewerKey, run } = yield* runsOfTwoTasks("fix")
      const trace_id = yield* run("one more")
      const { id } = yield* correct(trace_id, { category: "billing", confidence: 0.5 })
      const { page, pageErrors } = yield* openSignedIn(reviewerKey, `/feedback/${id}`)
      yield* Effect.promise(async () => {
        await page.getByRole("link", { name: "Fix and stage" }).click()
        await page.getByText("None yet: the correction equals the one that it replaces.").waitFor()
        assert.strictEqual(await page.getByLabel("confidence", { exact: true }).inputValue(), "0.5")
        await page.getByLabel("category").selectOption("shipping")
        await page.getByRole("button", { name: "Fix and stage" }).click()
        await page.getByText("Correction staged; the one that it replaces is rejected").waitFor()
      })
      const { feedback } = yield* reviewer.feedback.list({ query: { inference_log_id: trace_id } })
      assert.deepStrictEqual(
        feedback.map(({ correction, status }) => [status, correction]),
        [
          ["staged", { category: "shipping", confidence: 0.5 }],
          ["rejected", { category: "billing", confidence: 0.5 }]
        ]
      )
      assert.strictEqual(feedback[1]?.review_note, `Replaced by ${feedback[0]?.id}`)
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))
})
